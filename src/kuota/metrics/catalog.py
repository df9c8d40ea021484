# SPDX-License-Identifier: Apache-2.0
"""All metrics. Names and labels are Kueue's.

Every metric but the first also has the label `replica_role`, and the custom labels of its kinds.
`replaced_workload_slices_total` is omitted on purpose: Kueue counts it but never exposes it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain

from .metric import (
    CLUSTER_QUEUE,
    LATENCY,
    LOCAL_QUEUE,
    LONG_WAITS,
    SHORT,
    WAITS,
    WORKLOAD,
    Metric,
    MetricType,
    Requirement,
    by_name,
    counter,
    gauge,
    histogram,
)

PREFIX = "kueue_local_queue_"
"""The prefix of metrics of LocalQueues."""

_CQ_W = (CLUSTER_QUEUE, WORKLOAD)
_LQ_W = (LOCAL_QUEUE, WORKLOAD)
_LOCAL = "name namespace"
_LOCAL_CLASS = f"{_LOCAL} priority_class"
_CAUSE = "reason underlying_cause"
_QUOTA = "cohort cluster_queue flavor resource"
_SUBTREE = "cohort flavor resource"
_ON, _READY = Requirement.LOCAL_QUEUES, Requirement.PODS_READY
_waits = partial(histogram, WAITS)

_BUILD = Metric(
    name="kueue_build_info",
    kind=MetricType.GAUGE,
    labels=("git_version", "git_commit", "build_date", "go_version", "compiler", "platform"),
    about="Always 1; the labels describe the build",
    role=False,
)

_SCHEDULING = (
    counter("kueue_admission_attempts_total", "result", "Scheduling cycles, by result"),
    histogram(
        SHORT,
        "kueue_admission_attempt_duration_seconds",
        "result",
        "Duration of a scheduling cycle",
    ),
    counter(
        "multikueue_workloads_dispatched_total",
        "cluster_queue cluster",
        "Workloads created on worker clusters",
        custom=(),
    ),
    counter(
        "multikueue_workloads_admitted_total",
        "cluster_queue cluster",
        "Workloads admitted by worker clusters",
        custom=(),
    ),
    gauge(
        "kueue_admission_cycle_preemption_skips",
        "cluster_queue",
        "Preemptions skipped in the last cycle because of another preemption",
    ),
    counter(
        "kueue_preemption_target_recomputations_total",
        "cluster_queue result",
        "Searches for other preemption targets, by result",
    ),
)


def _both(
    metric: Callable[..., Metric], name: str, labels: str, about: str, *needs: Requirement
) -> tuple[Metric, Metric]:
    """Define a metric for ClusterQueues and for LocalQueues."""
    return (
        metric(f"kueue_{name}", f"cluster_queue {labels}", about, *needs),
        metric(f"{PREFIX}{name}", f"{_LOCAL} {labels}", about, _ON, *needs),
    )


def _wait(name: str, about: str, *needs: Requirement) -> tuple[Metric, Metric]:
    return _both(_waits, f"{name}_time_seconds", "priority_class", about, *needs)


def _gauges(prefix: str, need: Requirement, *rows: tuple[str, str, str]) -> list[Metric]:
    """Gauges by the rest of their names, with labels and help text."""
    return [gauge(f"{prefix}{name}", labels, about, need) for name, labels, about in rows]


_EITHER_QUEUE = (
    _both(gauge, "finished_workloads", "", "Finished workloads that still exist"),
    _both(counter, "finished_workloads_total", "priority_class", "Workloads that finished"),
    _both(counter, "quota_reserved_workloads_total", "priority_class", "Reservations of quota"),
    _wait("quota_reserved_wait", "Time from queueing to the quota reservation"),
    _wait(
        "admission_checks_wait", "Time from the quota reservation until all admission checks passed"
    ),
    _wait("ready_wait", "Time from queueing until all pods are ready", _READY),
    _wait("admitted_until_ready_wait", "Time from admission until all pods are ready", _READY),
    _both(
        partial(histogram, LONG_WAITS),
        "execution_time_seconds",
        "priority_class",
        "Total time that finished workloads were admitted",
    ),
    _both(counter, "evicted_workloads_total", f"{_CAUSE} priority_class", "Evictions"),
    _both(gauge, "reserving_active_workloads", "", "Workloads with a quota reservation"),
)

_CLUSTER_QUEUES = (
    gauge("kueue_pending_workloads", "cluster_queue status", "Pending workloads", custom=_CQ_W),
    gauge(
        "kueue_pending_scheduling_hashes",
        "cluster_queue status",
        "Distinct scheduling hashes of pending workloads",
        Requirement.CLASSES,
    ),
    counter("kueue_admitted_workloads_total", "cluster_queue priority_class", "Admissions"),
    histogram(
        LONG_WAITS,
        "kueue_admission_wait_time_seconds",
        "cluster_queue priority_class",
        "Time from queueing to admission",
    ),
    _waits(
        "kueue_pods_ready_to_evicted_time_seconds",
        f"cluster_queue {_CAUSE}",
        "Time from ready pods to the eviction of the workload",
    ),
    counter(
        "kueue_evicted_workloads_once_total",
        f"cluster_queue {_CAUSE} priority_class",
        "Workloads evicted at least once for the reason",
    ),
    counter(
        "kueue_preempted_workloads_total",
        "preempting_cluster_queue reason",
        "Preempted workloads, by the ClusterQueue of the preemptor",
    ),
    _waits(
        "kueue_workload_eviction_latency_seconds",
        "cluster_queue reason",
        "Time from an eviction to the release of the quota",
    ),
    gauge("kueue_admitted_active_workloads", "cluster_queue", "Admitted workloads", custom=_CQ_W),
    gauge(
        "kueue_cluster_queue_status",
        "cluster_queue status",
        "1 for the current status, 0 for the others",
    ),
    gauge(
        "kueue_unadmitted_workloads",
        f"cluster_queue {_CAUSE}",
        "Workloads that are not admitted, by reason",
        Requirement.UNADMITTED,
    ),
    histogram(
        SHORT,
        "kueue_pod_scheduling_gate_removal_seconds",
        "name cluster_queue is_group",
        "Time from admission to the removal of the pod's scheduling gate",
    ),
    histogram(
        LATENCY,
        "kueue_workload_creation_latency_seconds",
        "job_kind",
        "Time from the creation of a job to that of its Workload",
        Requirement.CREATION,
        custom=(LOCAL_QUEUE,),
    ),
)

_LOCAL_QUEUES = (
    counter(f"{PREFIX}admitted_workloads_total", _LOCAL_CLASS, "Admissions", _ON, custom=_LQ_W),
    _waits(
        f"{PREFIX}admission_wait_time_seconds",
        _LOCAL_CLASS,
        "Time from queueing to admission",
        _ON,
        custom=_LQ_W,
    ),
    gauge(f"{PREFIX}admitted_active_workloads", _LOCAL, "Admitted workloads", _ON, custom=_LQ_W),
    *_gauges(
        PREFIX,
        _ON,
        ("pending_workloads", f"{_LOCAL} status", "Pending workloads"),
        ("status", f"{_LOCAL} active", "1 for the current status, 0 for the others"),
        ("resource_reservation", f"{_LOCAL} flavor resource", "Reserved quota"),
        ("resource_usage", f"{_LOCAL} flavor resource", "Quota used by admitted workloads"),
        (
            "admission_fair_sharing_usage",
            f"{_LOCAL} cluster_queue",
            "Decayed historical usage of the queue, divided by its weight",
        ),
    ),
    gauge(
        f"{PREFIX}unadmitted_workloads",
        f"{_LOCAL} cluster_queue {_CAUSE}",
        "Workloads that are not admitted, by reason",
        _ON,
        Requirement.UNADMITTED,
    ),
)

_SHARE = "Weighted share of borrowed quota; NaN for a borrower with weight 0"
_QUOTAS = (
    *_gauges(
        "kueue_cluster_queue_",
        Requirement.RESOURCES,
        ("resource_reservation", _QUOTA, "Reserved quota"),
        ("resource_usage", _QUOTA, "Quota used by admitted workloads"),
        ("resource_pending", "cluster_queue resource", "Resources requested by pending workloads"),
        ("nominal_quota", _QUOTA, "Nominal quota"),
        ("borrowing_limit", _QUOTA, "Borrowing limit; +Inf if there is none"),
        ("lending_limit", _QUOTA, "Lending limit; +Inf if there is none"),
    ),
    gauge(
        "kueue_cluster_queue_weighted_share",
        "cluster_queue cohort",
        _SHARE,
        Requirement.RESOURCES,
        Requirement.FAIR_SHARING,
    ),
    gauge(
        "kueue_cluster_queue_info",
        "cluster_queue parent_cohort root_cohort",
        "Always 1; the labels name the cohorts of the queue",
        Requirement.COHORTS,
    ),
    gauge("kueue_cohort_weighted_share", "cohort", _SHARE, Requirement.FAIR_SHARING),
    *_gauges(
        "kueue_cohort_",
        Requirement.COHORTS,
        (
            "info",
            "cohort parent_cohort root_cohort",
            "Always 1; the labels name the ancestors of the cohort",
        ),
        ("subtree_quota", _SUBTREE, "Quota of the cohort and its subtree"),
        ("subtree_resource_reservations", _SUBTREE, "Reserved quota of all queues in the subtree"),
    ),
    counter(
        "kueue_cohort_subtree_admitted_workloads_total",
        "cohort priority_class",
        "Admissions in all queues of the subtree",
        Requirement.COHORTS,
    ),
    gauge(
        "kueue_cohort_subtree_admitted_active_workloads",
        "cohort",
        "Admitted workloads in all queues of the subtree",
        Requirement.COHORTS,
        custom=(CLUSTER_QUEUE,),
    ),
)

METRICS = by_name(
    _BUILD,
    *_SCHEDULING,
    *chain.from_iterable(_EITHER_QUEUE),
    *_CLUSTER_QUEUES,
    *_LOCAL_QUEUES,
    *_QUOTAS,
)
"""All metrics of Kueue."""
