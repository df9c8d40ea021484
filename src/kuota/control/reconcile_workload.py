# SPDX-License-Identifier: Apache-2.0
"""Reconciles Workloads, using `kuota.bridge.lifecycle`, and their WorkloadPriorityClasses."""

from __future__ import annotations

import random

from kuota.api.base import Key
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.lifecycle import reconcile_workload
from kuota.bridge.lifecycle_checks import priority_updates
from kuota.bridge.lifecycle_view import LifecycleConfig, WorkloadPassInput
from kuota.engine.engine import Engine
from kuota.kube.clock import Clock

from .cluster_cache import ClusterCache
from .effects import EffectSender
from .job_caches import PRIORITY

JITTER = 0.0001
"""The largest fraction that is added to a backoff, so that workloads do not return all at once."""


class WorkloadReconciler:
    """Reads from a ClusterCache and from the engine, and writes through `sender`."""

    def __init__(
        self,
        cache: ClusterCache,
        engine: Engine,
        sender: EffectSender,
        clock: Clock,
        config: LifecycleConfig,
    ) -> None:
        self._cache = cache
        self._engine = engine
        self._sender = sender
        self._clock = clock
        self._config = config

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile one Workload. Returns the seconds until the next pass, if any."""
        async with self._sender.locks.hold(key):
            cached = self._cache.workload(key)
            if cached is None or cached.value is None:
                return None
            result = reconcile_workload(self.view(cached.value), self._clock.now().timestamp())
            await self._sender.send(result.effects)
        return result.requeue_after_s

    def due_in_s(self, stored: StoredWorkload) -> float | None:
        """Return the delay until a pass over this state has something to write; None if never.

        Most changes need no pass. A pass that fails is due, so that its failure is reported.
        """
        try:
            result = reconcile_workload(self.view(stored), self._clock.now().timestamp())
        except Exception:
            return 0.0
        return 0.0 if result.effects else result.requeue_after_s

    def view(self, stored: StoredWorkload) -> WorkloadPassInput:
        """Collect the inputs of a pass."""
        obj, state = stored.obj, self._engine.state
        local = Key(obj.metadata.namespace, obj.spec.queue_name)
        local_queue = state.local_queues.get(local)
        name = local_queue.cluster_queue if local_queue is not None else ""
        if stored.reserved and obj.status.admission is not None:
            name = obj.status.admission.cluster_queue
        queue = state.queues.get(name)
        known = state.workloads.get(obj.key)
        return WorkloadPassInput(
            stored=stored,
            config=self._config,
            local_queue=local_queue,
            local_queue_deleting=self._deleting(local),
            cluster_queue=queue.spec if queue is not None else None,
            cluster_queue_active=state.is_schedulable(name),
            namespace_matches=queue is None or state.admits(name, obj.metadata.namespace),
            faults=known.faults if known is not None else (),
            devices_unknown=known is not None and known.devices_unknown,
            jitter=random.random() * JITTER,
        )

    def _deleting(self, local_queue: Key) -> bool:
        cached = self._cache.local_queues.get(local_queue)
        return cached is not None and bool(cached.json["metadata"].get("deletionTimestamp"))


class PriorityClassReconciler:
    """Reads from a ClusterCache and writes through `sender`."""

    def __init__(self, cache: ClusterCache, sender: EffectSender) -> None:
        self._cache = cache
        self._sender = sender

    async def reconcile(self, key: Key) -> float | None:
        """Update the priority of every Workload of the class, one after the other.

        All of them are tried; the first failure is raised.
        """
        cached = self._cache.workload_classes.get(key)
        if cached is None or cached.value is None:
            return None
        value = cached.value
        named = self._cache.workloads.indexed(PRIORITY, key.name)
        stale = [each for each in named if each.value and priority_updates(value, [each.value])]
        failures: list[Exception] = []
        for each in stale:
            async with self._sender.locks.hold(each.key):
                newest = self._cache.workload(each.key)
                if newest is not None and newest.value is not None:
                    try:
                        await self._sender.send(priority_updates(value, [newest.value]))
                    except Exception as error:
                        failures.append(error)
        if failures:
            raise failures[0]
        return None
