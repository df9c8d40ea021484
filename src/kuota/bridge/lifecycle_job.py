# SPDX-License-Identifier: Apache-2.0
"""One pass over a job: its Workload is found or made, the job is started, stopped, or let be.

The steps are those of Kueue's job framework, in its order. A step that answers true ends the pass.
"""

from __future__ import annotations

from collections.abc import Callable

from kuota.api.base import Condition, condition
from kuota.api.gates import Gate
from kuota.api.podset import FlavorMissing, MergeConflict
from kuota.api.rules.job_common import queue_name, suspended
from kuota.api.rules.report import child
from kuota.bridge.jobs.job_arrival import claimed, managed_namespace
from kuota.bridge.jobs.job_state import limited, reclaimable_status
from kuota.engine.reasons import EvictionReason

from .admission import released_status
from .draft import Draft, Pass, Seen
from .effects import Delete
from .jobs.job_start import injections, started
from .jobs.job_state import active, end, pods_ready, reclaimable
from .lifecycle_job_workload import JOB, Turn, created, found
from .lifecycle_reserved import WAIT_FOR_RECOVERY, WAIT_FOR_START
from .lifecycle_view import JobView

_RECOVERED = (WAIT_FOR_RECOVERY, "Recovered")
_NOT_READY = "Not all pods are ready or succeeded"
_BY_KUEUE = f"{EvictionReason.DEACTIVATED}DueTo"

Step = Callable[[Turn], bool]


def job_pass(view: JobView, now: float) -> Pass:
    """What one pass over the job leads to."""
    turn = Turn(view, now)
    any(step(turn) for step in _STEPS)
    return turn.done()


def gone(turn: Turn) -> bool:
    """The Workloads of a job that is gone are finished, and let go of."""
    job = turn.view.job
    if job is not None and not child(job, "metadata").get("deletionTimestamp"):
        return False
    finishes = turn.view.rules.gates.on(Gate.FinishOrphanedWorkloads)
    message = "The job of the workload is gone"
    for seen in turn.view.workloads:
        with turn.draft(seen) as draft:
            if finishes and not seen.true("Finished"):
                draft.set_condition("Finished", True, "OwnerNotFound", message)
            draft.drop_finalizer()
    return True


def elsewhere(turn: Turn) -> bool:
    """Jobs of other namespaces are left alone, queue name or not."""
    return not managed_namespace(turn.view.namespace, turn.view.rules)


def nested(turn: Turn) -> bool:
    """A job whose ancestor is managed only runs while that one may; it has no Workload itself."""
    if turn.view.nested_too_deep:
        turn.tell("JobNestingTooDeep", "The job has too many owners above it", warning=True)
    if turn.view.nesting:
        turn.fault = turn.view.nesting
        return True
    ancestor = turn.view.ancestor
    if ancestor is None:
        return False
    newest = ancestor.newest
    idle = newest is None or not newest.true("Admitted")
    if idle and end(turn.job) is None and not suspended(turn.job):
        turn.write(turn.job | {"spec": child(turn.job, "spec") | {"suspend": True}})
        turn.tell("Suspended", f"Suspended until the workload of {ancestor.key} is admitted")
    return True


def unmanaged(turn: Turn) -> bool:
    return not claimed(turn.job, turn.view.rules)


def workload_finished(turn: Turn) -> bool:
    seen = turn.seen
    if seen is None or not seen.true("Finished"):
        return False
    with turn.draft(seen) as draft:
        held = draft.drop_finalizer()
    if held:
        turn.tell("FinishedWorkload", f"Workload {seen.key} is finished")
    return True


def workload_deleted(turn: Turn) -> bool:
    """A Workload deleted by hand stops the job; the next pass makes a new one."""
    seen = turn.seen
    if seen is None or not seen.deleting:
        return False
    if turn.stop(seen, "The workload was deleted"):
        with turn.draft(seen) as draft:
            draft.drop_finalizer()
    return True


def job_finished(turn: Turn) -> bool:
    over, seen = end(turn.job), turn.seen
    if over is None:
        return False
    if seen is not None:
        reason = "Succeeded" if over.success else "Failed"
        turn.finish(seen, reason, over.message or f"The job has {reason.lower()}")
        turn.tell("FinishedWorkload", f"Workload {seen.key} is finished")
    return True


def without_workload(turn: Turn) -> bool:
    if turn.seen is not None:
        return False
    created(turn)
    return True


def pods_reclaimed(turn: Turn) -> bool:
    """Record which pods will not run again, so that others can have their quota."""
    seen = turn.seen
    if seen is None or not turn.view.rules.gates.on(Gate.ReclaimablePods):
        return False
    pods = limited(reclaimable(turn.job), seen.obj)
    status = reclaimable_status(seen.obj, pods)
    if not status or (not pods and not seen.obj.status.reclaimable_pods):
        return False
    with turn.draft(seen) as draft:
        draft.write(status)
    return True


