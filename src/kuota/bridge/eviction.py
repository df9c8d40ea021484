# SPDX-License-Identifier: Apache-2.0
"""What an eviction writes to a Workload. Its quota stays charged until its pods are gone."""

from __future__ import annotations

import msgspec

from kuota.api.base import Json
from kuota.api.workload import AdmissionCheckState, PreemptionGateState, Workload
from kuota.engine.reasons import EvictionReason

from .conditions import PREVIOUSLY, Conditions, timestamp
from .effects import Event


def evicted_status(
    obj: Workload,
    conditions: Conditions,
    reason: EvictionReason,
    message: str,
    now: float,
    cause: str = "",
) -> Json:
    """Return the status patch of an eviction: condition, reset checks and gates, statistics.

    `cause` is the underlying cause: why it was deactivated, or what its pods waited for.
    """
    written = _condition_reason(reason, cause)
    conditions.put("Evicted", True, written, message)
    if conditions.true("BlockedOnPreemptionGates"):
        conditions.put("BlockedOnPreemptionGates", False, written, message)
    status: Json = {
        "conditions": conditions.json(),
        "schedulingStats": {"evictions": _counted(obj, reason.value, cause)},
    }
    at = timestamp(now)
    if any(each.state != "Pending" for each in obj.status.admission_checks or ()):
        status["admissionChecks"] = [_reset(each, at) for each in obj.status.admission_checks or ()]
    if any(each.position != "Closed" for each in obj.status.preemption_gates or ()):
        status["preemptionGates"] = [
            _closed(each, at) for each in obj.status.preemption_gates or ()
        ]
    return status | _cleared(obj)


def eviction_event(
    obj: Workload, reason: EvictionReason, message: str, cause: str = ""
) -> list[Event]:
    """Return the event of an eviction; none for a workload without an admission."""
    if obj.status.admission is None:
        return []
    name = f"EvictedDueTo{reason.value}" + (f"DueTo{cause}" if cause else "")
    return [Event.about(obj.key, name, message)]


def _condition_reason(reason: EvictionReason, cause: str) -> str:
    if reason is EvictionReason.DEACTIVATED and cause:
        return f"{reason.value}DueTo{cause}"
    return reason.value


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


def _reset(check: AdmissionCheckState, at: str) -> Json:
    """Reset a check to Pending; a Pending check stays as it is.

    A check in Retry increments its retry count; any other state keeps it, as in Kueue, where the
    controller of the check owns the field.
    """
    if check.state == "Pending":
        kept: Json = msgspec.to_builtins(check)
        return {"message": "", **kept}
    again: Json = {
        "name": check.name,
        "state": "Pending",
        "message": f"Reset to Pending after eviction. {PREVIOUSLY}{check.state}",
        "lastTransitionTime": at,
    }
    if check.requeue_after_seconds is not None:
        again["requeueAfterSeconds"] = check.requeue_after_seconds
    if check.state == "Retry":
        again["retryCount"] = (check.retry_count or 0) + 1
    elif check.retry_count is not None:
        again["retryCount"] = check.retry_count
    return again


def _closed(gate: PreemptionGateState, at: str) -> Json:
    if gate.position == "Closed":
        kept: Json = msgspec.to_builtins(gate)
        return kept
    return {"name": gate.name, "position": "Closed", "lastTransitionTime": at}


def _cleared(obj: Workload) -> Json:
    """Clear the fields that refer to the cluster and nodes where it ran."""
    status = obj.status
    return {
        field: None
        for field, value in (
            ("clusterName", status.cluster_name),
            ("nominatedClusterNames", status.nominated_cluster_names),
            ("unhealthyNodes", status.unhealthy_nodes),
        )
        if value
    }
