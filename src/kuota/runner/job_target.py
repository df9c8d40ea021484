# SPDX-License-Identifier: Apache-2.0
"""Decides the outcome of a Job: success, failure, or none yet. Pure.

An outcome, once decided, does not change. The Job ends when its last pod is gone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from kuota.api.base import Json

from .instants import instant
from .job_pods import PodView
from .job_spec import JobFields, condition, index_ranges
from .job_tally import JobCounts

SUCCESS_CRITERIA, FAILURE_TARGET = "SuccessCriteriaMet", "FailureTarget"


class JobOutcome(msgspec.Struct, frozen=True):
    """The decided outcome of a Job."""

    success: bool
    reason: str
    message: str


def standing_target(job: Json) -> JobOutcome | None:
    """The outcome that the status already contains."""
    for type_ in (SUCCESS_CRITERIA, FAILURE_TARGET):
        found = condition(job, type_)
        if found is not None:
            reason, message = found.get("reason") or "", found.get("message") or ""
            return JobOutcome(type_ == SUCCESS_CRITERIA, reason, message)
    return None


def new_target(
    job: JobFields, count: JobCounts, pods: Sequence[PodView], now: float
) -> JobOutcome | None:
    """The outcome that follows from the counts and the time, if any."""
    return (
        _failure(job, count, pods, now)
        or _index_failure(job, count)
        or _by_success_policy(job, count)
        or _by_completions(job, count, pods)
    )


def _failure(
    job: JobFields, count: JobCounts, pods: Sequence[PodView], now: float
) -> JobOutcome | None:
    if count.fail_job:
        return JobOutcome(False, "PodFailurePolicy", count.fail_job)
    if count.failed > job.backoff_limit or _restarted_too_often(job, pods):
        return JobOutcome(
            False, "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        )
    end = deadline(job)
    if end is not None and now >= end:
        return JobOutcome(
            False, "DeadlineExceeded", "Job was active longer than specified deadline"
        )
    return None


def deadline(job: JobFields) -> float | None:
    """When the active deadline expires. Suspended time does not count."""
    started = instant(job.status.get("startTime"))
    if job.deadline_s is None or started is None or job.suspended:
        return None
    return started + job.deadline_s


def _restarted_too_often(job: JobFields, pods: Sequence[PodView]) -> bool:
    if not job.restarts_in_place:
        return False
    restarts = sum(each.restarts for each in pods if each.phase in ("Running", "Pending"))
    return restarts > 0 if job.backoff_limit == 0 else restarts >= job.backoff_limit


def _index_failure(job: JobFields, count: JobCounts) -> JobOutcome | None:
    if job.backoff_limit_per_index is None:
        return None
    failed = len(count.failed_indexes)
    if job.max_failed_indexes is not None and failed > job.max_failed_indexes:
        return JobOutcome(
            False,
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes",
        )
    if failed and failed + len(count.completed) >= (job.completions or 0):
        return JobOutcome(False, "FailedIndexes", "Job has failed indexes")
    return None


def _by_success_policy(job: JobFields, count: JobCounts) -> JobOutcome | None:
    if not job.indexed:
        return None
    completed = sorted(count.completed)
    for number, rule in enumerate((job.job["spec"].get("successPolicy") or {}).get("rules") or ()):
        text, least = rule.get("succeededIndexes"), rule.get("succeededCount")
        have, wanted = len(completed), len(completed) + 1
        if text is not None:
            # A few characters may name billions of indexes.
            ranges = list(index_ranges(text))
            have = sum(_count_within(completed, each) for each in ranges)
            wanted = sum(max(0, each.stop - each.start) for each in ranges) or wanted
        if have >= (wanted if least is None else least):
            return JobOutcome(True, "SuccessPolicy", f"Matched rules at index {number}")
    return None


def _count_within(ascending: list[int], some: range) -> int:
    return max(0, bisect_left(ascending, some.stop) - bisect_left(ascending, some.start))


def _by_completions(job: JobFields, count: JobCounts, pods: Sequence[PodView]) -> JobOutcome | None:
    succeeded = count.succeeded(job.indexed)
    if job.completions is None:
        reached = succeeded > 0 and not any(each.active for each in pods)
    else:
        reached = succeeded >= job.completions
    if not reached:
        return None
    return JobOutcome(True, "CompletionsReached", "Reached expected number of succeeded pods")
