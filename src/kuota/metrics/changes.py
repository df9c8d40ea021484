# SPDX-License-Identifier: Apache-2.0
"""Counts changes of Workloads, regardless of who made them.

Reservations, admissions, evictions and completions are conditions that become true between two
states that an informer reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kuota.api.base import Key, condition
from kuota.api.gates import Gate
from kuota.api.workload import Workload
from kuota.bridge.lifetime import eviction_end, execution_s, waited_s
from kuota.bridge.variants import follows, is_parent, parent_of
from kuota.engine.engine import Engine

from .catalog import PREFIX
from .config import CustomLabels
from .metric import WORKLOAD
from .series import Labels, Series
from .withdrawn_cohorts import WithdrawnCohorts

_OF_VARIANTS = frozenset({"QuotaReserved", "Admitted"})
_OF_PARENTS = frozenset({"PodsReady", "Finished"})

Cause = tuple[str, str]
"""The reason of an eviction, and its underlying cause."""


class Changes:
    """Counts changes. `measured` decides which LocalQueues have their own metrics.

    An admission below a cohort removes it from `withdrawn`.
    """

    def __init__(
        self,
        series: Series,
        engine: Engine,
        custom: CustomLabels,
        measured: Callable[[Key], bool],
        withdrawn: WithdrawnCohorts,
    ) -> None:
        self._series = series
        self._engine = engine
        self._custom = custom
        self._measured = measured
        self._withdrawn = withdrawn
        self._preemptors: dict[Key, str] = {}
        self._concurrent = engine.policy.on(Gate.ConcurrentAdmission)

    def preempting(self, victim: Key, cluster_queue: str) -> None:
        """Record the ClusterQueue for which a workload is preempted."""
        self._preemptors[victim] = cluster_queue

    def gone(self, key: Key) -> None:
        self._preemptors.pop(key, None)

    def seen(self, old: Workload, new: Workload, now: float) -> None:
        """Count what happened between two states of a Workload."""
        if old.status == new.status:
            return
        was, is_ = _true(old), _true(new)
        begun = is_ - was
        if self._concurrent:
            begun -= _by_relatives(new)
        queue = self._queue(old, new)
        if not queue:
            return
        if "QuotaReserved" in begun:
            self._reserved(new, queue, now)
        if "Admitted" in begun:
            self._admitted(new, queue, now)
        if "PodsReady" in begun:
            self._ready(new, queue, now)
        if not (self._concurrent and follows(new)):
            for cause, times in _evictions(old, new, "Evicted" in begun):
                self._evicted(old, new, queue, cause, times, now)
            self._released(old, new, now)
        if "Preempted" in begun:
            self._preempted(new)
        if "Finished" in begun:
            self._finished(new, queue)

    def _reserved(self, new: Workload, queue: str, now: float) -> None:
        self._count("quota_reserved_workloads_total", new, queue)
        self._wait("quota_reserved_wait_time_seconds", waited_s(new, now), new, queue)

    def _admitted(self, new: Workload, queue: str, now: float) -> None:
        labels = self._custom.values(WORKLOAD, new.key)
        self._count("admitted_workloads_total", new, queue, labels)
        self._wait("admission_wait_time_seconds", waited_s(new, now), new, queue, labels)
        if new.status.admission_checks:
            took_s = max(0.0, now - _since(new, "QuotaReserved", now))
            self._wait("admission_checks_wait_time_seconds", took_s, new, queue)
        known = self._engine.state.queues.get(queue)
        if known is not None and not known.node.cyclic:
            name = "kueue_cohort_subtree_admitted_workloads_total"
            for cohort in known.node.ancestors():
                self._series.add(name, cohort.name, _class(new))
                self._withdrawn.show(cohort.name)

    def _ready(self, new: Workload, queue: str, now: float) -> None:
        if not any(each.type == "Admitted" for each in new.status.conditions or ()):
            return
        took_s = max(0.0, now - _since(new, "Admitted", now))
        self._wait("ready_wait_time_seconds", waited_s(new, now), new, queue)
        self._wait("admitted_until_ready_wait_time_seconds", took_s, new, queue)

    def _finished(self, new: Workload, queue: str) -> None:
        self._count("finished_workloads_total", new, queue)
        ran_s = execution_s(new)
        if ran_s is not None:
            self._wait("execution_time_seconds", ran_s, new, queue)

    def _evicted(
        self, old: Workload, new: Workload, queue: str, cause: Cause, times: int, now: float
    ) -> None:
        series, local, rank = self._series, _local(new), _class(new)
        series.add("kueue_evicted_workloads_total", queue, *cause, rank)
        if times == 1:
            series.add("kueue_evicted_workloads_once_total", queue, *cause, rank)
        if self._measured(local):
            name = f"{PREFIX}evicted_workloads_total"
            series.add(name, local.name, local.namespace, *cause, rank)
        if "PodsReady" in _true(old):
            ran_s = max(0.0, now - _since(old, "PodsReady", now))
            series.observe("kueue_pods_ready_to_evicted_time_seconds", ran_s, queue, *cause)

    def _preempted(self, new: Workload) -> None:
        preemptor = self._preemptors.pop(new.key, None)
        found = condition(new.status.conditions, "Preempted")
        if preemptor is not None and found is not None:
            self._series.add("kueue_preempted_workloads_total", preemptor, found.reason)

    def _released(self, old: Workload, new: Workload, now: float) -> None:
        end = eviction_end(old, new, now)
        if end is not None and end.cluster_queue:
            name = "kueue_workload_eviction_latency_seconds"
            self._series.observe(name, max(0.0, end.took_s), end.cluster_queue, end.reason)

    def _count(self, name: str, new: Workload, queue: str, labels: Labels = ()) -> None:
        """Count for both queues; only the LocalQueue's metric has the labels of workloads."""
        local = _local(new)
        self._series.add(f"kueue_{name}", queue, _class(new))
        if self._measured(local):
            own = (local.name, local.namespace, _class(new), *labels)
            self._series.add(f"{PREFIX}{name}", *own)

    def _wait(
        self, name: str, value: float, new: Workload, queue: str, labels: Labels = ()
    ) -> None:
        local = _local(new)
        self._series.observe(f"kueue_{name}", value, queue, _class(new))
        if self._measured(local):
            own = (local.name, local.namespace, _class(new), *labels)
            self._series.observe(f"{PREFIX}{name}", value, *own)

    def _queue(self, old: Workload, new: Workload) -> str:
        """Return the ClusterQueue in which a workload has, had, or would have quota."""
        admission = new.status.admission or old.status.admission
        if admission is not None:
            return admission.cluster_queue
        local = self._engine.state.local_queues.get(_local(new))
        return local.cluster_queue if local is not None else ""


