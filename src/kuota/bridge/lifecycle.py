# SPDX-License-Identifier: Apache-2.0
"""One pass over a Workload: what is written to it apart from the engine's decisions.

The steps are those of Kueue's workload controller, in the same order. A step that returns true ends
the pass. Its write causes the next pass, which continues from there.
"""

from __future__ import annotations

from collections.abc import Callable

from kuota.api.base import Json, true_condition
from kuota.api.gates import Gate
from kuota.api.rules.metadata import ADMISSION_GATED_BY
from kuota.engine.model import ClusterQueue, LocalQueue
from kuota.engine.reasons import EvictionReason, WaitReason

from .admission import condition_reason, on_hold, sync_admitted
from .draft import Draft, PassResult
from .effects import Delete
from .eviction import evicted_status, eviction_event
from .job_pass.workload import JOB_UID
from .lifecycle_checks import synced_checks, synced_preemption_gates
from .lifecycle_reason import sync_pending_conditions
from .lifecycle_reserved import delayed, reconcile_reserved, requeue_json, retry_at
from .lifecycle_view import WorkloadPassInput
from .variants import VARIANT_PARENT, is_parent, parent_of

_BACKED_OFF = (EvictionReason.PODS_READY_TIMEOUT, EvictionReason.ADMISSION_CHECK)

_INADMISSIBLE = "Inadmissible"

Step = Callable[[Draft, WorkloadPassInput], bool | None]


def reconcile_workload(view: WorkloadPassInput, now: float) -> PassResult:
    """Return the result of one pass over the Workload."""
    draft = Draft(view.stored, now)
    any(step(draft, view) for step in _STEPS)
    return draft.done()


def finish_orphaned(draft: Draft, view: WorkloadPassInput) -> bool:
    """Finish a Workload without an owner, and remove its finalizer."""
    meta = draft.obj.metadata
    leftover = bool(meta.label(JOB_UID)) and view.config.gates.on(Gate.FinishOrphanedWorkloads)
    deleting = draft.current.deleting
    if meta.owner_references or not (deleting or leftover):
        return False
    if not deleting and not draft.current.true("Finished"):
        draft.set_condition(
            "Finished", True, "OwnerNotFound", "The job of the workload no longer exists"
        )
    draft.drop_finalizer()
    return deleting


def sync_preemption_gates(draft: Draft, view: WorkloadPassInput) -> None:
    """List the preemption gates of the spec in the status, new ones closed."""
    if view.config.gates.on(Gate.MultiKueueOrchestratedPreemption):
        draft.write(synced_preemption_gates(draft.obj, draft.now))


def clear_stale_admission(draft: Draft, view: WorkloadPassInput) -> None:
    """Clear an admission without a reservation, which another writer may have left behind."""
    reserved = draft.conditions().get("QuotaReserved")
    unreserved = reserved is not None and reserved.status == "False"
    if draft.obj.status.admission is not None and unreserved:
        draft.write({"admission": None})


def sync_parent_label(draft: Draft, view: WorkloadPassInput) -> bool:
    """Label a Workload as a parent if its queue admits concurrently, and otherwise remove the
    label.

    A Workload with quota stays as it is.
    """
    queue, meta = view.cluster_queue, draft.obj.metadata
    if not view.config.gates.on(Gate.ConcurrentAdmission) or queue is None:
        return False
    concurrent = queue.concurrent_admission is not None
    if concurrent is is_parent(meta) or parent_of(meta) is not None:
        return False
    if draft.current.reserved or draft.current.true("Finished"):
        return False
    draft.patch({"metadata": {"labels": {VARIANT_PARENT: "true" if concurrent else None}}})
    return True


