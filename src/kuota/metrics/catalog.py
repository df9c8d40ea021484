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
    Kind,
    Metric,
    Requirement,
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
    kind=Kind.GAUGE,
    labels=("git_version", "git_commit", "build_date", "go_version", "compiler", "platform"),
    about="Always 1; the labels say what runs",
    role=False,
)

_SCHEDULING = (
    counter("kueue_admission_attempts_total", "result", "Cycles, by whether one was admitted"),
    histogram(
        SHORT, "kueue_admission_attempt_duration_seconds", "result", "How long a cycle takes"
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
        "Preemptions given up in the last cycle because another one got in the way",
    ),
    counter(
        "kueue_preemption_target_recomputations_total",
        "cluster_queue result",
        "Searches for other victims, by what came of them",
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
    _wait("quota_reserved_wait", "From being queued to having quota"),
    _wait("admission_checks_wait", "From having quota to having passed all admission checks"),
    _wait("ready_wait", "From being queued to all pods being ready", _READY),
    _wait("admitted_until_ready_wait", "From being admitted to all pods being ready", _READY),
    _both(
        partial(histogram, LONG_WAITS),
        "execution_time_seconds",
        "priority_class",
        "How long finished workloads were admitted, in all",
    ),
    _both(counter, "evicted_workloads_total", f"{_CAUSE} priority_class", "Evictions"),
    _both(gauge, "reserving_active_workloads", "", "Workloads that hold quota"),
)

_CLUSTER_QUEUES = (
    gauge("kueue_pending_workloads", "cluster_queue status", "Workloads that wait", custom=_CQ_W),
    gauge(
        "kueue_pending_scheduling_hashes",
        "cluster_queue status",
        "Different kinds of workloads among those that wait",
        Requirement.CLASSES,
    ),
    counter("kueue_admitted_workloads_total", "cluster_queue priority_class", "Admissions"),
    histogram(
        LONG_WAITS,
        "kueue_admission_wait_time_seconds",
        "cluster_queue priority_class",
        "From being queued to being admitted",
    ),
    _waits(
        "kueue_pods_ready_to_evicted_time_seconds",
        f"cluster_queue {_CAUSE}",
        "How long the pods of evicted workloads had been ready",
    ),
    counter(
        "kueue_evicted_workloads_once_total",
        f"cluster_queue {_CAUSE} priority_class",
        "Workloads evicted at least once for the reason",
    ),
    counter(
        "kueue_preempted_workloads_total",
        "preempting_cluster_queue reason",
        "Workloads that had to make room, by the queue that they made room for",
    ),
    _waits(
        "kueue_workload_eviction_latency_seconds",
        "cluster_queue reason",
        "From an eviction to its quota being free",
    ),
    gauge("kueue_admitted_active_workloads", "cluster_queue", "Admitted workloads", custom=_CQ_W),
    gauge("kueue_cluster_queue_status", "cluster_queue status", "1 for the status that holds"),
    gauge(
        "kueue_unadmitted_workloads",
        f"cluster_queue {_CAUSE}",
        "Workloads that are not admitted, by why",
        Requirement.UNADMITTED,
    ),
    histogram(
        SHORT,
        "kueue_pod_scheduling_gate_removal_seconds",
        "name cluster_queue is_group",
        "From an admission to the pod's scheduling gate being gone",
    ),
    histogram(
        LATENCY,
        "kueue_workload_creation_latency_seconds",
        "job_kind",
        "From a job's creation to that of its Workload",
        Requirement.CREATION,
        custom=(LOCAL_QUEUE,),
    ),
)

_LOCAL_QUEUES = (
    counter(f"{PREFIX}admitted_workloads_total", _LOCAL_CLASS, "Admissions", _ON, custom=_LQ_W),
    _waits(
        f"{PREFIX}admission_wait_time_seconds",
        _LOCAL_CLASS,
        "From being queued to being admitted",
        _ON,
        custom=_LQ_W,
    ),
    gauge(f"{PREFIX}admitted_active_workloads", _LOCAL, "Admitted workloads", _ON, custom=_LQ_W),
    *_gauges(
        PREFIX,
        _ON,
        ("pending_workloads", f"{_LOCAL} status", "Workloads that wait"),
        ("status", f"{_LOCAL} active", "1 for the status that holds"),
        ("resource_reservation", f"{_LOCAL} flavor resource", "What workloads hold"),
        ("resource_usage", f"{_LOCAL} flavor resource", "What admitted workloads hold"),
        (
            "admission_fair_sharing_usage",
            f"{_LOCAL} cluster_queue",
            "What the queue has used and not yet been forgiven, over its weight",
        ),
    ),
    gauge(
        f"{PREFIX}unadmitted_workloads",
        f"{_LOCAL} cluster_queue {_CAUSE}",
        "Workloads that are not admitted, by why",
        _ON,
        Requirement.UNADMITTED,
    ),
)

_SHARE = "Fair share of what is borrowed; NaN for a borrower without weight"
_QUOTAS = (
    *_gauges(
        "kueue_cluster_queue_",
        Requirement.RESOURCES,
        ("resource_reservation", _QUOTA, "What workloads hold"),
        ("resource_usage", _QUOTA, "What admitted workloads hold"),
        ("resource_pending", "cluster_queue resource", "What waiting workloads ask for"),
        ("nominal_quota", _QUOTA, "Nominal quota"),
        ("borrowing_limit", _QUOTA, "How much may be borrowed, +Inf without a limit"),
        ("lending_limit", _QUOTA, "How much may be lent, +Inf without a limit"),
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
        "Always 1; the labels say where the queue is",
        Requirement.COHORTS,
    ),
    gauge("kueue_cohort_weighted_share", "cohort", _SHARE, Requirement.FAIR_SHARING),
    *_gauges(
        "kueue_cohort_",
        Requirement.COHORTS,
        (
            "info",
            "cohort parent_cohort root_cohort",
            "Always 1; the labels say where the cohort is",
        ),
        ("subtree_quota", _SUBTREE, "Quota of the cohort and all below it"),
        ("subtree_resource_reservations", _SUBTREE, "What workloads hold in all queues below"),
    ),
    counter(
        "kueue_cohort_subtree_admitted_workloads_total",
        "cohort priority_class",
        "Admissions in all queues below",
        Requirement.COHORTS,
    ),
    gauge(
        "kueue_cohort_subtree_admitted_active_workloads",
        "cohort",
        "Admitted workloads in all queues below",
        Requirement.COHORTS,
        custom=(CLUSTER_QUEUE,),
    ),
)

METRICS: dict[str, Metric] = {
    each.name: each
    for each in chain(
        (_BUILD,), _SCHEDULING, *_EITHER_QUEUE, _CLUSTER_QUEUES, _LOCAL_QUEUES, _QUOTAS
    )
}
"""All metrics by name, in the order of exposition."""
