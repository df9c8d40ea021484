# SPDX-License-Identifier: Apache-2.0
"""Observers of decisions and Workloads, for metrics. They change nothing."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kuota.api.base import Json, Key, true_condition
from kuota.api.core import GROUP_NAME
from kuota.api.podset import TOPOLOGY_GATE
from kuota.api.rules.metadata import label
from kuota.api.workload import Workload
from kuota.bridge.changes import removed_gates
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.bridge.jobs.kind import JobKey
from kuota.bridge.workload_pods import chain_of
from kuota.engine.decisions import CycleResult
from kuota.failures import tolerated
from kuota.kube import resources as kinds
from kuota.kube.clock import Clock
from kuota.kube.resources import Resource
from kuota.kube.workqueue import Reconcile

from .cached_object import CachedObject
from .cluster_cache import ClusterCache
from .driver import Driver

if TYPE_CHECKING:
    # Its loop is measured by an Instrument of this module.
    from .checks.multikueue.dispatcher import Dispatcher

METRICS = "metrics"
"""The name under which failures of an observer are counted."""

N = TypeVar("N", bound=Hashable)

_RESOURCES: dict[str, Resource] = {
    each.kind: each
    for each in (kinds.CLUSTER_QUEUES, kinds.LOCAL_QUEUES, kinds.COHORTS, kinds.WORKLOADS)
}


class Observer(Protocol):
    """Receives what happens. Called on the engine's event loop, so its methods must not block."""

    def cycle(self, outcome: CycleResult, took_s: float) -> None:
        """A cycle has ended."""

    def changed(self, old: Workload | None, new: Workload | None, now: float) -> None:
        """A Workload changed. Without `old`, it is new or was not known before."""

    def removed(self, kind: str, key: Key) -> None:
        """The object of a queue or cohort was deleted, or a LocalQueue was stopped."""

    def cohort_specified(self, name: str) -> None:
        """The spec of a Cohort, or of a ClusterQueue that names it, was created or changed."""

    def created(self, workload: Workload, job_kind: str, took_s: float) -> None:
        """A Workload was created this many seconds after its job."""

    def ungated(self, workload: Workload, gate: str, took_s: float, *, in_group: bool) -> None:
        """A pod lost its scheduling gate this many seconds after the admission of its Workload."""


class DispatchObserver(Protocol):
    """Receives what MultiKueue does."""

    def dispatched(self, cluster_queue: str, cluster: str) -> None:
        """A Workload was copied to a worker cluster."""

    def admitted_elsewhere(self, cluster_queue: str, cluster: str) -> None:
        """A worker cluster admitted a Workload."""


class Instrument(Protocol):
    """Wraps a reconciler in order to measure it."""

    def __call__(self, controller: str, reconcile: Reconcile[N]) -> Reconcile[N]:
        """Return the reconciler, measured under this name."""


def uninstrumented(controller: str, reconcile: Reconcile[N]) -> Reconcile[N]:
    """Return the reconciler unchanged."""
    return reconcile