def readiness_told(turn: Turn) -> bool:
    seen = turn.seen
    if seen is None or turn.view.rules.timeout_s is None:
        return False
    before = condition(seen.obj.status.conditions, "PodsReady")
    status, reason, message = _readiness(turn, seen, before)
    said = (before.status == "True", before.reason) if before is not None else None
    if said == (status, reason):
        return False
    if said is None and not status and turn.view.rules.defers_readiness:
        return False
    with turn.draft(seen) as draft:
        draft.set_condition("PodsReady", status, reason, message)
    return True


def _readiness(turn: Turn, seen: Seen, before: Condition | None) -> tuple[bool, str, str]:
    """Status, reason and message of PodsReady."""
    if not seen.true("Admitted"):
        return False, WAIT_FOR_START, _NOT_READY
    reason = before.reason if before is not None else ""
    if pods_ready(turn.job):
        recovered = reason in _RECOVERED
        return True, "Recovered" if recovered else "Started", "All pods are ready or succeeded"
    if before is not None and (before.status == "True" or reason == WAIT_FOR_RECOVERY):
        return False, WAIT_FOR_RECOVERY, "Pods were lost, and are not back yet"
    return False, WAIT_FOR_START, _NOT_READY


def awaits_start(seen: Seen, now: float) -> Pass:
    """The first PodsReady=False of a Workload, for passes that defer it."""
    draft = Draft(seen, now)
    draft.set_condition("PodsReady", False, WAIT_FOR_START, _NOT_READY)
    return draft.done()


def evicted(turn: Turn) -> bool:
    """Stop the job of an evicted Workload; when its pods are gone the quota is free."""
    seen = turn.seen
    if seen is None or not seen.true("Evicted"):
        return False
    told = condition(seen.obj.status.conditions, "Evicted")
    turn.stop(seen, told.message if told is not None else "")
    if seen.reserved and not active(turn.job):
        with turn.draft(seen) as draft:
            draft.write(released_status(seen.obj, turn.now, turn.view.rules.gates))
    if told is not None and told.last_transition_time is not None:
        _retire(turn, seen, told.reason, told.last_transition_time.timestamp())
    return True


def _retire(turn: Turn, seen: Seen, reason: str, since: float) -> None:
    """Delete, after a while, the job of a Workload that Kueue gave up."""
    kept_s = turn.view.rules.retain_deactivated_s
    if kept_s is None or seen.obj.spec.active is not False or not reason.startswith(_BY_KUEUE):
        return
    left_s = since + kept_s - turn.now
    if left_s > 0:
        turn.again_s = left_s
        return
    uid = child(turn.job, "metadata").get("uid", "")
    turn.add(Delete(key=turn.key, uid=uid, kind=JOB))
    turn.tell("Deleted", "Deleted, since its workload was deactivated")


def at_rest(turn: Turn) -> bool:
    """Start a suspended job whose Workload is admitted; else keep the two in line."""
    seen = turn.seen
    if seen is None or not suspended(turn.job):
        return False
    if seen.true("Admitted"):
        _start(turn, seen)
        return True
    if seen.reserved:
        _tell_checks(turn, seen)
    elif seen.obj.spec.queue_name != queue_name(turn.job):
        with turn.draft(seen) as draft:
            draft.patch({"spec": {"queueName": queue_name(turn.job) or None}})
    return True


def _start(turn: Turn, seen: Seen) -> None:
    rules = turn.view.rules
    try:
        job = started(turn.job, injections(seen.obj, turn.view.flavors, rules.gates))
    except FlavorMissing as error:
        turn.fault = str(error)
        return
    except MergeConflict as error:
        turn.finish(seen, "FailedToStart", str(error))
        return
    turn.write(job)
    queue = seen.obj.status.admission.cluster_queue if seen.obj.status.admission else ""
    turn.tell("Started", f"Admitted by ClusterQueue {queue}")


def _tell_checks(turn: Turn, seen: Seen) -> None:
    said = [
        f"{check.name}: {check.message}"
        for check in seen.obj.status.admission_checks or ()
        if check.state == "Pending" and check.message
    ]
    if said:
        turn.tell("UpdatedAdmissionCheck", "; ".join(said))


def not_admitted(turn: Turn) -> bool:
    seen = turn.seen
    if seen is not None and not seen.true("Admitted"):
        turn.stop(seen, "The workload is not admitted")
    return True


_STEPS: tuple[Step, ...] = (
    gone,
    elsewhere,
    nested,
    unmanaged,
    found,
    workload_finished,
    workload_deleted,
    job_finished,
    without_workload,
    pods_reclaimed,
    readiness_told,
    evicted,
    at_rest,
    not_admitted,
)
