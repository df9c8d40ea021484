# SPDX-License-Identifier: Apache-2.0
"""Writes the quota and the condition of ClusterQueues whose quota follows their workers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from kuota.api.base import Json, Key, Object
from kuota.api.kueue import ClusterQueue, LocalQueue
from kuota.bridge.conditions import Conditions
from kuota.bridge.effects import Effect, Patch, StatusPatch
from kuota.control.cached_object import CachedObject
from kuota.control.cluster_cache import ClusterCache
from kuota.control.effects import EffectSender
from kuota.control.observer import Instrument
from kuota.kube.clock import Clock
from kuota.kube.workqueue import WorkQueue, serve

from .objects import MultiKueueObjects
from .quota import CONDITION, QuotaAutomation, WorkerQueues, automation
from .remote import CLUSTER_QUEUE, LOCAL_QUEUE, RemoteChange, RemoteClusters

CONTROLLER = "multikueue_clusterqueue"
"""The name of the loop in metrics, as in Kueue."""
BATCH_S = 1.0
"""Changes within this time are processed together."""

T = TypeVar("T", bound=Object)


class QuotaWriter:
    """Reconciles ClusterQueues, if the gate MultiKueueManagerQuotaAutomation is enabled."""

    def __init__(
        self,
        cache: ClusterCache,
        sender: EffectSender,
        clock: Clock,
        objects: MultiKueueObjects,
        clusters: RemoteClusters,
    ) -> None:
        self._cache, self._sender, self._clock = cache, sender, clock
        self._objects, self._clusters = objects, clusters
        self.queue: WorkQueue[Key] = WorkQueue(clock)

    def follow(self) -> None:
        """Reconcile all existing queues, and all of them after a change of what they depend on."""
        cache, objects = self._cache, self._objects
        cache.cluster_queues.observe(self._queue)
        cache.local_queues.observe(self._spec_changed)
        cache.checks.observe(self._spec_changed)
        objects.configs.observe(self._spec_changed)
        self._clusters.observe(self._remote)
        self._clusters.observe_connections(lambda name: self._add_all())

    async def run(self, instrument: Instrument) -> None:
        """Reconcile until closed."""
        await serve(self.queue, instrument(CONTROLLER, self.reconcile))

    async def reconcile(self, key: Key) -> float | None:
        """Write the quota and the condition of one queue, if they have changed."""
        cached = self._cache.cluster_queues.get(key)
        if cached is None or cached.value is None:
            return None
        cache, objects = self._cache, self._objects
        found = automation(
            cached.value,
            [each.value for each in cache.checks.values() if each.value],
            objects.config_map(),
            [each.value for each in cache.local_queues.values() if each.value],
            self._workers(),
        )
        await self._sender.send([*_quota(cached, found), *self._condition(cached, found)])
        return None

    def _workers(self) -> Mapping[str, WorkerQueues]:
        return {
            each.name: WorkerQueues(
                _decoded(each.all(CLUSTER_QUEUE), ClusterQueue),
                _decoded(each.all(LOCAL_QUEUE), LocalQueue),
            )
            for each in self._clusters.active()
        }

    def _condition(
        self, cached: CachedObject[ClusterQueue], found: QuotaAutomation | None
    ) -> list[Effect]:
        assert cached.value is not None
        now, generation = self._clock.now().timestamp(), cached.value.metadata.generation
        conditions = Conditions(cached.value.status.conditions, now, generation)
        if found is None:
            conditions.drop(CONDITION)
        else:
            conditions.put(CONDITION, found.automated, found.reason, found.message)
        if not conditions.changed:
            return []
        status = {"conditions": conditions.json()}
        return [
            StatusPatch(
                key=cached.key, resource_version=cached.version, status=status, kind="ClusterQueue"
            )
        ]

    def _queue(self, old: CachedObject[Any] | None, new: CachedObject[Any] | None) -> None:
        if new is not None and (old is None or old.json.get("spec") != new.json.get("spec")):
            self.queue.add_after(new.key, BATCH_S)

    def _spec_changed(self, old: CachedObject[Any] | None, new: CachedObject[Any] | None) -> None:
        if old is None or new is None or old.json.get("spec") != new.json.get("spec"):
            self._add_all()

    def _remote(self, change: RemoteChange) -> None:
        if change.kind not in (CLUSTER_QUEUE, LOCAL_QUEUE):
            return
        before, after = change.old, change.new
        if before is None or after is None or before.get("spec") != after.get("spec"):
            self._add_all()

    def _add_all(self) -> None:
        for key in list(self._cache.cluster_queues.keys()):
            self.queue.add_after(key, BATCH_S)


def _quota(cached: CachedObject[ClusterQueue], found: QuotaAutomation | None) -> list[Effect]:
    if found is None or found.resources is None:
        return []
    group: Json = cached.json["spec"]["resourceGroups"][0]
    flavor = group["flavors"][0] | {"resources": found.resources}
    body = {"spec": {"resourceGroups": [group | {"flavors": [flavor]}]}}
    return [Patch(key=cached.key, resource_version=cached.version, body=body, kind="ClusterQueue")]


def _decoded(objects: Any, kind: type[T]) -> list[T]:
    """Return the objects that can be decoded; a worker may run another version of Kueue."""
    found = []
    for each in objects:
        try:
            found.append(msgspec.convert(each, kind))
        except (msgspec.ValidationError, ValueError, TypeError):
            continue
    return found
