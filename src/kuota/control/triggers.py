# SPDX-License-Identifier: Apache-2.0
"""Decides which objects are reconciled when something changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from kuota.api.base import Json, Key
from kuota.api.gates import Gate
from kuota.bridge.changes import (
    checks_of,
    finalizer_changes,
    flavors_of,
    only_status_changed,
    priority_value_changed,
    unreferenced,
)
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.bridge.jobs.kind import JobKey
from kuota.engine.affected import AffectedQueues
from kuota.engine.engine import Engine
from kuota.kube import resources as kinds
from kuota.kube.resources import Resource, key_of
from kuota.kube.workqueue import WorkQueue

from .cached_object import CachedObject
from .cluster_cache import ClusterCache
from .job_caches import NAMESPACE, PRIORITY, REFERENCE, reference_index_key
from .reconcile_queue import ObjectRef

Change = CachedObject[Any] | None

MEMBERS_S = 0.1
"""Changes of members of a composed job within this time are handled by one pass."""


class Triggers:
    """Adds keys to work queues when objects change.

    `mark` enqueues objects whose status may have changed, and says whether only counters did.
    `due_in_s` returns the delay until a changed Workload needs a pass, or None.
    """

    def __init__(
        self,
        cache: ClusterCache,
        engine: Engine,
        workloads: WorkQueue[Key],
        jobs: WorkQueue[JobKey],
        classes: WorkQueue[Key],
        mark: Callable[[ObjectRef, bool], None],
        due_in_s: Callable[[StoredWorkload], float | None],
    ) -> None:
        self._cache = cache
        self._engine = engine
        self._workloads = workloads
        self._jobs = jobs
        self._classes = classes
        self._mark_changed = mark
        self._due_in_s = due_in_s

    def follow(self) -> None:
        cache = self._cache
        for kind, informer in cache.job_caches.observed():
            informer.observe(partial(self._job, kind))
        for kind, informer in cache.referred.items():
            informer.observe(partial(self._referred, kind))
        cache.workloads.observe(self._workload)
        cache.namespaces.observe(self._namespace)
        cache.limit_ranges.observe(self._limits)
        cache.runtime_classes.observe(self._limits)
        if cache.devices is not None:
            cache.devices.observe(self._devices)
        cache.workload_classes.observe(self._class)
        cache.local_queues.observe(self._local_queue)
        cache.cluster_queues.observe(self._cluster_queue)
        cache.cohorts.observe(self._cohort)
        cache.flavors.observe(self._flavor)
        if self._engine.policy.on(Gate.TopologyAwareScheduling):
            cache.topologies.observe(self._topology)
        cache.checks.observe(self._check)

    def enqueue_affected(self, affected: AffectedQueues) -> None:
        """Enqueue the queues and cohorts that a fact affected."""
        mark, counters_only = self._mark_changed, affected.counters_only
        for name in affected.cluster_queues:
            if name:
                mark((kinds.CLUSTER_QUEUES, Key("", name)), counters_only)
        for key in affected.local_queues:
            mark((kinds.LOCAL_QUEUES, key), counters_only)
        for name in affected.cohorts:
            mark((kinds.COHORTS, Key("", name)), counters_only)

    def _job(self, kind: GroupKind, old: Json | None, new: Json | None) -> None:
        """Enqueue the jobs that an object belongs to, and those that it belonged to.

        A pass over a composed job reads all its members, so their changes are collected.
        """
        for job, composed in self._cache.job_caches.jobs_affected_by(kind, old, new):
            self._jobs.add_after(job, MEMBERS_S if composed else 0)

    def _referred(self, kind: GroupKind, old: Json | None, new: Json | None) -> None:
        """Enqueue the jobs that depend on an object."""
        found = new or old
        assert found is not None
        self._add_jobs(REFERENCE, reference_index_key(kind, key_of(found)))

    def _workload(
        self, old: CachedObject[StoredWorkload] | None, new: CachedObject[StoredWorkload] | None
    ) -> None:
        cached = _either(old, new)
        # The job comes first: it starts before its Workload is evicted for not being ready in time.
        for job in self._cache.owners(cached.json, deleted=new is None):
            self._jobs.add(job)
        if new is not None:
            if old is not None and new.value is not None:
                self._workloads.reschedule(new.key, self._due_in_s(new.value))
            else:
                self._workloads.add(new.key)

    def _namespace(self, old: Change, new: Change) -> None:
        name = _either(old, new).key.name
        if _labels(old) != _labels(new):
            self._add_jobs(NAMESPACE, name)
            self._add(self._workloads, (each.key for each in self._cache.waiting_in(name)))

    def _limits(self, old: Change, new: Change) -> None:
        """Enqueue pending Workloads, whose effective requests and faults may change."""
        waiting = self._cache.waiting_in(_either(old, new).key.namespace)
        self._add(self._workloads, (each.key for each in waiting))

    def _devices(self, namespace: str) -> None:
        """Enqueue pending Workloads that request devices."""
        for each in self._cache.waiting_in(namespace):
            known = self._engine.state.workloads.get(each.key)
            if known is not None and (known.devices_unknown or known.requeued is False):
                self._workloads.add(each.key)

    def _class(self, old: Change, new: Change) -> None:
        if new is None or not priority_value_changed(_json(old), new.json):
            return
        self._classes.add(new.key)
        if old is None:
            self._add_jobs(PRIORITY, new.key.name)

    def _local_queue(self, old: Change, new: Change) -> None:
        key = _either(old, new).key
        self._mark((kinds.LOCAL_QUEUES, key))
        if not _only_status_changed(old, new):
            self._add(self._workloads, (each.key for each in self._cache.workloads_in(key)))

    def _cluster_queue(self, old: Change, new: Change) -> None:
        key, state = _either(old, new).key, self._engine.state
        self._mark((kinds.CLUSTER_QUEUES, key))
        if _only_status_changed(old, new):
            return
        self._queue_changed(key.name)
        before, after = _value(old), _value(new)
        free = unreferenced(flavors_of(before), flavors_of(after), state.by_flavor)
        self._mark_each(kinds.RESOURCE_FLAVORS, (Key("", name) for name in free))
        free = unreferenced(checks_of(before), checks_of(after), state.by_check)
        self._mark_each(kinds.ADMISSION_CHECKS, (Key("", name) for name in free))

    def _cohort(self, old: Change, new: Change) -> None:
        self._mark((kinds.COHORTS, _either(old, new).key))

    def _flavor(self, old: Change, new: Change) -> None:
        name = _either(old, new).key.name
        if new is None or finalizer_changes(_json(old), new.json):
            self._mark((kinds.RESOURCE_FLAVORS, Key("", name)))
        if new is None:
            self._topology_released(old)
        if not _only_status_changed(old, new):
            for queue in self._engine.state.by_flavor.of(name):
                self._queue_changed(queue)

    def _topology_released(self, flavor: Change) -> None:
        """Enqueue the Topology of a deleted flavor, which it may have kept from being deleted."""
        value = _value(flavor)
        name = value.spec.topology_name if value is not None else None
        if name:
            self._mark((kinds.TOPOLOGIES, Key("", name)))

    def _topology(self, old: Change, new: Change) -> None:
        if finalizer_changes(_json(old), _json(new)):
            self._mark((kinds.TOPOLOGIES, _either(old, new).key))

    def _check(self, old: Change, new: Change) -> None:
        name = _either(old, new).key.name
        self._mark((kinds.ADMISSION_CHECKS, Key("", name)))
        for queue in self._engine.state.by_check.of(name):
            self._queue_changed(queue)

    def _queue_changed(self, name: str) -> None:
        """Enqueue all Workloads of a ClusterQueue, pending and running."""
        queue = self._engine.state.queues.get(name)
        if queue is not None:
            self._add(self._workloads, list(queue.running))
        for local in self._engine.queues.local_queues_of(name):
            self._add(self._workloads, (each.key for each in self._cache.workloads_in(local)))

    def _mark(self, name: ObjectRef) -> None:
        self._mark_changed(name, False)

    def _mark_each(self, resource: Resource, keys: Iterable[Key]) -> None:
        for key in keys:
            self._mark((resource, key))

    def _add_jobs(self, index: str, word: str) -> None:
        caches = self._cache.job_caches
        for kind, informer in caches.informers.items():
            for obj in informer.indexed(index, word):
                for job in caches.jobs_of(kind, obj):
                    self._jobs.add(job)

    @staticmethod
    def _add(queue: WorkQueue[Key], keys: Iterable[Key]) -> None:
        for key in keys:
            queue.add(key)


def _either(old: Change, new: Change) -> CachedObject[Any]:
    cached = new or old
    assert cached is not None
    return cached


def _only_status_changed(old: Change, new: Change) -> bool:
    """Whether only the status changed, which the controllers themselves write."""
    return only_status_changed(_json(old), _json(new))


def _json(change: Change) -> Json | None:
    return change.json if change is not None else None


def _value(change: Change) -> Any:
    return change.value if change is not None else None


def _labels(change: Change) -> Any:
    return change.json["metadata"].get("labels") if change is not None else None
