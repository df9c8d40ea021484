# SPDX-License-Identifier: Apache-2.0
"""Publishes what queues use and whether they are active, and holds on to what is in use.

Each object is written at most once a second, less often the longer it does not come to rest, and
never without a change.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from kuota.api.base import Json, Key
from kuota.api.kueue import ClusterQueue
from kuota.bridge.effects import Effect, Patch, StatusPatch
from kuota.bridge.queue_status import (
    cluster_queue_patch,
    cohort_patch,
    held_finalizers,
    local_queue_patch,
)
from kuota.engine.engine import Engine
from kuota.kube import resources as kinds
from kuota.kube.clock import Clock
from kuota.kube.informer import Informer
from kuota.kube.resources import Resource

from .effects import Sender
from .held import Held
from .world import World

APART_S = 1.0
"""Between two writes of one object, at least."""
MOST_APART_S = 3.0
"""Between two writes of one object that never rests."""
SETTLE_S = 0.2
"""Between a change and the first write: what arrives is often admitted a moment later."""

Name = tuple[Resource, Key]


class _Written(NamedTuple):
    """When an object was written, and how long it is left alone after that."""

    at: float
    apart_s: float


def _after(last: _Written | None, now: float) -> _Written:
    """One more write: one that follows closely upon another makes the next wait longer."""
    restless = last is not None and now - last.at < 2 * last.apart_s
    apart_s = min(1.5 * last.apart_s, MOST_APART_S) if last and restless else APART_S
    return _Written(now, apart_s)


class QueueReconciler:
    """Keeps status and finalizers of the objects that describe quota."""

    def __init__(self, world: World, engine: Engine, sender: Sender, clock: Clock) -> None:
        self._world = world
        self._engine = engine
        self._sender = sender
        self._clock = clock
        self._last: dict[Name, _Written] = {}
        self._held_by: dict[Resource, Informer[Any]] = {
            kinds.CLUSTER_QUEUES: world.cluster_queues,
            kinds.LOCAL_QUEUES: world.local_queues,
            kinds.COHORTS: world.cohorts,
            kinds.RESOURCE_FLAVORS: world.flavors,
            kinds.ADMISSION_CHECKS: world.checks,
        }

    async def reconcile(self, name: Name) -> float | None:
        """Write what is due about one object."""
        resource, key = name
        held: Held[Any] | None = self._held_by[resource].get(key)
        if held is None:
            self._last.pop(name, None)
            return None
        at: dict[str, Any] = {"key": key, "resource_version": held.version, "kind": resource.kind}
        effects: list[Effect] = []
        status = self._status(resource, key, held)
        if status:
            effects.append(StatusPatch(status=status, **at))
        finalizers = self._finalizers(resource, key, held.json)
        if finalizers is not None:
            effects.append(Patch(body={"metadata": {"finalizers": finalizers or None}}, **at))
        if effects:
            self._last[name] = _after(self._last.get(name), self._clock.monotonic())
            await self._sender.send(effects)
        return None

    def due_in_s(self, name: Name) -> float:
        """How long an object that changes now has to wait for its next write."""
        last = self._last.get(name)
        apart_s = last.at + last.apart_s - self._clock.monotonic() if last is not None else 0.0
        return max(SETTLE_S, apart_s)

    def _status(self, resource: Resource, key: Key, held: Held[Any]) -> Json:
        now = self._clock.now().timestamp()
        stored = held.json.get("status") or {}
        if resource == kinds.CLUSTER_QUEUES:
            queue = held.value or _without_spec(held.json)
            return cluster_queue_patch(self._engine, queue, stored, now) if queue else {}
        if held.value is None:
            return {}
        if resource == kinds.LOCAL_QUEUES:
            return local_queue_patch(self._engine, held.value, stored, now)
        if resource == kinds.COHORTS:
            return cohort_patch(self._engine, key.name, stored)
        return {}

    def _finalizers(self, resource: Resource, key: Key, obj: Json) -> list[str] | None:
        """The finalizers that the object should have; None when it has them."""
        if resource in (kinds.LOCAL_QUEUES, kinds.COHORTS):
            return None
        meta = obj["metadata"]
        return held_finalizers(
            meta.get("finalizers") or [],
            deleting=bool(meta.get("deletionTimestamp")),
            in_use=self._in_use(resource, key.name),
        )

    def _in_use(self, resource: Resource, name: str) -> bool:
        state = self._engine.state
        if resource == kinds.CLUSTER_QUEUES:
            return name in state.queues and bool(state.queues[name].running)
        users = state.by_flavor if resource == kinds.RESOURCE_FLAVORS else state.by_check
        return name in users


def _without_spec(obj: Json) -> ClusterQueue | None:
    """What can be said of a ClusterQueue whose spec cannot be read; None if it is not only that."""
    try:
        return msgspec.convert({key: obj[key] for key in obj if key != "spec"}, ClusterQueue)
    except (msgspec.ValidationError, ValueError, TypeError):
        return None
