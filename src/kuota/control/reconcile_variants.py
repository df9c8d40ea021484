# SPDX-License-Identifier: Apache-2.0
"""Reconciles a parent Workload and its variants, using `kuota.bridge.lifecycle_variants`.

Runs only if the feature gate is enabled.
"""

from __future__ import annotations

from typing import Any

from kuota.api.base import Key
from kuota.bridge.changes import only_status_changed
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.jobs.kind import JobKey
from kuota.bridge.lifecycle_variants import reconcile_variants
from kuota.bridge.lifecycle_view import LifecycleConfig, VariantsPassInput
from kuota.bridge.variants import is_parent, parent_of
from kuota.engine.engine import Engine
from kuota.engine.model import ClusterQueue
from kuota.kube.clock import Clock
from kuota.kube.resources import WORKLOADS
from kuota.kube.workqueue import WorkQueue

from .cached_object import CachedObject
from .cluster_cache import ClusterCache
from .effects import EffectSender

_WORKLOAD = (WORKLOADS.group, WORKLOADS.kind)


class VariantReconciler:
    """Enqueues parents in `queue` when they, their variants or their queues change."""

    def __init__(
        self,
        cache: ClusterCache,
        engine: Engine,
        sender: EffectSender,
        clock: Clock,
        config: LifecycleConfig,
    ) -> None:
        self.queue: WorkQueue[Key] = WorkQueue(clock)
        self._cache = cache
        self._engine = engine
        self._sender = sender
        self._clock = clock
        self._config = config

    def follow(self) -> None:
        """Enqueue all existing parents, and observe every later change."""
        self._cache.workloads.observe(self._workload)
        self._cache.local_queues.observe(self._local_queue)
        self._cache.cluster_queues.observe(self._cluster_queue)

    async def reconcile(self, key: Key) -> float | None:
        """Reconcile a parent and its variants. Returns the seconds until the next pass, if any."""
        async with self._sender.locks.hold(key, *(each.key for each in self._variants_of(key))):
            result = reconcile_variants(self.view(key), self._clock.now().timestamp())
            await self._sender.send(result.effects)
        return result.requeue_after_s

    def view(self, key: Key) -> VariantsPassInput:
        """Collect the inputs of a pass."""
        found = [each.value for each in self._variants_of(key)]
        return VariantsPassInput(
            parent=self._cache.stored_workload(key),
            variants=tuple(each for each in found if each is not None and not each.deleting),
            queue=self._queue_of(key),
            config=self._config,
        )

    def _variants_of(self, parent: Key) -> list[CachedObject[StoredWorkload]]:
        return self._cache.workloads_of(JobKey(_WORKLOAD, parent))

    def _queue_of(self, parent: Key) -> ClusterQueue | None:
        state = self._engine.state
        known = state.workloads.get(parent)
        queue = state.queues.get(state.queue_of(known)) if known is not None else None
        return queue.spec if queue is not None else None

    def _workload(
        self, old: CachedObject[StoredWorkload] | None, new: CachedObject[StoredWorkload] | None
    ) -> None:
        for each in (old, new):
            if each is None or each.value is None:
                continue
            meta = each.value.obj.metadata
            owner = parent_of(meta)
            if owner is not None:
                self.queue.add(Key(meta.namespace, owner.name))
            elif is_parent(meta) or self._variants_of(each.key):
                self.queue.add(each.key)

    def _local_queue(self, old: CachedObject[Any] | None, new: CachedObject[Any] | None) -> None:
        if new is not None and not _only_status_changed(old, new):
            self._add_waiting(new.key)

    def _cluster_queue(self, old: CachedObject[Any] | None, new: CachedObject[Any] | None) -> None:
        if new is None or _only_status_changed(old, new):
            return
        for local in self._engine.queues.local_queues_of(new.key.name):
            self._add_waiting(local)

    def _add_waiting(self, local_queue: Key) -> None:
        for cached in self._cache.workloads_in(local_queue):
            if cached.value is not None and is_parent(cached.value.obj.metadata):
                self.queue.add(cached.key)


def _only_status_changed(old: CachedObject[Any] | None, new: CachedObject[Any]) -> bool:
    return only_status_changed(old.json if old is not None else None, new.json)