def delete_expired(draft: Draft, view: WorkloadPassInput) -> bool:
    """Delete a finished Workload after its retention period; nothing else happens to it.

    If someone else deletes the Workload, the controller of its owner removes the finalizer.
    """
    if not draft.current.true("Finished"):
        return False
    kept_s = view.config.retain_finished_s
    if kept_s is None:
        return True
    end = draft.conditions().get("Finished")
    since = end.last_transition_time if end is not None else None
    left_s = kept_s - (draft.now - since.timestamp() if since is not None else 0.0)
    if left_s > 0:
        draft.requeue_after(left_s)
        return True
    draft.drop_finalizer()
    if draft.current.deleting:
        return True
    draft.add(Delete(key=draft.obj.key, uid=draft.obj.metadata.uid))
    draft.record_event("Deleted", "Deleted after the retention period of finished workloads")
    return True


def apply_check_delay(draft: Draft, view: WorkloadPassInput) -> bool:
    """Apply the delay that a check in Retry requests. A delay is only ever extended."""
    until = retry_at(draft.obj.status.admission_checks)
    state = draft.obj.status.requeue_state
    if until is None or until.timestamp() <= draft.now:
        return False
    later = delayed(state, until)
    if later == state:
        return False
    draft.write({"requeueState": requeue_json(later)})
    return True


def report_device_faults(draft: Draft, view: WorkloadPassInput) -> bool:
    """Report devices that cannot be charged, and queue the Workload again once they can be."""
    if draft.current.reserved or on_hold(draft.obj):
        return False
    conditions = draft.conditions()
    found = conditions.get("Requeued")
    rejected = found is not None and (found.status, found.reason) == ("False", _INADMISSIBLE)
    if not view.devices_unknown:
        if rejected:
            conditions.drop("Requeued")
            draft.put(conditions)
        return False
    message, gates = "; ".join(view.faults), view.config.gates
    reason = condition_reason(WaitReason.MISCONFIGURED, gates)
    conditions.put("QuotaReserved", False, reason, message)
    sync_admitted(conditions, (), gates)
    conditions.put("Requeued", False, _INADMISSIBLE, message)
    draft.put(conditions)
    return True


def deactivate_on_request(draft: Draft, view: WorkloadPassInput) -> bool:
    if not draft.active or not draft.current.true("DeactivationTarget"):
        return False
    draft.patch({"spec": {"active": False}})
    return True


def await_requeue_delay(draft: Draft, view: WorkloadPassInput) -> bool:
    """Wait for the end of a delay, then clear it if the Workload has no quota.

    The next pass requeues it.
    """
    state = draft.obj.status.requeue_state
    if not draft.active or state is None or state.requeue_at is None:
        return False
    left_s = state.requeue_at.timestamp() - draft.now
    if left_s > 0:
        draft.requeue_after(left_s)
    elif not draft.current.reserved:
        draft.write({"requeueState": {"requeueAt": None}})
    return not draft.current.reserved


def requeue(draft: Draft, view: WorkloadPassInput) -> bool:
    """Requeue a Workload that is active again or whose backoff is over."""
    conditions = draft.conditions()
    found = conditions.get("Requeued")
    if not draft.active or found is None or found.status != "False":
        return False
    # Kueue compares the exact reason, and so ignores Workloads that it deactivated itself.
    if found.reason.startswith(EvictionReason.DEACTIVATED):
        conditions.put("Requeued", True, "Reactivated", "The workload was reactivated")
    elif found.reason in _BACKED_OFF:
        if not _backoff_over(draft):
            return True
        conditions.put("Requeued", True, "BackoffFinished", "The backoff has ended")
    return draft.put(conditions)


def _backoff_over(draft: Draft) -> bool:
    """Whether no delay is left. This also holds for a Workload that has quota."""
    state = draft.obj.status.requeue_state
    if state is None or state.requeue_at is None:
        return True
    left_s = state.requeue_at.timestamp() - draft.now
    if left_s > 0:
        draft.requeue_after(left_s)
        return False
    draft.write({"requeueState": {"requeueAt": None}})
    return True


