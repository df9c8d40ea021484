# SPDX-License-Identifier: Apache-2.0
"""Quota reservation and admission: how they are set, and how they are withdrawn.

A workload is Admitted while it has a reservation, all its admission checks are Ready and no
topology request of its pods is pending. The time spent admitted counts against its execution limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from kuota.api.base import Json, condition, is_true
from kuota.api.gates import Gate, Gates
from kuota.api.workload import Admission, Workload
from kuota.engine.activity import flavor_names
from kuota.engine.model import ClusterQueue
from kuota.engine.reasons import EvictionReason, WaitReason

from .conditions import Conditions

EXECUTION_TIME_EXCEEDED = "MaximumExecutionTimeExceeded"
NO_RESERVATION = "The workload has no reservation"


class WorkloadPhase(StrEnum):
    """The progress of a workload."""

    PENDING = "pending"
    QUOTA_RESERVED = "quotaReserved"
    ADMITTED = "admitted"
    FINISHED = "finished"


def phase(obj: Workload) -> WorkloadPhase:
    """Return the furthest phase that the conditions show."""
    conditions = obj.status.conditions
    if is_true(conditions, "Finished"):
        return WorkloadPhase.FINISHED
    if is_true(conditions, "Admitted"):
        return WorkloadPhase.ADMITTED
    if is_true(conditions, "QuotaReserved"):
        return WorkloadPhase.QUOTA_RESERVED
    return WorkloadPhase.PENDING


def on_hold(obj: Workload) -> bool:
    """Whether its quota was released on request of its job, so that it is not queued."""
    reserved = condition(obj.status.conditions, "QuotaReserved")
    held = ("False", WaitReason.ON_HOLD)
    return reserved is not None and (reserved.status, reserved.reason) == held


def lost_quota(before: WorkloadPhase, after: WorkloadPhase) -> bool:
    """Whether a workload had quota and is pending again."""
    return (
        before in (WorkloadPhase.QUOTA_RESERVED, WorkloadPhase.ADMITTED)
        and after is WorkloadPhase.PENDING
    )


def required_checks(queue: ClusterQueue, admission: Admission | None) -> tuple[str, ...]:
    """Return the admission checks that a workload has to pass for its flavors.

    Without an admission any flavor is possible, so only checks that apply to all flavors count.
    """
    if admission is None:
        offered = flavor_names(queue)
        return tuple(r.name for r in queue.checks if not r.flavors or r.flavors >= offered)
    assigned = admission.pod_set_assignments or ()
    used = frozenset(flavor for each in assigned for flavor in (each.flavors or {}).values())
    return tuple(rule.name for rule in queue.checks if rule.covers(used))


def reserve(conditions: Conditions, queue: str) -> None:
    """Set QuotaReserved, and clear the conditions of an earlier eviction or preemption."""
    message = f"Quota reserved in ClusterQueue {queue}"
    conditions.put("QuotaReserved", True, "QuotaReserved", message)
    for type_ in ("Evicted", "Preempted", "BlockedOnPreemptionGates"):
        conditions.lower(type_, "QuotaReserved")


def sync_admitted(
    conditions: Conditions, states: Iterable[str], gates: Gates, *, placed: bool = True
) -> int:
    """Set Admitted from the reservation, the check states and the placement.

    Returns the whole seconds of execution that just ended; 0 if none did. `placed` is false while
    pods wait for a topology assignment.
    """
    reserved, ready = conditions.true("QuotaReserved"), all(state == "Ready" for state in states)
    was_admitted = conditions.true("Admitted")
    granular = gates.on(Gate.UnadmittedWorkloadsObservability)
    if reserved and ready and placed:
        if granular or not was_admitted:
            conditions.put("Admitted", True, "Admitted", "The workload is admitted")
        return 0
    if not was_admitted and not _was_evaluated(conditions, reserved, gates):
        return 0
    ran_s = conditions.age_s("Admitted") if was_admitted else 0
    conditions.put("Admitted", False, *_obstacle(reserved, ready, granular))
    return ran_s


def _was_evaluated(conditions: Conditions, reserved: bool, gates: Gates) -> bool:
    """Whether to set Admitted=False. Not before the workload was evaluated for the first time."""
    if not gates.on(Gate.UnadmittedWorkloadsObservability):
        return False
    evaluated = conditions.get("Admitted") or conditions.get("QuotaReserved")
    return reserved or evaluated is not None or gates.on(Gate.UnadmittedWorkloadsExplicitStatus)


def _obstacle(reserved: bool, ready: bool, granular: bool) -> tuple[str, str]:
    """Return reason and message of Admitted=False.

    Without granular reasons, checks are mentioned even if there is no quota.
    """
    if not reserved and (ready or granular):
        return "NoReservation", NO_RESERVATION
    if not reserved:
        return "NoReservationUnsatisfiedChecks", f"{NO_RESERVATION}, and not all checks are ready"
    if not ready:
        reason = "UnsatisfiedAdmissionChecks" if granular else "UnsatisfiedChecks"
        return reason, "Not all admission checks of the workload are ready"
    return "PendingDelayedTopologyRequests", "The pods of the workload still have to be placed"


def placed(obj: Workload, gates: Gates) -> bool:
    """Whether no pod set of the admission has a delayed topology request that is pending."""
    if not gates.on(Gate.TopologyAwareScheduling) or obj.status.admission is None:
        return True
    return not any(
        each.delayed_topology_request == "Pending" and each.topology_assignment is None
        for each in obj.status.admission.pod_set_assignments or ()
    )


def admitted_status(obj: Workload, now: float, gates: Gates) -> Json:
    """Return the status patch that updates Admitted; empty if it is up to date."""
    conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
    return _synced(obj, conditions, gates)


def withdrawn_status(
    obj: Workload, reason: WaitReason, message: str, now: float, gates: Gates
) -> Json:
    """Return the status patch that withdraws the reservation of a workload that is not admitted."""
    conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
    return _unreserved(obj, conditions, reason, message, gates)


def released_status(obj: Workload, now: float, gates: Gates) -> Json:
    """Return the status patch that releases the quota of an evicted workload whose pods are gone.

    Only a preemption or a node failure requeues the workload at once; any other eviction needs
    another event first. A workload owned by a single Pod is never requeued.
    """
    conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
    evicted = conditions.get("Evicted")
    reason, message = (evicted.reason, evicted.message) if evicted is not None else ("", "")
    if reason:
        again = reason in (EvictionReason.PREEMPTED, EvictionReason.NODE_FAILURES)
        single_pod = gates.on(Gate.SkipReassignmentForPodOwnedWorkloads) and owned_by_pod(obj)
        conditions.put("Requeued", again and not single_pod, reason, message)
    return _unreserved(obj, conditions, WaitReason.PENDING_EVALUATION, message, gates)


def owned_by_pod(obj: Workload) -> bool:
    """Whether a single Pod controls it. The Pods of a group own their workload without control."""
    owners = obj.metadata.owner_references or ()
    return any(owner.kind == "Pod" and owner.controller for owner in owners)


def condition_reason(reason: WaitReason, gates: Gates) -> str:
    """Return the reason of QuotaReserved=False.

    Without the gate, it is OnHold, Inadmissible or Pending.
    """
    if reason is WaitReason.ON_HOLD or gates.on(Gate.UnadmittedWorkloadsObservability):
        return reason.value
    inadmissible = reason in (WaitReason.MISCONFIGURED, WaitReason.SUSPENDED)
    return "Inadmissible" if inadmissible else "Pending"


def _unreserved(
    obj: Workload, conditions: Conditions, reason: WaitReason, message: str, gates: Gates
) -> Json:
    conditions.put("QuotaReserved", False, condition_reason(reason, gates), message)
    status = _synced(obj, conditions, gates)
    return status | {"admission": None} if obj.status.admission is not None else status


def _synced(obj: Workload, conditions: Conditions, gates: Gates) -> Json:
    states = [check.state for check in obj.status.admission_checks or ()]
    ran_s = sync_admitted(conditions, states, gates, placed=placed(obj, gates))
    status: Json = {"conditions": conditions.json()} if conditions.changed else {}
    if ran_s and not _exceeded_execution_time(conditions):
        past_s = obj.status.accumulated_past_execution_time_seconds or 0
        status["accumulatedPastExecutionTimeSeconds"] = past_s + ran_s
    return status


def _exceeded_execution_time(conditions: Conditions) -> bool:
    """Whether it was deactivated for exceeding its execution time: reactivation resets the time."""
    evicted = conditions.get("Evicted") if conditions.true("Evicted") else None
    return evicted is not None and evicted.reason.endswith(EXECUTION_TIME_EXCEEDED)
