# SPDX-License-Identifier: Apache-2.0
"""What an eviction writes on a Workload. Its quota stays charged until its pods are gone."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.workload import Workload
from kuota.engine.reasons import EvictionReason

from .conditions import Conditions, stamp


def evicted_status(
    obj: Workload,
    conditions: Conditions,
    reason: EvictionReason | str,
    message: str,
    now: float,
    cause: str = "",
) -> Json:
    """The status patch of an eviction: condition, checks and gates reset, statistics counted."""
    conditions.put("Evicted", True, str(reason), message)
    status: Json = {
        "conditions": conditions.json(),
        "schedulingStats": {"evictions": _counted(obj, str(reason), cause)},
    }
    if obj.status.admission_checks:
        status["admissionChecks"] = [
            _reset(each.name, each.state, each.retry_count, now)
            for each in obj.status.admission_checks
        ]
    if obj.status.preemption_gates:
        at = stamp(now).isoformat().replace("+00:00", "Z")
        status["preemptionGates"] = [
            {"name": each.name, "position": "Closed", "lastTransitionTime": at}
            for each in obj.status.preemption_gates
        ]
    for field in ("clusterName", "nominatedClusterNames", "unhealthyNodes"):
        status[field] = None
    return status


def _counted(obj: Workload, reason: str, cause: str) -> list[Json]:
    stats = obj.status.scheduling_stats
    counts = {
        (each.reason, each.underlying_cause): each.count
        for each in (stats.evictions if stats else None) or ()
    }
    counts[reason, cause] = counts.get((reason, cause), 0) + 1
    return [
        {"reason": why, "underlyingCause": what, "count": count}
        for (why, what), count in counts.items()
    ]


def _reset(name: str, state: str, retries: int | None, now: float) -> Json:
    """A check to be passed anew. One that asked for a retry has its tries counted."""
    again: Json = {
        "name": name,
        "state": "Pending",
        "message": "Reset to Pending after eviction",
        "lastTransitionTime": stamp(now).isoformat().replace("+00:00", "Z"),
    }
    count = (retries or 0) + (state == "Retry")
    return again | {"retryCount": count} if count else again
