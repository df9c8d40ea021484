# SPDX-License-Identifier: Apache-2.0
"""Computes the status of a Job. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from kuota.api.base import Json

from .instants import time_text
from .job_pods import PodView, condition_status
from .job_spec import JobFields, indexes_text
from .job_tally import JobCounts
from .job_target import FAILURE_TARGET, SUCCESS_CRITERIA, JobOutcome


def running_status(
    job: JobFields, count: JobCounts, pods: Sequence[PodView], target: JobOutcome | None, now: float
) -> Json:
    """The status of a Job that has not ended, though its outcome may be decided."""
    status = _counts(job, count, pods)
    status["uncountedTerminatedPods"] = _uncounted(count)
    _set_suspended(status, job, now)
    if not job.suspended and not status.get("startTime"):
        status["startTime"] = time_text(now)
    if target is not None:
        type_ = SUCCESS_CRITERIA if target.success else FAILURE_TARGET
        _set(status, type_, "True", target.reason, target.message, now)
    return status


def suspended_status(now: float) -> Json:
    """The status of a new, suspended Job."""
    status: Json = {"ready": 0, "terminating": 0, "uncountedTerminatedPods": {}}
    _set(status, "Suspended", "True", "JobSuspended", "Job suspended", now)
    return status


def final_status(
    job: JobFields, count: JobCounts, pods: Sequence[PodView], target: JobOutcome, now: float
) -> Json:
    """The final status of a Job, with all pods counted."""
    count.counted_succeeded += len(count.uncounted_succeeded)
    count.counted_failed += len(count.uncounted_failed) + count.held
    count.uncounted_succeeded, count.uncounted_failed, count.held = [], [], 0
    status = running_status(job, count, pods, target, now)
    end = "Complete" if target.success else "Failed"
    _set(status, end, "True", target.reason, target.message, now)
    if target.success:
        status["completionTime"] = time_text(now)
    return status


def _counts(job: JobFields, count: JobCounts, pods: Sequence[PodView]) -> Json:
    status = dict(job.status)
    numbers = {
        "active": sum(each.active for each in pods),
        "succeeded": len(count.completed) if job.indexed else count.counted_succeeded,
        "failed": count.counted_failed,
    }
    for name, number in numbers.items():
        if number:
            status[name] = number
        else:
            status.pop(name, None)
    status["ready"] = sum(each.active and each.ready for each in pods)
    status["terminating"] = sum(each.terminating for each in pods)
    if job.indexed and count.completed:
        status["completedIndexes"] = indexes_text(count.completed)
    if job.backoff_limit_per_index is not None:
        status["failedIndexes"] = indexes_text(count.failed_indexes)
    return status


def _uncounted(count: JobCounts) -> Json:
    lists = {"succeeded": count.uncounted_succeeded, "failed": count.uncounted_failed}
    return {name: list(uids) for name, uids in lists.items() if uids}


def _set_suspended(status: Json, job: JobFields, now: float) -> None:
    before = condition_status(status, "Suspended")
    if job.suspended:
        _set(status, "Suspended", "True", "JobSuspended", "Job suspended", now)
    elif before == "True":
        _set(status, "Suspended", "False", "JobResumed", "Job resumed", now)
        status["startTime"] = time_text(now)  # The deadline counts from the resumption.


def _set(status: Json, type_: str, value: str, reason: str, message: str, now: float) -> None:
    """Set the condition unless it already has this value."""
    if condition_status(status, type_) == value:
        return
    at = time_text(now)
    fresh = {
        "type": type_,
        "status": value,
        "lastProbeTime": at,
        "lastTransitionTime": at,
        "reason": reason,
        "message": message,
    }
    others = [each for each in status.get("conditions") or () if each.get("type") != type_]
    status["conditions"] = [*others, fresh]
