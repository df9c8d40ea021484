# SPDX-License-Identifier: Apache-2.0
"""Publishes what queues use and whether they are active, and holds on to what is in use.

Each object is written at most once a second, however much happens, and never without a change.
"""

from __future__ import annotations

from typing import Any

from kuota.api.base import Json, Key
from kuota.bridge.effects import Effect, Patch, StatusPatch
from kuota.bridge.queue_status import (
    cluster_queue_patch,
    cohort_patch,
    held_finalizers,
    local_queue_patch,
)
from kuota.engine.activity import flavor_names
from kuota.engine.engine import Engine
from kuota.kube import resources as kinds
from kuota.kube.clock import Clock
from kuota.kube.informer import Informer
from kuota.kube.resources import Resource

from .effects import Sender
from .held import Held
from .world import World

APART_S = 1.0
"""Between two writes of one object."""

Name = tuple[Resource, Key]


class QueueReconciler:
    """Keeps status and finalizers of the objects that describe quota."""

    def __init__(self, world: World, engine: Engine, sender: Sender, clock: Clock) -> None:
        self._world = world
        self._engine = engine
        self._sender = sender
        self._clock = clock
        self._last: dict[Name, float] = {}
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
            self._last[name] = self._clock.monotonic()
            await self._sender.send(effects)
        return None

    def due_in_s(self, name: Name) -> float:
        """How long an object that changes now has to wait for its next write."""
        last = self._last.get(name)
        return 0.0 if last is None else max(0.0, last + APART_S - self._clock.monotonic())

    def _status(self, resource: Resource, key: Key, held: Held[Any]) -> Json:
        if held.value is None:
            return {}
        now = self._clock.now().timestamp()
        stored = held.json.get("status") or {}
        if resource == kinds.CLUSTER_QUEUES:
            return cluster_queue_patch(self._engine, held.value, stored, now)
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
        queues = self._engine.state.queues
        if resource == kinds.CLUSTER_QUEUES:
            return name in queues and bool(queues[name].running)
        if resource == kinds.RESOURCE_FLAVORS:
            return any(name in flavor_names(queue.spec) for queue in queues.values())
        return any(rule.name == name for queue in queues.values() for rule in queue.spec.checks)