def evict_inactive(draft: Draft, view: WorkloadPassInput) -> bool:
    """Evict an inactive Workload, whether or not it holds quota, and forget its retries.

    One that was evicted already keeps the reason of that eviction.
    """
    obj, evicted = draft.obj, draft.current.true("Evicted")
    if draft.active or (evicted and obj.status.requeue_state is None):
        return False
    conditions = draft.conditions()
    target = true_condition(obj.status.conditions, "DeactivationTarget")
    conditions.drop("DeactivationTarget")
    if evicted:
        draft.put(conditions)
    else:
        cause = target.reason if target is not None else ""
        message = "The workload is deactivated"
        if target is not None:
            message += f" due to {target.message}"
        reason = EvictionReason.DEACTIVATED
        draft.write(evicted_status(obj, conditions, reason, message, draft.now, cause))
        draft.add(*eviction_event(obj, reason, message, cause))
    if obj.status.requeue_state is not None:
        draft.write({"requeueState": None})
    return True


def requeue_after_local_queue_restart(draft: Draft, view: WorkloadPassInput) -> bool:
    return _requeue_after_restart(
        draft, view.local_queue, "LocalQueue", EvictionReason.LOCAL_QUEUE_STOPPED
    )


def record_admission_gate_events(draft: Draft, view: WorkloadPassInput) -> bool:
    """Record events when an annotation starts or stops gating the admission."""
    gates = view.config.gates
    if not gates.on(Gate.AdmissionGatedBy) or draft.current.true("Admitted"):
        return False
    gated = draft.obj.metadata.annotation(ADMISSION_GATED_BY)
    conditions = draft.conditions()
    before = conditions.get("QuotaReserved")
    reported = before is not None and before.reason == WaitReason.ADMISSION_GATED
    if bool(gated) == reported or (gated and not draft.active):
        return False
    note = f"Admission is gated by {gated}" if gated else "The admission is no longer gated"
    cleared = condition_reason(WaitReason.PENDING_EVALUATION, gates)
    conditions.put("QuotaReserved", False, WaitReason.ADMISSION_GATED if gated else cleared, note)
    sync_admitted(conditions, (), gates)
    draft.put(conditions)
    if draft.obj.status.admission is not None:
        draft.write({"admission": None})
    draft.record_event("AdmissionGated" if gated else "AdmissionGateCleared", note)
    return True


def requeue_after_cluster_queue_restart(draft: Draft, view: WorkloadPassInput) -> bool:
    stopped = EvictionReason.CLUSTER_QUEUE_STOPPED
    return _requeue_after_restart(draft, view.cluster_queue, "ClusterQueue", stopped)


def sync_admission_checks(draft: Draft, view: WorkloadPassInput) -> bool:
    """List the admission checks that the queue requires for these flavors."""
    if view.cluster_queue is None:
        return False
    if view.parent:
        # The checks of a parent's variants passed before the parent is admitted.
        status: Json = {"admissionChecks": None} if draft.obj.status.admission_checks else {}
    else:
        status = synced_checks(draft.obj, view.cluster_queue, draft.now)
    draft.write(status)
    return bool(status)


def sync_admission(draft: Draft, view: WorkloadPassInput) -> bool:
    """Report why there is no quota, or admit a Workload that has passed its checks."""
    if draft.current.true("Admitted"):
        return False
    return sync_pending_conditions(draft, view)


def _requeue_after_restart(
    draft: Draft, queue: LocalQueue | ClusterQueue | None, kind: str, stopped: EvictionReason
) -> bool:
    """Requeue a Workload that was evicted when the queue stopped, once the queue runs again."""
    found = draft.conditions().get("Requeued")
    if queue is None or queue.stop_policy != "None" or found is None:
        return False
    if found.status != "False" or found.reason != stopped:
        return False
    return draft.set_condition("Requeued", True, f"{kind}Restarted", f"The {kind} was restarted")


_STEPS: tuple[Step, ...] = (
    finish_orphaned,
    sync_preemption_gates,
    sync_parent_label,
    delete_expired,
    clear_stale_admission,
    apply_check_delay,
    report_device_faults,
    deactivate_on_request,
    await_requeue_delay,
    requeue,
    evict_inactive,
    requeue_after_local_queue_restart,
    record_admission_gate_events,
    requeue_after_cluster_queue_restart,
    sync_admission_checks,
    sync_admission,
    reconcile_reserved,
)
