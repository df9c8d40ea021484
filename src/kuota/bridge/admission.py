# SPDX-License-Identifier: Apache-2.0
"""From quota to running: what reserves it, what admits on top of it, and what takes it back.

A workload is Admitted while it holds a reservation, all its admission checks are Ready and no
placement of its pods is outstanding. The time it spent so counts against its execution limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

from kuota.api.base import Json, is_true
from kuota.api.gates import Gate, Gates
from kuota.api.workload import Admission, Workload
from kuota.engine.activity import flavor_names
from kuota.engine.model import ClusterQueue
from kuota.engine.reasons import EvictionReason, WaitReason

from .conditions import Conditions

TIME_UP = "MaximumExecutionTimeExceeded"
NO_RESERVATION = "The workload has no reservation"


class Phase(StrEnum):
    """How far a workload has come."""

    PENDING = "pending"
    QUOTA_RESERVED = "quotaReserved"
    ADMITTED = "admitted"
    FINISHED = "finished"


def phase(obj: Workload) -> Phase:
    """The furthest point that its conditions claim."""
    conditions = obj.status.conditions
    if is_true(conditions, "Finished"):
        return Phase.FINISHED
    if is_true(conditions, "Admitted"):
        return Phase.ADMITTED
    if is_true(conditions, "QuotaReserved"):
        return Phase.QUOTA_RESERVED
    return Phase.PENDING


def lost_quota(before: Phase, after: Phase) -> bool:
    """Whether a workload had quota and waits again."""
    return before in (Phase.QUOTA_RESERVED, Phase.ADMITTED) and after is Phase.PENDING


def required_checks(queue: ClusterQueue, admission: Admission | None) -> tuple[str, ...]:
    """The checks a workload has to pass: those of its flavors.

    Without an admission any flavor may come, so only checks that hold for all of them count.
    """
    if admission is None:
        offered = flavor_names(queue)
        return tuple(r.name for r in queue.checks if not r.flavors or r.flavors >= offered)
    assigned = admission.pod_set_assignments or ()
    used = frozenset(flavor for each in assigned for flavor in (each.flavors or {}).values())
    return tuple(rule.name for rule in queue.checks if rule.covers(used))


def reserve(conditions: Conditions, queue: str) -> None:
    """Say that quota is reserved, and that whatever took it away before is over."""
    message = f"Quota reserved in ClusterQueue {queue}"
    conditions.put("QuotaReserved", True, "QuotaReserved", message)
    for type_ in ("Evicted", "Preempted", "BlockedOnPreemptionGates"):
        conditions.lower(type_, "QuotaReserved")


def sync_admitted(
    conditions: Conditions, states: Iterable[str], gates: Gates, *, placed: bool = True
) -> int:
    """Make Admitted say what reservation, check states and placement together amount to.

    The result is how many whole seconds of execution just ended; 0 if none did. `placed` is false
    while pods of a reservation still wait for a topology.
    """
    reserved, ready = conditions.true("QuotaReserved"), all(state == "Ready" for state in states)
    was_admitted = conditions.true("Admitted")
    if reserved and ready and placed:
        if not was_admitted:
            conditions.put("Admitted", True, "Admitted", "The workload is admitted")
        return 0
    if not was_admitted and not _worth_saying(conditions, reserved, gates):
        return 0
    ran_s = conditions.age_s("Admitted") if was_admitted else 0
    granular = gates.on(Gate.UnadmittedWorkloadsObservability)
    conditions.put("Admitted", False, *_obstacle(reserved, ready, granular))
    return ran_s


def _worth_saying(conditions: Conditions, reserved: bool, gates: Gates) -> bool:
    """Whether one that is not admitted should say why; not before anybody has looked at it."""
    if not gates.on(Gate.UnadmittedWorkloadsObservability):
        return False
    looked_at = conditions.get("Admitted") or conditions.get("QuotaReserved")
    return reserved or looked_at is not None or gates.on(Gate.UnadmittedWorkloadsExplicitStatus)


def _obstacle(reserved: bool, ready: bool, granular: bool) -> tuple[str, str]:
    """Reason and message of Admitted=False. Coarse reasons also tell of checks without quota."""
    if not reserved and (ready or granular):
        return "NoReservation", NO_RESERVATION
    if not reserved:
        return "NoReservationUnsatisfiedChecks", f"{NO_RESERVATION}, and not all checks are ready"
    if not ready:
        reason = "UnsatisfiedAdmissionChecks" if granular else "UnsatisfiedChecks"
        return reason, "Not all admission checks of the workload are ready"
    return "PendingDelayedTopologyRequests", "The pods of the workload still have to be placed"


def placed(obj: Workload, gates: Gates) -> bool:
    """Whether no pod set of the admission waits for a topology that was put off."""
    if not gates.on(Gate.TopologyAwareScheduling) or obj.status.admission is None:
        return True
    return not any(
        each.delayed_topology_request == "Pending" and each.topology_assignment is None
        for each in obj.status.admission.pod_set_assignments or ()
    )


def admitted_status(obj: Workload, now: float, gates: Gates) -> Json:
    """The status patch that brings Admitted up to date; empty when it is."""
    conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
    return _synced(obj, conditions, gates)


def withdrawn_status(
    obj: Workload, reason: WaitReason, message: str, now: float, gates: Gates
) -> Json:
    """The status patch that takes the reservation back from a workload that has not started."""
    conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
    return _unreserved(obj, conditions, reason, message, gates)


def released_status(obj: Workload, now: float, gates: Gates) -> Json:
    """The status patch that frees the quota of an evicted workload, once its pods are gone.

    It waits in its queue again at once only if it was preempted or its nodes failed; after any
    other eviction something has to happen first. A workload of a single Pod cannot come back.
    """
    conditions = Conditions(obj.status.conditions, now, obj.metadata.generation)
    evicted = conditions.get("Evicted")
    reason, message = (evicted.reason, evicted.message) if evicted is not None else ("", "")
    if reason:
        again = reason in (EvictionReason.PREEMPTED, EvictionReason.NODE_FAILURES)
        mortal = gates.on(Gate.SkipReassignmentForPodOwnedWorkloads) and owned_by_pod(obj)
        conditions.put("Requeued", again and not mortal, reason, message)
    return _unreserved(obj, conditions, WaitReason.PENDING_EVALUATION, message, gates)


def owned_by_pod(obj: Workload) -> bool:
    """Whether it stands for one Pod. The Pods of a group own theirs together, without control."""
    owners = obj.metadata.owner_references or ()
    return any(owner.kind == "Pod" and owner.controller for owner in owners)


def condition_reason(reason: WaitReason, gates: Gates) -> str:
    """The reason of QuotaReserved=False as it is written; there were only two before the gate."""
    if gates.on(Gate.UnadmittedWorkloadsObservability):
        return reason.value
    misplaced = reason in (WaitReason.MISCONFIGURED, WaitReason.SUSPENDED)
    return "Inadmissible" if misplaced else "Pending"


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
    if ran_s and not _time_up(conditions):
        past_s = obj.status.accumulated_past_execution_time_seconds or 0
        status["accumulatedPastExecutionTimeSeconds"] = past_s + ran_s
    return status


def _time_up(conditions: Conditions) -> bool:
    """Whether it was given up for running too long: who gives it another chance gives it time."""
    evicted = conditions.get("Evicted")
    return conditions.true("Evicted") and evicted is not None and evicted.reason.endswith(TIME_UP)
