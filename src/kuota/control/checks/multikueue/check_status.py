# SPDX-License-Identifier: Apache-2.0
"""Publishes whether the AdmissionChecks of MultiKueue are active."""

from __future__ import annotations

from typing import Any

from kuota.api.base import Key
from kuota.api.kueue import AdmissionCheck, MultiKueueCluster, MultiKueueConfig
from kuota.bridge.conditions import Conditions
from kuota.bridge.effects import StatusPatch
from kuota.control.cached_object import CachedObject
from kuota.control.effects import Sender
from kuota.control.world import World
from kuota.kube.clock import Clock
from kuota.kube.workqueue import WorkQueue, serve

from .activity import ACTIVE, active_condition, check_activity
from .objects import MultiKueueObjects
from .references import config_name, is_multikueue, lists_others


class CheckStatus:
    """Reconciles the condition Active of AdmissionChecks that MultiKueue is responsible for."""

    def __init__(
        self, world: World, sender: Sender, clock: Clock, objects: MultiKueueObjects
    ) -> None:
        self._world, self._sender, self._clock, self._objects = world, sender, clock, objects
        self.queue: WorkQueue[Key] = WorkQueue(clock)

    def follow(self) -> None:
        """Reconcile all existing checks, and those that a later change concerns."""
        self._world.checks.observe(self._check)
        self._objects.configs.observe(self._config)
        self._objects.clusters.observe(self._cluster)

    async def run(self) -> None:
        await serve(self.queue, self.reconcile)

    async def reconcile(self, key: Key) -> float | None:
        """Write the condition of a check if it has changed."""
        cached = self._world.checks.get(key)
        if cached is None or cached.value is None or not is_multikueue(cached.value):
            return None
        check: AdmissionCheck = cached.value
        objects = self._objects
        found = check_activity(check, objects.config_map(), objects.cluster_map())
        now, generation = self._clock.now().timestamp(), check.metadata.generation
        conditions = Conditions(check.status.conditions, now, generation)
        conditions.put(ACTIVE, found.active, found.reason, found.message)
        if conditions.changed:
            status = {"conditions": conditions.json()}
            patch = StatusPatch(
                key=key, resource_version=cached.version, status=status, kind="AdmissionCheck"
            )
            await self._sender.send([patch])
        return None

    def _check(self, old: CachedObject[Any] | None, new: CachedObject[Any] | None) -> None:
        if new is not None and new.value is not None and is_multikueue(new.value):
            self.queue.add(new.key)

    def _config(
        self,
        old: CachedObject[MultiKueueConfig] | None,
        new: CachedObject[MultiKueueConfig] | None,
    ) -> None:
        cached = new or old
        assert cached is not None
        if old and new and old.value and new.value and not lists_others(old.value, new.value):
            return
        self._add_users({cached.key.name})

    def _cluster(
        self,
        old: CachedObject[MultiKueueCluster] | None,
        new: CachedObject[MultiKueueCluster] | None,
    ) -> None:
        cached = new or old
        assert cached is not None
        if old and new and old.value and new.value:
            before, after = active_condition(old.value), active_condition(new.value)
            if before == after:
                return
        configs = self._objects.config_map()
        users = (n for n, each in configs.items() if cached.key.name in (each.spec.clusters or ()))
        self._add_users(set(users))

    def _add_users(self, configs: set[str]) -> None:
        for each in self._world.checks.values():
            if each.value is not None and config_name(each.value) in configs:
                self.queue.add(each.key)