class CacheReader:
    """The objects of a ClusterCache, for lookups by an observer."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache

    def metadata(self, kind: str, key: Key) -> Json:
        """Return the metadata of a queue, cohort or workload; empty if it does not exist."""
        found = self._cache.json(_RESOURCES[kind], key)
        metadata: Json = found["metadata"] if found is not None else {}
        return metadata

    def workload_priorities(self) -> dict[str, int]:
        """Return the priority of each WorkloadPriorityClass."""
        return {name: each.value for name, each in self._cache.classes().workloads.items()}

    def workloads(self) -> Iterator[Workload]:
        """Yield every Workload of a LocalQueue that could be decoded and has not finished."""
        for key in list(self._cache.local_queues.keys()):
            for each in self._cache.workloads_in(key):
                if each.value is not None:
                    yield each.value.obj


def attach_observer(observer: Observer, driver: Driver, cache: ClusterCache, clock: Clock) -> None:
    """Report every change from now on to the observer. Existing objects are not reported.

    No decision depends on an observer, so its failures are reported and otherwise ignored.
    """
    changes = _WorkloadChanges(observer, cache, clock)
    cache.workloads.observe(tolerated(METRICS, changes.changed))
    for resource, informer in (
        (kinds.CLUSTER_QUEUES, cache.cluster_queues),
        (kinds.LOCAL_QUEUES, cache.local_queues),
        (kinds.COHORTS, cache.cohorts),
    ):
        informer.observe(tolerated(METRICS, partial(changes.queue_changed, resource)))
    for kind, jobs in cache.job_caches.observed():
        jobs.observe(tolerated(METRICS, partial(changes.job_changed, kind)))
    cache.pods.observe(tolerated(METRICS, changes.pod_changed))
    changes.live = True
    driver.cycle_observers.append(tolerated(METRICS, observer.cycle))


def attach_dispatch_observer(observer: DispatchObserver, dispatcher: Dispatcher) -> None:
    """Report dispatches from now on to the observer."""
    dispatcher.on_dispatched.append(tolerated(METRICS, observer.dispatched))
    dispatcher.on_admitted.append(tolerated(METRICS, observer.admitted_elsewhere))


class _WorkloadChanges:
    """Translates changes of Workloads for an observer."""

    def __init__(self, observer: Observer, cache: ClusterCache, clock: Clock) -> None:
        self.live = False
        self._observer = observer
        self._cache = cache
        self._clock = clock

    def changed(
        self, old: CachedObject[StoredWorkload] | None, new: CachedObject[StoredWorkload] | None
    ) -> None:
        before, after = _workload(old), _workload(new)
        now = self._clock.now().timestamp()
        self._observer.changed(before, after, now)
        if (
            old is None
            and after is not None
            and self.live
            and self._cache.workloads.synced.is_set()
        ):
            ordered = self._job_creation(after)
            if ordered is not None:
                self._observer.created(after, ordered[0], now - ordered[1].timestamp())

    def queue_changed(
        self, resource: Resource, old: CachedObject[Any] | None, new: CachedObject[Any] | None
    ) -> None:
        stopped = resource == kinds.LOCAL_QUEUES and _stopped(new) and not _stopped(old)
        if old is not None and (new is None or stopped):
            self._observer.removed(resource.kind, old.key)
        if new is not None and (old is None or _generation(old) != _generation(new)):
            if resource == kinds.COHORTS:
                self._observer.cohort_specified(new.key.name)
            elif resource == kinds.CLUSTER_QUEUES and new.value is not None:
                self._observer.cohort_specified(new.value.spec.cohort_name or "")

    def job_changed(self, kind: GroupKind, old: Json | None, new: Json | None) -> None:
        if old is None or new is None:
            return
        for gate in removed_gates(old, new) - {TOPOLOGY_GATE}:
            for job in self._cache.job_caches.jobs_of(kind, new):
                in_group = self._cache.job_caches.composed(job.kind)
                for workload in filter(None, map(_workload, self._cache.workloads_of(job))):
                    self._ungated(workload, gate, in_group)

    def pod_changed(self, old: Json | None, new: Json | None) -> None:
        """Observe the gates that the controller of topologies removed."""
        if old is None or new is None or TOPOLOGY_GATE not in removed_gates(old, new):
            return
        chain = chain_of(new)
        workload = _workload(self._cache.workload(chain)) if chain is not None else None
        if workload is not None:
            self._ungated(workload, TOPOLOGY_GATE, label(new, GROUP_NAME) is not None)

    def _ungated(self, workload: Workload, gate: str, in_group: bool) -> None:
        admitted = true_condition(workload.status.conditions, "Admitted")
        if admitted is not None and admitted.last_transition_time is not None:
            took_s = (self._clock.now() - admitted.last_transition_time).total_seconds()
            self._observer.ungated(workload, gate, took_s, in_group=in_group)

    def _job_creation(self, workload: Workload) -> tuple[str, datetime] | None:
        """Return the kind of the job and when it was created.

        None if the Workload was not made from its first generation.
        """
        for owner in workload.metadata.owner_references or ():
            if owner.controller:
                key = Key(workload.metadata.namespace, owner.name)
                job = self._cache.job(JobKey(owner.group_kind, key))
                metadata = job["metadata"] if job is not None else {}
                if metadata.get("generation", 1) == 1 and metadata.get("creationTimestamp"):
                    return owner.kind, datetime.fromisoformat(metadata["creationTimestamp"])
        return None


def _generation(cached: CachedObject[Any]) -> object:
    return cached.json["metadata"].get("generation")


def _stopped(local_queue: CachedObject[Any] | None) -> bool:
    value = local_queue.value if local_queue is not None else None
    return value is not None and value.spec.stop_policy not in (None, "None")


def _workload(cached: CachedObject[StoredWorkload] | None) -> Workload | None:
    return cached.value.obj if cached is not None and cached.value is not None else None
