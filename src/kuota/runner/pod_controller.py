# SPDX-License-Identifier: Apache-2.0
"""The common part of controllers that create and delete pods one by one."""

from __future__ import annotations

from collections.abc import Sequence

from kuota.api.base import Json
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import AlreadyExists, ApiError, NotFound
from kuota.kube.events import Recorder
from kuota.kube.informer import Informer
from kuota.kube.resources import PODS, key_of

from .controller import RunnerController
from .job_pods import PodView

_NAMED = 3
"""The number of pods that a message names."""


class PodController(RunnerController):
    """Reconciles the objects of one informer with their pods. `name` is the source of events."""

    def __init__(
        self,
        name: str,
        client: Client,
        objects: Informer[Json],
        pods: Informer[Json],
        clock: Clock | None,
        recorder: Recorder | None,
    ) -> None:
        super().__init__(name, client, objects, clock, recorder)
        self._pods = pods

    async def _create(self, obj: Json, pods: Sequence[Json]) -> None:
        names = []
        try:
            for pod in pods:
                made = await self._client.create(PODS, pod)
                self._pods.wrote(made)
                names.append(made["metadata"]["name"])
        except AlreadyExists as error:
            kind = self._objects.resource.kind
            words = f"{error.message}; delete that pod, which does not belong to this {kind}"
            self._say(obj, "FailedCreate", words, warning=True)
            raise
        except ApiError as error:
            self._say(obj, "FailedCreate", f"Error creating: {error.message}", warning=True)
            raise
        finally:
            if names:
                self._say(obj, "SuccessfulCreate", _created(names))

    async def _delete(self, obj: Json, view: PodView) -> None:
        try:
            answer = await self._client.delete(PODS, key_of(view.pod), uid=view.uid)
        except NotFound:
            return
        self._pods.wrote(answer)
        self._say(obj, "SuccessfulDelete", f"Deleted pod: {view.name}")


def _created(names: Sequence[str]) -> str:
    """One message for all pods of a step, because each event is a write."""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"Created pod{'s' * (len(names) > 1)}: {', '.join(names[:_NAMED])}{more}"
