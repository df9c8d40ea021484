# SPDX-License-Identifier: Apache-2.0
"""Publishes the status of queues, and keeps the finalizers of objects that define quota.

Conditions and finalizers are written immediately. Counters of one object are written at most once a
second, and less often while they keep changing. Nothing is written without a change.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from kuota.api.base import Json, Key
from kuota.api.kueue import ClusterQueue
from kuota.bridge.effects import Effect, Patch, StatusPatch
from kuota.bridge.queue_status import (
    cluster_queue_conditions,
    cluster_queue_patch,
    cohort_patch,
    local_queue_conditions,
    local_queue_patch,
    wanted_finalizers,
)
from kuota.engine.engine import Engine
from kuota.kube import resources as kinds
from kuota.kube.clock import Clock
from kuota.kube.informer import Informer
from kuota.kube.resources import Resource

from .cached_object import CachedObject
from .cluster_cache import ClusterCache
from .effects import EffectSender

MIN_INTERVAL_S = 1.0
"""The shortest interval between a write of an object and the next write of its counters."""
MAX_INTERVAL_S = 3.0
"""The longest such interval, for counters that keep changing."""
SETTLE_S = 0.2
"""Delay of the first write of counters: a new workload is often admitted a moment later."""

ObjectRef = tuple[Resource, Key]


class _LastWrite(NamedTuple):
    """When the object with this uid was written, and how long its counters wait after that."""

    uid: str
    at: float
    interval_s: float


def _next_write(last: _LastWrite | None, uid: str, now: float) -> _LastWrite:
    """Record a write. If it follows the last one closely, the interval grows."""
    if last is None or last.uid != uid or now - last.at >= 2 * last.interval_s:
        return _LastWrite(uid, now, MIN_INTERVAL_S)
    return _LastWrite(uid, now, min(1.5 * last.interval_s, MAX_INTERVAL_S))


class QueueReconciler:
    """Keeps the status and finalizers of objects that define quota."""

    def __init__(
        self,
        cache: ClusterCache,
        engine: Engine,
        sender: EffectSender,
        clock: Clock,
        node_labels: Callable[[], frozenset[str] | None] = lambda: None,
    ) -> None:
        self._cache = cache
        self._engine = engine
        self._sender = sender
        self._clock = clock
        self._node_labels = node_labels
        self._last: dict[ObjectRef, _LastWrite] = {}
        self._informers: dict[Resource, Informer[Any]] = {
            kinds.CLUSTER_QUEUES: cache.cluster_queues,
            kinds.LOCAL_QUEUES: cache.local_queues,
            kinds.COHORTS: cache.cohorts,
            kinds.RESOURCE_FLAVORS: cache.flavors,
            kinds.ADMISSION_CHECKS: cache.checks,
            kinds.TOPOLOGIES: cache.topologies,
        }

    async def reconcile(self, name: ObjectRef) -> float | None:
        """Write what is due for one object, or return the delay until its counters are due."""
        resource, key = name
        cached: CachedObject[Any] | None = self._informers[resource].get(key)
        if cached is None:
            self._last.pop(name, None)
            return None
        if resource == kinds.LOCAL_QUEUES:
            self._engine.usage_tracker.sample_one(key, self._clock.now().timestamp())
        status = self._status(resource, key, cached)
        finalizers = self._finalizers(resource, key, cached.json)
        if finalizers is not None and cached.json["metadata"].get("deletionTimestamp"):
            # Removing the finalizer deletes the object, so its status need not be written.
            status = {}
        if not status and finalizers is None:
            return None
        if finalizers is None and "conditions" not in status:
            wait_s = self._interval_left_s(name, cached)
            if wait_s > 0:
                return wait_s
        await self._write(name, cached, status, finalizers)
        return None

    async def _write(
        self, name: ObjectRef, cached: CachedObject[Any], status: Json, finalizers: list[str] | None
    ) -> None:
        resource, key = name
        at: dict[str, Any] = {"key": key, "resource_version": cached.version, "kind": resource.kind}
        effects: list[Effect] = [StatusPatch(status=status, **at)] if status else []
        if finalizers is not None:
            effects.append(Patch(body={"metadata": {"finalizers": finalizers or None}}, **at))
        self._last[name] = _next_write(self._last.get(name), cached.uid, self._clock.monotonic())
        await self._sender.send(effects)

    def deleting(self, name: ObjectRef) -> bool:
        """Whether the object is being deleted. It may lose its finalizer with any change."""
        cached: CachedObject[Any] | None = self._informers[name[0]].get(name[1])
        return cached is not None and bool(cached.json["metadata"].get("deletionTimestamp"))

    def due_in_s(self, name: ObjectRef, *, counters_only: bool = False) -> float:
        """Return the delay until a changed object is written. Only counters are delayed.

        With `counters_only`, its conditions have not changed, but its finalizer may have.
        """
        resource, key = name
        cached: CachedObject[Any] | None = self._informers[resource].get(key)
        if cached is None or self._finalizers(resource, key, cached.json) is not None:
            return 0.0
        if not counters_only and self._conditions_change(resource, cached):
            return 0.0
        return max(SETTLE_S, self._interval_left_s(name, cached))

    def _interval_left_s(self, name: ObjectRef, cached: CachedObject[Any]) -> float:
        """Return the remaining delay of counters, ignoring an earlier object with the same name."""
        last = self._last.get(name)
        if last is None or last.uid != cached.uid:
            return 0.0
        return last.at + last.interval_s - self._clock.monotonic()

    def _conditions_change(self, resource: Resource, cached: CachedObject[Any]) -> bool:
        """Whether a condition has to be written."""
        engine, now, labels = self._engine, self._clock.now().timestamp(), self._node_labels()
        if resource == kinds.CLUSTER_QUEUES:
            queue = cached.value or _without_spec(cached.json)
            if queue is None:
                return False
            return cluster_queue_conditions(engine, queue, now, node_labels=labels).changed
        if resource == kinds.LOCAL_QUEUES and cached.value is not None:
            return local_queue_conditions(engine, cached.value, now, labels).changed
        return False

    def _status(self, resource: Resource, key: Key, cached: CachedObject[Any]) -> Json:
        engine, now, labels = self._engine, self._clock.now().timestamp(), self._node_labels()
        stored = cached.json.get("status") or {}
        if resource == kinds.CLUSTER_QUEUES:
            queue = cached.value or _without_spec(cached.json)
            if queue is None:
                return {}
            return cluster_queue_patch(engine, queue, stored, now, node_labels=labels)
        if cached.value is None:
            return {}
        if resource == kinds.LOCAL_QUEUES:
            return local_queue_patch(engine, cached.value, stored, now, labels)
        if resource == kinds.COHORTS:
            return cohort_patch(self._engine, key.name, stored)
        return {}

    def _finalizers(self, resource: Resource, key: Key, obj: Json) -> list[str] | None:
        """Return the finalizers that the object should have; None if it has them."""
        if resource in (kinds.LOCAL_QUEUES, kinds.COHORTS):
            return None
        meta = obj["metadata"]
        return wanted_finalizers(
            meta.get("finalizers") or [],
            deleting=bool(meta.get("deletionTimestamp")),
            in_use=self._in_use(resource, key.name),
        )

    def _in_use(self, resource: Resource, name: str) -> bool:
        state = self._engine.state
        if resource == kinds.CLUSTER_QUEUES:
            return name in state.queues and bool(state.queues[name].running)
        if resource == kinds.TOPOLOGIES:
            return bool(state.domains.with_topology(name))
        users = state.by_flavor if resource == kinds.RESOURCE_FLAVORS else state.by_check
        return name in users


def _without_spec(obj: Json) -> ClusterQueue | None:
    """Decode a ClusterQueue without its spec; None if that fails too."""
    try:
        return msgspec.convert({key: obj[key] for key in obj if key != "spec"}, ClusterQueue)
    except (msgspec.ValidationError, ValueError, TypeError):
        return None
