# SPDX-License-Identifier: Apache-2.0
"""All admission check controllers of a process, and the condition Active of AdmissionChecks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kuota.api.base import Key
from kuota.api.config.shapes import Configuration
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import MULTIKUEUE, AdmissionCheck
from kuota.bridge.conditions import Conditions
from kuota.bridge.effects import StatusPatch
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.informer import Informer
from kuota.kube.resources import ADMISSION_CHECKS, WORKLOADS
from kuota.kube.workqueue import WorkQueue, serve

from ..cached_object import CachedObject
from ..cluster_cache import ClusterCache
from ..effects import EffectSender
from ..observer import Instrument
from .controller import Activity, CheckController
from .loop import CheckLoop, ControllerDependencies
from .multikueue.cluster_connections import MakeClient
from .multikueue.controller import MultiKueueController
from .provisioning.controller import ProvisioningController
from .unclaimed import unclaimed


def builtin(shared: ControllerDependencies, gates: Gates) -> list[CheckLoop]:
    """Return the loops of the controllers that are part of Kueue."""
    return [CheckLoop(ProvisioningController(gates), shared)]


class CheckControllers:
    """Runs the controllers of Kueue and `plugins`, and reports on every AdmissionCheck.

    If two controllers have one name, the one in `plugins` runs. MultiKueue is no `CheckController`,
    because it also writes to other clusters.
    """

    def __init__(
        self,
        client: Client,
        cache: ClusterCache,
        sender: EffectSender,
        clock: Clock,
        gates: Gates,
        plugins: Iterable[CheckController] = (),
        *,
        config: Configuration | None = None,
        worker_clients: MakeClient | None = None,
    ) -> None:
        self._cache = cache
        self._sender = sender
        self._clock = clock
        self._checks: WorkQueue[Key] = WorkQueue(clock)
        shared = ControllerDependencies(client, cache, sender, clock, self._checks)
        loops = [*builtin(shared, gates), *(CheckLoop(each, shared) for each in plugins)]
        self._loops = {each.controller.name: each for each in loops}
        self._activities: dict[str, Callable[[AdmissionCheck], Activity | None]] = {
            name: each.activity for name, each in self._loops.items()
        }
        self.multikueue: MultiKueueController | None = None
        if gates.on(Gate.MultiKueue) and MULTIKUEUE not in self._loops:
            self.multikueue = MultiKueueController(
                client, cache, sender, clock, self._checks.add, config, gates, worker_clients
            )
            self._activities[MULTIKUEUE] = self.multikueue.activity

    def informers(self) -> Iterator[Informer[Any]]:
        """Yield the informers that the controllers run themselves."""
        for each in self._loops.values():
            yield from each.informers()

    async def run(self, instrument: Instrument) -> None:
        """Reconcile until closed."""
        self._cache.checks.observe(self._check)
        for each in self._loops.values():
            each.follow()
        async with asyncio.TaskGroup() as group:
            for each in self._loops.values():
                group.create_task(each.run(instrument, self._stuck_workload))
            if self.multikueue is not None:
                group.create_task(self.multikueue.run(instrument))
            passes = instrument("admissioncheck", self.reconcile)
            group.create_task(serve(self._checks, passes, stuck=self._stuck_check))

    def close(self) -> None:
        """Start nothing more."""
        self._checks.close()
        if self.multikueue is not None:
            self.multikueue.close()
        for each in self._loops.values():
            each.close()

    def depths(self) -> dict[str, int]:
        """Return the number of keys in each work queue."""
        found = {name: len(each.queue) for name, each in self._loops.items()}
        if self.multikueue is not None:
            found |= self.multikueue.depths()
        return found | {"admissioncheck": len(self._checks)}

    async def reconcile(self, key: Key) -> None:
        """Write the condition Active of one AdmissionCheck, if it changes."""
        cached = self._cache.checks.get(key)
        check = cached.value if cached is not None else None
        if cached is None or check is None or check.metadata.deletion_timestamp is not None:
            return
        activity = self._activities.get(check.spec.controller_name)
        found = unclaimed(check, self._activities) if activity is None else activity(check)
        if found is None:
            return
        meta = check.metadata
        now = self._clock.now().timestamp()
        conditions = Conditions(check.status.conditions, now, meta.generation)
        conditions.put("Active", *found)
        if conditions.changed:
            status = {"conditions": conditions.json()}
            patch = StatusPatch(
                key=key, resource_version=cached.version, status=status, kind=ADMISSION_CHECKS.kind
            )
            await self._sender.send([patch])

    def _check(
        self, old: CachedObject[AdmissionCheck] | None, new: CachedObject[AdmissionCheck] | None
    ) -> None:
        if new is not None:
            self._checks.add(new.key)

    def _stuck_workload(self, key: Key, error: Exception) -> None:
        self._sender.record_internal_error(WORKLOADS.kind, key, "Checking its admission", error)

    def _stuck_check(self, key: Key, error: Exception) -> None:
        self._sender.record_internal_error(ADMISSION_CHECKS.kind, key, "Reconciling it", error)
