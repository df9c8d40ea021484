# SPDX-License-Identifier: Apache-2.0
"""Jobs of `multiKueue.externalFrameworks`, which other controllers queue and Kuota dispatches."""

from __future__ import annotations

import asyncio

from kuota.api.base import Json, Key
from kuota.api.config.frameworks import GroupVersionKind
from kuota.api.config.shapes import MultiKueue
from kuota.api.gates import Gate, Gates
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.bridge.jobs.dispatch import Dispatch
from kuota.control.cluster_cache import ClusterCache
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.informer import Informer
from kuota.kube.resources import Resource

_GATE = Gate.MultiKueueAdaptersForCustomJobs


class ExternalDispatch(Dispatch):
    """A kind that Kuota knows by its name only. Its whole status is copied."""

    def refusal(self, job: Json, gates: Gates) -> str:
        if not gates.on(_GATE):
            return f"the feature gate {_GATE} is disabled"
        return super().refusal(job, gates)


class ExternalJobs:
    """The external jobs of the manager's cluster, kept up to date by watches."""

    def __init__(
        self, client: Client, clock: Clock, cache: ClusterCache, multi: MultiKueue
    ) -> None:
        named = (GroupVersionKind.parse(each.name) for each in multi.external_frameworks or ())
        known = cache.jobs.keys()
        kinds = [each for each in named if each and (each.group, each.kind) not in known]
        found = [ExternalDispatch(each, ("spec", "managedBy")) for each in kinds]
        self.dispatches: dict[GroupKind, Dispatch] = {each.group_kind: each for each in found}
        self._informers = {
            each.group_kind: Informer[Json](client, _resource(each), clock=clock) for each in found
        }
        self.resources: dict[str, Resource] = {each.name: _resource(each) for each in found}
        known_kinds = dict(cache.resources)
        cache.add(self._informers.values())
        # The name of a kind alone may be that of another group.
        cache.resources = known_kinds | self.resources

    @property
    def kinds(self) -> dict[GroupKind, Resource]:
        return {at: each.resource for at, each in self._informers.items()}

    def get(self, kind: GroupKind, key: Key) -> Json | None:
        """Return a job; None if it does not exist."""
        informer = self._informers.get(kind)
        return informer.get(key) if informer is not None else None

    async def run(self) -> None:
        """Watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for each in self._informers.values():
                group.create_task(each.run())


def _resource(dispatch: Dispatch) -> Resource:
    return Resource.of(dispatch.gvk, dispatch.gvk.plural)
