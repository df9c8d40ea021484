# SPDX-License-Identifier: Apache-2.0
"""One pass over a Workload: what is written on it beside the decisions of the engine.

The steps are those of Kueue's workload controller, in its order. A step that answers true ends the
pass; what it wrote comes back as news, and the next pass goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable

from kuota.api.base import Json
from kuota.api.gates import Gate
from kuota.api.workload import RequeueState
from kuota.engine.reasons import EvictionReason, WaitReason

from .admission import sync_admitted
from .conditions import Conditions, stamp
from .draft import Draft, Pass
from .effects import Delete
from .eviction import evicted_status, eviction_event
from .inbound_workload import GATED_BY, JOB_UID
from .lifecycle_checks import missing_gates, synced_checks
from .lifecycle_reason import say_why_not
from .lifecycle_reserved import delayed, held, retry_at
from .lifecycle_view import WorkloadView
from .variants import VARIANT_PARENT, is_parent, parent_of

FINALIZER = "kueue.x-k8s.io/resource-in-use"
_BACKED_OFF = (EvictionReason.PODS_READY_TIMEOUT, EvictionReason.ADMISSION_CHECK)

Step = Callable[[Draft, WorkloadView], bool]


def steps(view: WorkloadView, now: float) -> Pass:
    """What one pass over the Workload leads to."""
    draft = Draft(view.seen, now)
    for step in _STEPS:
        if step(draft, view):
            break
    return draft.done()


def orphaned(draft: Draft, view: WorkloadView) -> bool:
    """A Workload that nobody owns any more is finished, and let go of."""
    meta = draft.obj.metadata
    leftover = bool(meta.label(JOB_UID)) and view.rules.gates.on(Gate.FinishOrphanedWorkloads)
    deleting = draft.seen.deleting
    if meta.owner_references or not (deleting or leftover):
        return False
    if not deleting and not draft.seen.true("Finished"):
        conditions = draft.conditions()
        conditions.put("Finished", True, "OwnerNotFound", "The job of the workload is gone")
        draft.put(conditions)
    draft.drop_finalizer(FINALIZER)
    return deleting


def preemption_gated(draft: Draft, view: WorkloadView) -> bool:
    """The status lists the preemption gates of the spec, new ones closed."""
    if not view.rules.gates.on(Gate.MultiKueueOrchestratedPreemption):
        return False
    draft.write(missing_gates(draft.obj, draft.now))
    return False


def taken_back(draft: Draft, view: WorkloadView) -> bool:
    """An admission ends with its reservation, even where whoever ended that left it behind."""
    said = draft.conditions().get("QuotaReserved")
    if draft.obj.status.admission is not None and said is not None and said.status == "False":
        draft.write({"admission": None})
    return False


def stands_aside(draft: Draft, view: WorkloadView) -> bool:
    """Where flavors are tried concurrently, a Workload is the parent of variants that queue.

    One that holds quota keeps it, as what it was when it got it.
    """
    queue, meta = view.cluster_queue, draft.obj.metadata
    if not view.rules.gates.on(Gate.ConcurrentAdmission) or queue is None:
        return False
    concurrent = queue.concurrent_admission is not None
    if concurrent is is_parent(meta) or parent_of(meta) is not None:
        return False
    if draft.seen.reserved or draft.seen.true("Finished"):
        return False
    draft.patch({"metadata": {"labels": {VARIANT_PARENT: "true" if concurrent else None}}})
    return True


def finished(draft: Draft, view: WorkloadView) -> bool:
    """Nothing more happens to a finished Workload, but that it is deleted in the end."""
    if not draft.seen.true("Finished"):
        return False
    kept_s = view.rules.retain_finished_s
    if kept_s is None or draft.seen.deleting:
        if draft.seen.deleting:
            draft.drop_finalizer(FINALIZER)
        return True
    left_s = kept_s - _since_s(draft, "Finished")
    if left_s > 0:
        draft.look_again(left_s)
        return True
    draft.drop_finalizer(FINALIZER)
    draft.add(Delete(key=draft.obj.key, uid=draft.obj.metadata.uid))
    draft.tell("Deleted", "Deleted, since it finished longer ago than finished workloads are kept")
    return True


def retried_later(draft: Draft, view: WorkloadView) -> bool:
    """A check in Retry may ask for a delay, which is only ever moved later."""
    until = retry_at(draft.obj.status.admission_checks)
    state = draft.obj.status.requeue_state
    if until is None or until.timestamp() <= draft.now:
        return False
    later = delayed(state, until)
    if later == state:
        return False
    draft.write({"requeueState": _requeue_json(later)})
    return True


def deactivation_wanted(draft: Draft, view: WorkloadView) -> bool:
    if not _active(draft) or not draft.seen.true("DeactivationTarget"):
        return False
    draft.patch({"spec": {"active": False}})
    return True


def delay_over(draft: Draft, view: WorkloadView) -> bool:
    """Wait for the end of a delay; a Workload that waits for quota then queues again."""
    state = draft.obj.status.requeue_state
    if not _active(draft) or state is None or state.requeue_at is None:
        return False
    left_s = state.requeue_at.timestamp() - draft.now
    pending = not draft.seen.reserved
    if left_s > 0:
        draft.look_again(left_s)
        return pending
    if not pending:
        return False
    draft.write({"requeueState": {"requeueAt": None}})
    requeued(draft, view)
    return True


def requeued(draft: Draft, view: WorkloadView) -> bool:
    """What was set aside comes back once it is active again, or its back-off is over."""
    conditions = draft.conditions()
    found = conditions.get("Requeued")
    if not _active(draft) or found is None or found.status != "False":
        return False
    # Kueue compares with the bare reason and so leaves aside what it deactivated itself.
    if found.reason.startswith(EvictionReason.DEACTIVATED):
        conditions.put("Requeued", True, "Reactivated", "The workload was reactivated")
    elif found.reason in _BACKED_OFF:
        if not _backoff_over(draft):
            return True
        conditions.put("Requeued", True, "BackoffFinished", "The back-off is over")
    return draft.put(conditions)


def _backoff_over(draft: Draft) -> bool:
    """Whether no delay is left, which also holds of one that still has its quota."""
    state = draft.obj.status.requeue_state
    if state is None or state.requeue_at is None:
        return True
    left_s = state.requeue_at.timestamp() - draft.now
    if left_s > 0:
        draft.look_again(left_s)
        return False
    draft.write({"requeueState": {"requeueAt": None}})
    return True


def deactivated(draft: Draft, view: WorkloadView) -> bool:
    """An inactive Workload is evicted, quota or not, and its tries are forgotten."""
    obj = draft.obj
    settled = draft.seen.true("Evicted") and obj.status.requeue_state is None
    if _active(draft) or settled:
        return False
    conditions = draft.conditions()
    target = conditions.get("DeactivationTarget")
    wanted = target if target is not None and target.status == "True" else None
    cause = wanted.reason if wanted is not None else ""
    message = "The workload is deactivated"
    if wanted is not None:
        message += f" due to {wanted.message}"
    conditions.drop("DeactivationTarget")
    reason = EvictionReason.DEACTIVATED
    status = evicted_status(obj, conditions, reason, message, draft.now, cause)
    if obj.status.requeue_state is not None:
        status["requeueState"] = None
    draft.write(status)
    draft.add(*eviction_event(obj, reason, message, cause))
    return True


def local_queue_restarted(draft: Draft, view: WorkloadView) -> bool:
    queue = view.local_queue
    if queue is None or queue.stop_policy != "None":
        return False
    stopped, message = EvictionReason.LOCAL_QUEUE_STOPPED, "The LocalQueue runs again"
    return _restart(draft, stopped, "LocalQueueRestarted", message)


def admission_gated(draft: Draft, view: WorkloadView) -> bool:
    """Say when an annotation begins or ends to keep the Workload out of its queue."""
    gates = view.rules.gates
    if not gates.on(Gate.AdmissionGatedBy) or draft.seen.true("Admitted"):
        return False
    gated = draft.obj.metadata.annotation(GATED_BY)
    conditions = draft.conditions()
    before = conditions.get("QuotaReserved")
    said = before is not None and before.reason == WaitReason.ADMISSION_GATED
    if bool(gated) == said or (gated and not _active(draft)):
        return False
    note = f"Admission waits for {gated}" if gated else "Nothing gates the admission any more"
    reason = WaitReason.ADMISSION_GATED if gated else WaitReason.PENDING_EVALUATION
    conditions.put("QuotaReserved", False, reason, note)
    sync_admitted(conditions, (), gates)
    draft.put(conditions)
    if draft.obj.status.admission is not None:
        draft.write({"admission": None})
    draft.tell("AdmissionGated" if gated else "AdmissionGateCleared", note)
    return True


def cluster_queue_restarted(draft: Draft, view: WorkloadView) -> bool:
    queue = view.cluster_queue
    if queue is None or queue.stop_policy != "None":
        return False
    stopped, message = EvictionReason.CLUSTER_QUEUE_STOPPED, "The ClusterQueue runs again"
    return _restart(draft, stopped, "ClusterQueueRestarted", message)


def checks_listed(draft: Draft, view: WorkloadView) -> bool:
    """The status lists the admission checks that the queue requires for these flavors."""
    if view.cluster_queue is None or not _active(draft):
        return False
    if view.parent:
        # Its variants have passed theirs before it is admitted.
        status: Json = {"admissionChecks": None} if draft.obj.status.admission_checks else {}
    else:
        status = synced_checks(draft.obj, view.cluster_queue, draft.now)
    draft.write(status)
    return bool(status)


def admitted(draft: Draft, view: WorkloadView) -> bool:
    """Say why there is no quota, or admit what has passed its checks."""
    if draft.seen.true("Admitted"):
        return False
    return say_why_not(draft, view)


def _restart(draft: Draft, stopped: str, reason: str, message: str) -> bool:
    conditions = draft.conditions()
    found = conditions.get("Requeued")
    if found is None or found.status != "False" or found.reason != stopped:
        return False
    conditions.put("Requeued", True, reason, message)
    return draft.put(conditions)


def _active(draft: Draft) -> bool:
    return draft.obj.spec.active is not False


def _since_s(draft: Draft, type_: str) -> float:
    conditions: Conditions = draft.conditions()
    found = conditions.get(type_)
    since = found.last_transition_time if found is not None else None
    return draft.now - since.timestamp() if since is not None else 0.0


def _requeue_json(state: RequeueState) -> dict[str, object]:
    at = state.requeue_at
    when = stamp(at.timestamp()).isoformat().replace("+00:00", "Z") if at is not None else None
    return {"count": state.count, "requeueAt": when}


_STEPS: tuple[Step, ...] = (
    orphaned,
    preemption_gated,
    stands_aside,
    finished,
    taken_back,
    retried_later,
    deactivation_wanted,
    delay_over,
    requeued,
    deactivated,
    local_queue_restarted,
    admission_gated,
    cluster_queue_restarted,
    checks_listed,
    admitted,
    held,
)