def _by_relatives(obj: Workload) -> frozenset[str]:
    """Return the reason under which a variant is counted instead of its parent, or vice versa."""
    if is_parent(obj.metadata):
        return _OF_VARIANTS
    return _OF_PARENTS if parent_of(obj.metadata) is not None else frozenset()


def _true(obj: Workload) -> frozenset[str]:
    return frozenset(each.type for each in obj.status.conditions or () if each.status == "True")


def _since(obj: Workload, type_: str, now: float) -> float:
    found = condition(obj.status.conditions, type_)
    since = found.last_transition_time if found is not None else None
    return since.timestamp() if since is not None else now


def _evictions(old: Workload, new: Workload, begun: bool) -> Iterator[tuple[Cause, int]]:
    """Return the evictions of a change, each with its total count.

    The status contains the counts. An eviction that was not counted there is found by its
    condition.
    """
    before, after = _counts(old), _counts(new)
    grown = [cause for cause, times in after.items() if times > before.get(cause, 0)]
    for cause in grown:
        yield cause, after[cause]
    found = condition(new.status.conditions, "Evicted")
    if begun and not grown and found is not None:
        reason, _, cause_text = found.reason.partition("DueTo")
        yield (reason, cause_text), 1


def _counts(obj: Workload) -> dict[Cause, int]:
    stats = obj.status.scheduling_stats
    return {
        (each.reason, each.underlying_cause): each.count
        for each in (stats.evictions if stats is not None else None) or ()
    }


def _local(obj: Workload) -> Key:
    return Key(obj.metadata.namespace, obj.spec.queue_name)


def _class(obj: Workload) -> str:
    ref = obj.spec.priority_class_ref
    return ref.name if ref is not None else ""
