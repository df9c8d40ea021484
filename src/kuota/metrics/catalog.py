# SPDX-License-Identifier: Apache-2.0
"""Every metric there is. Names and labels are those of Kueue.

Every metric but the first also has the label `replica_role`, and the custom labels of the kinds it
names. `replaced_workload_slices_total` is missing on purpose: Kueue counts it but never shows it.
"""

from __future__ import annotations

from .catalog_local import LOCAL_METRICS
from .metric import (
    CLUSTER_QUEUE,
    COHORT,
    LATENCY,
    LOCAL_QUEUE,
    LONG_WAITS,
    SHORT,
    WAITS,
    WORKLOAD,
    Kind,
    Metric,
    Need,
    counter,
    gauge,
    histogram,
)

_CQ = (CLUSTER_QUEUE,)
_CQ_W = (CLUSTER_QUEUE, WORKLOAD)
_LQ = (LOCAL_QUEUE,)
_CO = (COHORT,)
_QUEUE = ("cluster_queue",)
_CLASS = ("priority_class",)
_STATUS = ("status",)
_COLUMN = ("flavor", "resource")
_CAUSE = ("reason", "underlying_cause")
_QUEUE_COLUMN = ("cohort", *_QUEUE, *_COLUMN)


_BUILD = Metric(
    name="kueue_build_info",
    kind=Kind.GAUGE,
    labels=("git_version", "git_commit", "build_date", "go_version", "compiler", "platform"),
    about="Always 1; the labels say what runs",
    role=False,
)

_SCHEDULING = (
    counter("kueue_admission_attempts_total", ("result",), "Cycles, by whether one was admitted"),
    histogram(
        "kueue_admission_attempt_duration_seconds", SHORT, ("result",), "How long a cycle takes"
    ),
    counter(
        "multikueue_workloads_dispatched_total",
        (*_QUEUE, "cluster"),
        "Workloads created on worker clusters",
    ),
    counter(
        "multikueue_workloads_admitted_total",
        (*_QUEUE, "cluster"),
        "Workloads admitted by worker clusters",
    ),
    gauge(
        "kueue_admission_cycle_preemption_skips",
        _QUEUE,
        "Preemptions given up in the last cycle because another one got in the way",
        _CQ,
    ),
    counter(
        "kueue_preemption_target_recomputations_total",
        (*_QUEUE, "result"),
        "Searches for other victims, by what came of them",
        _CQ,
    ),
)

_CLUSTER_QUEUES = (
    gauge("kueue_pending_workloads", (*_QUEUE, *_STATUS), "Workloads that wait", _CQ_W),
    gauge(
        "kueue_pending_scheduling_hashes",
        (*_QUEUE, *_STATUS),
        "Different kinds of workloads among those that wait",
        _CQ,
        Need.CLASSES,
    ),
    gauge("kueue_finished_workloads", _QUEUE, "Finished workloads that still exist", _CQ),
    counter("kueue_finished_workloads_total", (*_QUEUE, *_CLASS), "Workloads that finished", _CQ),
    counter(
        "kueue_quota_reserved_workloads_total", (*_QUEUE, *_CLASS), "Reservations of quota", _CQ
    ),
    histogram(
        "kueue_quota_reserved_wait_time_seconds",
        WAITS,
        (*_QUEUE, *_CLASS),
        "From being queued to having quota",
        _CQ,
    ),
    counter("kueue_admitted_workloads_total", (*_QUEUE, *_CLASS), "Admissions", _CQ),
    histogram(
        "kueue_admission_wait_time_seconds",
        LONG_WAITS,
        (*_QUEUE, *_CLASS),
        "From being queued to being admitted",
        _CQ,
    ),
    histogram(
        "kueue_admission_checks_wait_time_seconds",
        WAITS,
        (*_QUEUE, *_CLASS),
        "From having quota to having passed all admission checks",
        _CQ,
    ),
    histogram(
        "kueue_ready_wait_time_seconds",
        WAITS,
        (*_QUEUE, *_CLASS),
        "From being queued to all pods being ready",
        _CQ,
        Need.PODS_READY,
    ),
    histogram(
        "kueue_admitted_until_ready_wait_time_seconds",
        WAITS,
        (*_QUEUE, *_CLASS),
        "From being admitted to all pods being ready",
        _CQ,
        Need.PODS_READY,
    ),
    histogram(
        "kueue_execution_time_seconds",
        LONG_WAITS,
        (*_QUEUE, *_CLASS),
        "How long finished workloads were admitted, in all",
        _CQ,
    ),
    histogram(
        "kueue_pods_ready_to_evicted_time_seconds",
        WAITS,
        (*_QUEUE, *_CAUSE),
        "How long the pods of evicted workloads had been ready",
        _CQ,
    ),
    counter("kueue_evicted_workloads_total", (*_QUEUE, *_CAUSE, *_CLASS), "Evictions", _CQ),
    counter(
        "kueue_evicted_workloads_once_total",
        (*_QUEUE, *_CAUSE, *_CLASS),
        "Workloads evicted at least once for the reason",
        _CQ,
    ),
    counter(
        "kueue_preempted_workloads_total",
        ("preempting_cluster_queue", "reason"),
        "Workloads that had to make room, by the queue that they made room for",
        _CQ,
    ),
    histogram(
        "kueue_workload_eviction_latency_seconds",
        WAITS,
        (*_QUEUE, "reason"),
        "From an eviction to its quota being free",
        _CQ,
    ),
    gauge("kueue_reserving_active_workloads", _QUEUE, "Workloads that hold quota", _CQ),
    gauge("kueue_admitted_active_workloads", _QUEUE, "Admitted workloads", _CQ_W),
    gauge("kueue_cluster_queue_status", (*_QUEUE, *_STATUS), "1 for the status that holds", _CQ),
    gauge(
        "kueue_unadmitted_workloads",
        (*_QUEUE, *_CAUSE),
        "Workloads that are not admitted, by why",
        _CQ,
        Need.UNADMITTED,
    ),
    histogram(
        "kueue_pod_scheduling_gate_removal_seconds",
        SHORT,
        ("name", *_QUEUE, "is_group"),
        "From an admission to the pod's scheduling gate being gone",
        _CQ,
    ),
    histogram(
        "kueue_workload_creation_latency_seconds",
        LATENCY,
        ("job_kind",),
        "From a job's creation to that of its Workload",
        _LQ,
        Need.CREATION,
    ),
)

