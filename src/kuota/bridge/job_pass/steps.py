# SPDX-License-Identifier: Apache-2.0
"""One pass over a job: find or create its Workload, then start or stop the job.

The steps are those of Kueue's job framework, in the same order. A step that returns true ends the
pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kuota.api.base import Condition, condition
from kuota.api.gates import Gate
from kuota.api.podset import FlavorMissing, MergeConflict
from kuota.api.rules.job_common import queue_name
from kuota.api.rules.report import child, string_map, text
from kuota.engine.reasons import EvictionReason, WaitReason

from ..admission import released_status, withdrawn_status
from ..draft import Draft, PassResult, StoredWorkload
from ..effects import Delete, Event, Patch
from ..inbound_workload import replaces
from ..jobs.composable import JobWithConditions
from ..jobs.job_webhook import claimed, managed_namespace
from ..jobs.kind import JobWithHold, JobWithReclaimablePods, JobWithSkip, PodSetsUnknown, key_of
from ..jobs.topology_request import TopologyRequestError
from ..lifecycle_reserved import WAIT_FOR_RECOVERY, WAIT_FOR_START
from ..lifecycle_view import JobPassInput
from .construct import create_workload
from .find import find_workload
from .injections import attributed, cost_labels, injections
from .job_pass import JobPass
from .nesting import suspend_nested
from .reclaimable import limited, reclaimable_status

_RECOVERED = (WAIT_FOR_RECOVERY, "Recovered")
_NOT_READY = "Not all pods are ready or succeeded"
_BY_KUEUE = f"{EvictionReason.DEACTIVATED}DueTo"

Step = Callable[[JobPass], bool]


def reconcile_job(view: JobPassInput, now: float) -> PassResult:
    """Return the result of one pass over the job."""
    job_pass = JobPass(view, now)
    try:
        any(step(job_pass) for step in _STEPS)
    except (TopologyRequestError, PodSetsUnknown) as error:
        job_pass.fault, job_pass.invalid = str(error), True
    return job_pass.done()


def finish_deleted_job(job_pass: JobPass) -> bool:
    """Finish the Workloads of a deleted job, and remove their finalizers and that of the job.

    A Workload whose quota is in use stays until the last process has ended. A Workload without
    controller is not finished, because another owner may still exist.
    """
    job = job_pass.view.job
    if job is not None and not job_pass.deleting and not job_pass.abandoned:
        return False
    finishes = job_pass.view.config.gates.on(Gate.FinishOrphanedWorkloads)
    message = "The job of the workload no longer exists"
    for stored in job_pass.view.workloads:
        if job_pass.occupied(stored):
            continue
        with job_pass.draft(stored) as draft:
            if finishes and not stored.true("Finished") and _orphaned(stored):
                draft.set_condition("Finished", True, "OwnerNotFound", message)
            draft.drop_finalizer()
    if job is not None:
        job_pass.finalize()
    return True


def _orphaned(stored: StoredWorkload) -> bool:
    """Whether a Workload ends with its job."""
    owners = stored.obj.metadata.owner_references or ()
    return not stored.deleting and any(each.controller for each in owners)


def skip_exempt(job_pass: JobPass) -> bool:
    """Ignore jobs that their kind exempts."""
    kind, job = job_pass.kind, job_pass.view.job
    gates = job_pass.view.config.gates
    return job is not None and isinstance(kind, JobWithSkip) and kind.skipped(job, gates)


def skip_unmanaged_namespace(job_pass: JobPass) -> bool:
    """Ignore jobs in namespaces that are not managed, with or without a queue name."""
    return not managed_namespace(job_pass.view.namespace, job_pass.view.config)


def skip_unmanaged(job_pass: JobPass) -> bool:
    view = job_pass.view
    return not claimed(job_pass.kind, job_pass.job, view.namespace, view.config)


def report_conditions(job_pass: JobPass) -> bool:
    """Set the conditions of the Workload that only the kind of job knows."""
    stored, kind = job_pass.workload, job_pass.kind
    if stored is None or not isinstance(kind, JobWithConditions):
        return False
    with job_pass.draft(stored) as draft:
        for each in kind.conditions(job_pass.job, stored):
            draft.set_condition(each.type, each.status, each.reason, each.message)
        return draft.changed


def clean_up_finished_workload(job_pass: JobPass) -> bool:
    stored = job_pass.workload
    if stored is None or not stored.true("Finished"):
        return False
    if job_pass.occupied(stored):
        return True
    released = job_pass.finalize()
    with job_pass.draft(stored) as draft:
        held = draft.drop_finalizer()
    if held or released:
        job_pass.record_event("FinishedWorkload", f"Workload {stored.key} is finished")
    return True


def stop_without_workload(job_pass: JobPass) -> bool:
    """Stop the job of a deleted Workload. The next pass creates a new Workload."""
    stored = job_pass.workload
    if stored is None or not stored.deleting:
        return False
    if job_pass.stop(
        stored, "WorkloadDeleted", "The workload was deleted"
    ) and not job_pass.occupied(stored):
        with job_pass.draft(stored) as draft:
            draft.drop_finalizer()
    return True


def release_job_on_hold(job_pass: JobPass) -> bool:
    """Release the quota of a job that is on hold."""
    kind, stored = job_pass.kind, job_pass.workload
    why = kind.on_hold(job_pass.job) if isinstance(kind, JobWithHold) else ""
    if not why:
        return False
    if stored is not None and stored.reserved:
        status = withdrawn_status(
            stored.obj, WaitReason.ON_HOLD, why, job_pass.now, job_pass.view.config.gates
        )
        with job_pass.draft(stored) as draft:
            draft.write(status)
    return True


def finish_workload(job_pass: JobPass) -> bool:
    over, stored = job_pass.kind.end(job_pass.job), job_pass.workload
    if over is None:
        return False
    if stored is not None and not job_pass.occupied(stored):
        reason = "Succeeded" if over.success else "Failed"
        for each in (stored, *job_pass.other_slices):
            message = over.message or f"The job has {reason.lower()}"
            job_pass.finish(each, reason, message, timed_out=over.timed_out)
        job_pass.record_event("FinishedWorkload", f"Workload {stored.key} is finished")
    if stored is None or not job_pass.occupied(stored):
        job_pass.finalize()
    return True


def create_missing_workload(job_pass: JobPass) -> bool:
    if job_pass.workload is not None:
        return False
    create_workload(job_pass)
    return True


def sync_reclaimable_pods(job_pass: JobPass) -> bool:
    """Record the pods that will not run again, so that their quota is released."""
    stored, kind = job_pass.workload, job_pass.kind
    if stored is None or not job_pass.view.config.gates.on(Gate.ReclaimablePods):
        return False
    if not isinstance(kind, JobWithReclaimablePods):
        return False
    exact = job_pass.view.occupied is not None
    pods = limited(kind.reclaimable(job_pass.job, exact=exact), stored.obj)
    status = reclaimable_status(stored.obj, pods)
    if not status or (not pods and not stored.obj.status.reclaimable_pods):
        return False
    with job_pass.draft(stored) as draft:
        draft.write(status)
    return True


def sync_pods_ready(job_pass: JobPass) -> bool:
    stored = job_pass.workload
    if stored is None or job_pass.view.config.timeout_s is None:
        return False
    before = condition(stored.obj.status.conditions, "PodsReady")
    status, reason, message = _readiness(job_pass, stored, before)
    current = (before.status == "True", before.reason) if before is not None else None
    if current == (status, reason):
        return False
    if current is None and not status and job_pass.view.config.defers_readiness:
        return False
    with job_pass.draft(stored) as draft:
        draft.set_condition("PodsReady", status, reason, message)
    return True


def _readiness(
    job_pass: JobPass, stored: StoredWorkload, before: Condition | None
) -> tuple[bool, str, str]:
    """Return status, reason and message of PodsReady."""
    if not stored.true("Admitted"):
        return False, WAIT_FOR_START, _NOT_READY
    reason = before.reason if before is not None else ""
    if job_pass.kind.pods_ready(job_pass.job):
        recovered = reason in _RECOVERED
        return True, "Recovered" if recovered else "Started", "All pods are ready or succeeded"
    if before is not None and (before.status == "True" or reason == WAIT_FOR_RECOVERY):
        return False, WAIT_FOR_RECOVERY, "At least one pod has failed, waiting for recovery"
    return False, WAIT_FOR_START, _NOT_READY


def awaits_start(stored: StoredWorkload, now: float) -> PassResult:
    """Return the first PodsReady=False of a Workload, for passes that defer it."""
    draft = Draft(stored, now)
    draft.set_condition("PodsReady", False, WAIT_FOR_START, _NOT_READY)
    return draft.done()


def stop_evicted(job_pass: JobPass) -> bool:
    """Stop the job of an evicted Workload, and release the quota when its pods are gone."""
    stored = job_pass.workload
    if stored is None or not stored.true("Evicted"):
        return False
    evicted_condition = condition(stored.obj.status.conditions, "Evicted")
    reason, message = "WorkloadEvicted", ""
    if evicted_condition is not None:
        reason += f"DueTo{evicted_condition.reason}"
        message = evicted_condition.message
    job_pass.stop(stored, reason, message)
    if stored.reserved and not job_pass.busy:
        with job_pass.draft(stored) as draft:
            draft.write(released_status(stored.obj, job_pass.now, job_pass.view.config.gates))
    if evicted_condition is not None and evicted_condition.last_transition_time is not None:
        _delete_deactivated_job(
            job_pass,
            stored,
            evicted_condition.reason,
            evicted_condition.last_transition_time.timestamp(),
        )
    return True


def _delete_deactivated_job(
    job_pass: JobPass, stored: StoredWorkload, reason: str, since: float
) -> None:
    """Delete the job of a Workload that Kueue deactivated, after the retention period."""
    kept_s = job_pass.view.config.retain_deactivated_s
    if kept_s is None or stored.obj.spec.active is not False or not reason.startswith(_BY_KUEUE):
        return
    left_s = since + kept_s - job_pass.now
    if left_s > 0:
        job_pass.requeue_after_s = left_s
        return
    for obj in job_pass.objects:
        uid = text(child(obj, "metadata").get("uid"))
        job_pass.add(Delete(key=key_of(obj), uid=uid, kind=job_pass.kind.name))
    job_pass.record_events("Deleted", "Deleted because its workload was deactivated")
    job_pass.finalize()


def start_if_admitted(job_pass: JobPass) -> bool:
    """Start a suspended job whose Workload is admitted, or update its Workload."""
    stored = job_pass.workload
    if stored is None or not job_pass.suspended:
        return False
    for each in (stored, *job_pass.other_slices):
        if each.true("Admitted"):
            _start(job_pass, each)
            return True
    if stored.reserved:
        _record_pending_checks(job_pass, stored)
    elif job_pass.kind.follows_queue(job_pass.job) and (
        stored.obj.spec.queue_name != queue_name(job_pass.job)
    ):
        with job_pass.draft(stored) as draft:
            draft.patch({"spec": {"queueName": queue_name(job_pass.job) or None}})
    return True


def _start(job_pass: JobPass, stored: StoredWorkload) -> None:
    config = job_pass.view.config
    if job_pass.kind.stays_gated and _dispatched(job_pass, stored):
        return
    try:
        given = injections(stored.obj, job_pass.view.flavors, config.gates)
        given = attributed(given, stored.obj, _cost_labels(job_pass))
        effects = job_pass.kind.start(job_pass.job, given, config.gates)
    except FlavorMissing as error:
        job_pass.fault, job_pass.missing = str(error), error
        return
    except MergeConflict as error:
        job_pass.finish(stored, "FailedToStart", str(error))
        return
    job_pass.add(*effects)
    begun = dict.fromkeys(each.key for each in effects if isinstance(each, Patch))
    queue = stored.obj.status.admission.cluster_queue if stored.obj.status.admission else ""
    for key in begun:
        note = f"Admitted by ClusterQueue {queue}"
        job_pass.add(Event.about(key, "Started", note, kind=job_pass.kind.name))


def _dispatched(job_pass: JobPass, stored: StoredWorkload) -> bool:
    """Whether MultiKueue runs the job in another cluster."""
    checks = stored.obj.status.admission_checks or ()
    return any(each.name in job_pass.view.dispatching for each in checks)


def _cost_labels(job_pass: JobPass) -> Mapping[str, str]:
    own = string_map(child(job_pass.job, "metadata").get("labels"))
    keys, queue = job_pass.view.config.labels_to_copy, job_pass.view.local_queue_labels
    return cost_labels(keys, own, queue)


def _record_pending_checks(job_pass: JobPass, stored: StoredWorkload) -> None:
    """Record what the pending admission checks report."""
    changes = [
        f"{check.name}: {check.message}"
        for check in stored.obj.status.admission_checks or ()
        if check.state == "Pending" and check.message
    ]
    if changes:
        job_pass.record_events("UpdatedAdmissionCheck", "; ".join(changes))


def stop_if_not_admitted(job_pass: JobPass) -> bool:
    """Stop a running job that has no quota. Scheduling gates hold the new pods of an elastic job.

    They run on while the checks of a slice that has taken over the quota of another are pending.
    """
    stored = job_pass.workload
    if stored is None or stored.true("Admitted"):
        return True
    replacement = stored.reserved and replaces(stored.obj) is not None
    if job_pass.elastic and (replacement or job_pass.other_slices):
        return True
    job_pass.stop(stored, "NotAdmitted", "The workload is not admitted")
    return True


_STEPS: tuple[Step, ...] = (
    skip_exempt,
    finish_deleted_job,
    skip_unmanaged_namespace,
    suspend_nested,
    skip_unmanaged,
    find_workload,
    report_conditions,
    clean_up_finished_workload,
    stop_without_workload,
    release_job_on_hold,
    finish_workload,
    create_missing_workload,
    sync_reclaimable_pods,
    sync_pods_ready,
    stop_evicted,
    start_if_admitted,
    stop_if_not_admitted,
)
