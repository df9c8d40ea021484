# SPDX-License-Identifier: Apache-2.0
"""Keeps the pods of Deployments and StatefulSets, as the rules of the kind decide."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import AlreadyExists, ApiError, NotFound
from kuota.kube.events import Recorder
from kuota.kube.informer import Informer
from kuota.kube.resources import PODS, key_of
from kuota.kube.workqueue import serve

from .controller import Controller
from .cron_controller import OWNER, owner_uids
from .deployment_rules import deployment_step
from .job_controller import created
from .job_pods import PodView, controller_of
from .replicas import ReplicaStep
from .stateful_set_rules import stateful_set_step

Rules = Callable[[Json, Sequence[Json], float], ReplicaStep]
"""Returns the next step of an object, given the pods that it controls and the time."""
REPLICA_RULES: Mapping[tuple[str, str], Rules] = {
    ("apps", "Deployment"): deployment_step,
    ("apps", "StatefulSet"): stateful_set_step,
}
"""The kinds whose pods are created one by one."""


class ReplicaController(Controller):
    """Reconciles the objects of one informer with their pods while `run` runs.

    The caller must run both informers.
    """

    def __init__(
        self,
        client: Client,
        objects: Informer[Json],
        pods: Informer[Json],
        rules: Rules,
        *,
        clock: Clock | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self._kind = objects.resource.kind
        super().__init__(f"{self._kind.lower()}-controller", client, objects, clock, recorder)
        self._pods = pods
        pods.add_index(OWNER, owner_uids)
        self._rules = rules

    async def run(self) -> None:
        """Reconcile until cancelled."""
        await asyncio.gather(self._objects.synced.wait(), self._pods.synced.wait())
        self._objects.observe(self._object_changed)
        self._pods.observe(self._pod_changed)
        await serve(self._queue, self.reconcile, stuck=self._stuck)

    def _object_changed(self, old: Json | None, new: Json | None) -> None:
        if new is not None:
            self._queue.add(key_of(new))

    def _pod_changed(self, old: Json | None, new: Json | None) -> None:
        pod = new or old
        owner = None if pod is None else controller_of(pod)
        if pod is not None and owner is not None and owner.get("kind") == self._kind:
            self._queue.add(Key(key_of(pod).namespace, owner["name"]))

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one object. Returns the seconds until the next check."""
        obj = self._objects.get(key)
        if obj is None:
            return None
        step = self._rules(obj, self._pods_of(obj), self._now())
        for view in step.delete:
            await self._delete(obj, view)
        await self._create(obj, step.create)
        if step.delete or step.create:
            step = self._rules(obj, self._pods_of(obj), self._now())
        await self._write_status(obj, step.status)
        return None if step.retry_at is None else max(0.0, step.retry_at - self._now())

    def _pods_of(self, obj: Json) -> list[Json]:
        namespace = key_of(obj).namespace
        found = self._pods.indexed(OWNER, obj["metadata"]["uid"])
        return [each for each in found if key_of(each).namespace == namespace]

    async def _create(self, obj: Json, pods: Sequence[Json]) -> None:
        names = []
        try:
            for pod in pods:
                made = await self._client.create(PODS, pod)
                self._pods.wrote(made)
                names.append(made["metadata"]["name"])
        except AlreadyExists as error:
            words = f"{error.message}; delete that pod, which does not belong to this {self._kind}"
            self._say(obj, "FailedCreate", words, warning=True)
            raise
        except ApiError as error:
            self._say(obj, "FailedCreate", f"Error creating: {error.message}", warning=True)
            raise
        finally:
            if names:
                self._say(obj, "SuccessfulCreate", created(names))

    async def _delete(self, obj: Json, view: PodView) -> None:
        try:
            answer = await self._client.delete(PODS, key_of(view.pod), uid=view.uid)
        except NotFound:
            return
        self._pods.wrote(answer)
        self._say(obj, "SuccessfulDelete", f"Deleted pod: {view.name}")


def replica_controllers(
    client: Client,
    pods: Informer[Json],
    others: Mapping[tuple[str, str], Informer[Json]],
    clock: Clock,
    recorder: Recorder | None,
) -> list[ReplicaController]:
    """The controllers of those job kinds whose pods are created one by one."""
    return [
        ReplicaController(
            client, objects, pods, REPLICA_RULES[kind], clock=clock, recorder=recorder
        )
        for kind, objects in others.items()
        if kind in REPLICA_RULES
    ]