_QUOTAS = (
    gauge(
        "kueue_cluster_queue_resource_reservation",
        _QUEUE_COLUMN,
        "What workloads hold",
        _CQ,
        Need.RESOURCES,
    ),
    gauge(
        "kueue_cluster_queue_resource_usage",
        _QUEUE_COLUMN,
        "What admitted workloads hold",
        _CQ,
        Need.RESOURCES,
    ),
    gauge(
        "kueue_cluster_queue_resource_pending",
        (*_QUEUE, "resource"),
        "What waiting workloads ask for",
        _CQ,
        Need.RESOURCES,
    ),
    gauge("kueue_cluster_queue_nominal_quota", _QUEUE_COLUMN, "Nominal quota", _CQ, Need.RESOURCES),
    gauge(
        "kueue_cluster_queue_borrowing_limit",
        _QUEUE_COLUMN,
        "How much may be borrowed, +Inf without a limit",
        _CQ,
        Need.RESOURCES,
    ),
    gauge(
        "kueue_cluster_queue_lending_limit",
        _QUEUE_COLUMN,
        "How much may be lent, +Inf without a limit",
        _CQ,
        Need.RESOURCES,
    ),
    gauge(
        "kueue_cluster_queue_weighted_share",
        (*_QUEUE, "cohort"),
        "Fair share of what is borrowed; NaN for a borrower without weight",
        _CQ,
        Need.RESOURCES,
        Need.FAIR_SHARING,
    ),
    gauge(
        "kueue_cluster_queue_info",
        (*_QUEUE, "parent_cohort", "root_cohort"),
        "Always 1; the labels say where the queue is",
        _CQ,
        Need.COHORTS,
    ),
    gauge(
        "kueue_cohort_info",
        ("cohort", "parent_cohort", "root_cohort"),
        "Always 1; the labels say where the cohort is",
        _CO,
        Need.COHORTS,
    ),
    gauge(
        "kueue_cohort_weighted_share",
        ("cohort",),
        "Fair share of what is borrowed; NaN for a borrower without weight",
        _CO,
        Need.FAIR_SHARING,
    ),
    gauge(
        "kueue_cohort_subtree_quota",
        ("cohort", *_COLUMN),
        "Quota of the cohort and all below it",
        _CO,
        Need.COHORTS,
    ),
    gauge(
        "kueue_cohort_subtree_resource_reservations",
        ("cohort", *_COLUMN),
        "What workloads hold in all queues below",
        _CO,
        Need.COHORTS,
    ),
    counter(
        "kueue_cohort_subtree_admitted_workloads_total",
        ("cohort", *_CLASS),
        "Admissions in all queues below",
        _CO,
        Need.COHORTS,
    ),
    gauge(
        "kueue_cohort_subtree_admitted_active_workloads",
        ("cohort",),
        "Admitted workloads in all queues below",
        _CQ,
        Need.COHORTS,
    ),
)

METRICS: dict[str, Metric] = {
    each.name: each for each in (_BUILD, *_SCHEDULING, *_CLUSTER_QUEUES, *_QUOTAS, *LOCAL_METRICS)
}
"""All metrics by name, in the order in which they are shown."""
