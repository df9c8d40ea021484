# SPDX-License-Identifier: Apache-2.0
"""Why a Workload has no quota because of its queues or its own spec; and its admission."""

from __future__ import annotations

from kuota.api.gates import Gate
from kuota.api.rules.metadata import ADMISSION_GATED_BY
from kuota.engine.reasons import WaitReason

from .admission import admitted_status, condition_reason, on_hold
from .draft import Draft
from .lifecycle_view import WorkloadPassInput

Obstacle = tuple[WaitReason, str]
"""Why a workload has no quota: the reason and the message of QuotaReserved=False."""

_LASTING = frozenset(
    {
        WaitReason.PENDING_EVALUATION,
        WaitReason.NO_MATCHING_FLAVOR,
        WaitReason.WAITING_FOR_QUOTA,
        WaitReason.EXCEEDS_MAX_QUOTA,
        WaitReason.TOPOLOGY_PLACEMENT_FAILED,
        WaitReason.WAITING_FOR_PREEMPTED,
        WaitReason.WAITING_FOR_PODS_READY,
        WaitReason.INTERNAL_ERROR,
    }
)
"""Reasons that stand until the engine evaluates the workload again."""


def sync_pending_conditions(draft: Draft, view: WorkloadPassInput) -> bool:
    """Update QuotaReserved=False and Admitted. Returns whether this ends the pass."""
    gates = view.config.gates
    if not draft.current.reserved:
        obstacle = _obstacle(draft, view)
        if obstacle is not None:
            reason, message = obstacle
            draft.set_condition("QuotaReserved", False, condition_reason(reason, gates), message)
    before = draft.current.true("Admitted")
    draft.write(admitted_status(draft.obj, draft.now, gates))
    if draft.current.true("Admitted") and not before:
        held_s = draft.conditions().age_s("QuotaReserved")
        queue = draft.obj.status.admission.cluster_queue if draft.obj.status.admission else ""
        note = f"Admitted by ClusterQueue {queue}, {held_s}s after the reservation"
        draft.record_event("Admitted", note)
    return not draft.current.reserved


def _obstacle(draft: Draft, view: WorkloadPassInput) -> Obstacle | None:
    """Return the first reason that applies; None to leave the condition as it is.

    A reason that still applies is returned again, so that the condition records the present
    generation. Without UnadmittedWorkloadsObservability only queues that cannot admit are reported.
    """
    if not view.config.gates.on(Gate.UnadmittedWorkloadsObservability):
        return queue_obstacle(view)
    if not draft.active:
        return WaitReason.DEACTIVATED, "The workload is deactivated"
    reserved = draft.conditions().get("QuotaReserved")
    if reserved is not None and on_hold(draft.obj):
        return WaitReason.ON_HOLD, reserved.message
    blocked = queue_obstacle(view) or _own_obstacle(draft, view)
    if blocked is not None:
        return blocked
    if reserved is not None and reserved.reason in _LASTING:
        return WaitReason(reserved.reason), reserved.message
    if reserved is None and view.parent:
        return (
            WaitReason.PENDING_EVALUATION,
            "Its variants, one for each flavor, are queued instead",
        )
    if reserved is None and not view.config.gates.on(Gate.UnadmittedWorkloadsExplicitStatus):
        return None
    return WaitReason.PENDING_EVALUATION, "The workload has not been evaluated yet"


def queue_obstacle(view: WorkloadPassInput) -> Obstacle | None:
    """Return why the queues cannot admit; None if they can."""
    return local_obstacle(view) or cluster_obstacle(view)


def local_obstacle(view: WorkloadPassInput) -> Obstacle | None:
    local = view.local_queue
    name = view.stored.obj.spec.queue_name
    if local is None or view.local_queue_deleting:
        missing = f"LocalQueue {name} does not exist"
        return WaitReason.MISCONFIGURED, missing if name else "The workload names no LocalQueue"
    if local.stop_policy != "None":
        return WaitReason.SUSPENDED, f"LocalQueue {name} is stopped"
    return None


def cluster_obstacle(view: WorkloadPassInput) -> Obstacle | None:
    """Return why the ClusterQueue cannot admit. One that is being deleted is inactive."""
    queue, local, admission = view.cluster_queue, view.local_queue, view.stored.obj.status.admission
    if queue is None:
        of_local = local.cluster_queue if local is not None else ""
        name = admission.cluster_queue if admission is not None else of_local
        return WaitReason.MISCONFIGURED, f"ClusterQueue {name} does not exist"
    if queue.deleting or queue.stop_policy != "None" or not view.cluster_queue_active:
        return WaitReason.SUSPENDED, f"ClusterQueue {queue.name} is inactive"
    return None


def _own_obstacle(draft: Draft, view: WorkloadPassInput) -> Obstacle | None:
    obj = draft.obj
    if not view.namespace_matches:
        named = view.cluster_queue.name if view.cluster_queue else ""
        message = f"Namespace {obj.metadata.namespace} does not match ClusterQueue {named}"
        return WaitReason.MISCONFIGURED, message
    if view.faults:
        return WaitReason.MISCONFIGURED, "; ".join(view.faults)
    gated = obj.metadata.annotation(ADMISSION_GATED_BY)
    if gated and view.config.gates.on(Gate.AdmissionGatedBy):
        return WaitReason.ADMISSION_GATED, f"Admission is gated by {gated}"
    return None
