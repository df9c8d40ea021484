# SPDX-License-Identifier: Apache-2.0
"""The metrics of LocalQueues: most of those of ClusterQueues, once more for each team."""

from __future__ import annotations

from .metric import (
    LOCAL_QUEUE,
    LONG_WAITS,
    WAITS,
    WORKLOAD,
    Metric,
    Need,
    counter,
    gauge,
    histogram,
)

PREFIX = "kueue_local_queue_"

_LQ = (LOCAL_QUEUE,)
_LQ_W = (LOCAL_QUEUE, WORKLOAD)
_LOCAL = ("name", "namespace")
_CLASS = (*_LOCAL, "priority_class")
_COLUMN = (*_LOCAL, "flavor", "resource")
_CAUSE = ("reason", "underlying_cause")
_ON = Need.LOCAL_QUEUES
_READY = (Need.LOCAL_QUEUES, Need.PODS_READY)


def _wait(
    name: str,
    about: str,
    buckets: tuple[float, ...] = WAITS,
    needs: tuple[Need, ...] = (_ON,),
    custom: tuple[str, ...] = _LQ,
) -> Metric:
    return histogram(f"{PREFIX}{name}_time_seconds", buckets, _CLASS, about, custom, *needs)


LOCAL_METRICS: tuple[Metric, ...] = (
    gauge(f"{PREFIX}pending_workloads", (*_LOCAL, "status"), "Workloads that wait", _LQ, _ON),
    gauge(f"{PREFIX}finished_workloads", _LOCAL, "Finished workloads that still exist", _LQ, _ON),
    counter(f"{PREFIX}finished_workloads_total", _CLASS, "Workloads that finished", _LQ, _ON),
    counter(f"{PREFIX}quota_reserved_workloads_total", _CLASS, "Reservations of quota", _LQ, _ON),
    _wait("quota_reserved_wait", "From being queued to having quota"),
    counter(f"{PREFIX}admitted_workloads_total", _CLASS, "Admissions", _LQ_W, _ON),
    _wait("admission_wait", "From being queued to being admitted", custom=_LQ_W),
    _wait("admission_checks_wait", "From having quota to having passed all admission checks"),
    _wait("ready_wait", "From being queued to all pods being ready", needs=_READY),
    _wait("admitted_until_ready_wait", "From being admitted to all pods being ready", needs=_READY),
    _wait("execution", "How long finished workloads were admitted, in all", LONG_WAITS),
    counter(
        f"{PREFIX}evicted_workloads_total",
        (*_LOCAL, *_CAUSE, "priority_class"),
        "Evictions",
        _LQ,
        _ON,
    ),
    gauge(f"{PREFIX}reserving_active_workloads", _LOCAL, "Workloads that hold quota", _LQ, _ON),
    gauge(f"{PREFIX}admitted_active_workloads", _LOCAL, "Admitted workloads", _LQ_W, _ON),
    gauge(f"{PREFIX}status", (*_LOCAL, "active"), "1 for the status that holds", _LQ, _ON),
    gauge(f"{PREFIX}resource_reservation", _COLUMN, "What workloads hold", _LQ, _ON),
    gauge(f"{PREFIX}resource_usage", _COLUMN, "What admitted workloads hold", _LQ, _ON),
    gauge(
        f"{PREFIX}admission_fair_sharing_usage",
        (*_LOCAL, "cluster_queue"),
        "What the queue has used and not yet been forgiven, over its weight",
        _LQ,
        _ON,
    ),
    gauge(
        f"{PREFIX}unadmitted_workloads",
        (*_LOCAL, "cluster_queue", *_CAUSE),
        "Workloads that are not admitted, by why",
        _LQ,
        _ON,
        Need.UNADMITTED,
    ),
)
