# SPDX-License-Identifier: Apache-2.0
"""Counts succeeded and failed pods of a Job, each exactly once. Pure.

A pod has the finalizer `batch.kubernetes.io/job-tracking` until it is counted, so it cannot
disappear before. While a Job runs, counting has two steps, as in Kubernetes: the uid of the pod is
added to `status.uncountedTerminatedPods`, then its finalizer is removed; a uid whose pod has no
finalizer moves into the counter. Completed indexes are a set and need no such protocol. The final
status of a Job counts all pods at once; remaining finalizers are then removed without further
checks. The pod failure policy of the Job decides whether a failure counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from kuota.api.base import Json

from .job_pods import PodView, condition_status, container_statuses
from .job_spec import JobFields, parsed_indexes

FAIL_JOB, FAIL_INDEX, IGNORE, COUNT = "FailJob", "FailIndex", "Ignore", "Count"


class FailurePolicyResult(msgspec.Struct, frozen=True):
    """The action of the first matching rule and its reason. Without a match, the failure counts."""

    action: str = COUNT
    message: str = ""


NO_RULE = FailurePolicyResult()


def verdict(job: Json, view: PodView) -> FailurePolicyResult:
    """The result of the policy for a pod that failed, or that is replaced while being deleted."""
    if view.phase != "Failed":
        return NO_RULE
    rules = (job["spec"].get("podFailurePolicy") or {}).get("rules") or ()
    for number, rule in enumerate(rules):
        why = _exit_code_match(rule, view) or _condition_match(rule, view)
        if why:
            action = rule.get("action") or COUNT
            return FailurePolicyResult(action, f"{why} matching {action} rule at index {number}")
    return NO_RULE


def _exit_code_match(rule: Json, view: PodView) -> str:
    asked = rule.get("onExitCodes")
    if not asked:
        return ""
    values = asked.get("values") or ()
    for status in container_statuses(view.pod.get("status") or {}):
        name = status.get("name") or ""
        ended = (status.get("state") or {}).get("terminated")
        if not ended or (asked.get("containerName") or name) != name:
            continue
        code = ended.get("exitCode", 0)
        inside = code in values
        if code != 0 and inside == (asked.get("operator") == "In"):
            return f"Container {name} for pod {_name(view)} failed with exit code {code}"
    return ""


def _condition_match(rule: Json, view: PodView) -> str:
    status = view.pod.get("status") or {}
    for pattern in rule.get("onPodConditions") or ():
        if condition_status(status, pattern["type"]) == (pattern.get("status") or "True"):
            return f"Pod {_name(view)} has condition {pattern['type']}"
    return ""


def _name(view: PodView) -> str:
    return f"{view.pod['metadata'].get('namespace') or ''}/{view.name}"


class JobCounts(msgspec.Struct):
    """The current counts. `failed_now` adds failures that no counter contains yet."""

    counted_succeeded: int = 0
    counted_failed: int = 0
    uncounted_succeeded: list[str] = []
    uncounted_failed: list[str] = []
    completed: set[int] = set()
    failed_indexes: set[int] = set()
    held: int = 0
    fail_job: str = ""
    release: list[PodView] = []

    def succeeded(self, indexed: bool) -> int:
        if indexed:
            return len(self.completed)
        return self.counted_succeeded + len(self.uncounted_succeeded)

    @property
    def failed(self) -> int:
        return self.counted_failed + len(self.uncounted_failed) + self.held


def tally(job: JobFields, pods: Sequence[PodView], succeeding: bool) -> JobCounts:
    """The counts with these pods.

    `succeeding` means that the Job has met its success criteria: pods deleted then did not fail.
    """
    count = _so_far(job, {each.uid for each in pods if each.tracked})
    listed = {*count.uncounted_succeeded, *count.uncounted_failed}
    for pod in pods:
        if not pod.tracked:
            continue
        if pod.uid in listed:
            count.release.append(pod)
        elif pod.phase == "Succeeded":
            _succeed(count, job, pod)
        elif has_failed(job, pod):
            if succeeding and pod.deleting:
                count.release.append(pod)
            else:
                _fail(count, job, pod, pods)
    return count


def has_failed(job: JobFields, pod: PodView) -> bool:
    """Whether the pod counts as failed: by its phase, or as a replaced pod under deletion."""
    if pod.phase == "Failed":
        return True
    return pod.terminating and not job.replaces_failed_only


def _so_far(job: JobFields, tracked: set[str]) -> JobCounts:
    """The counts of the status, including uids whose pods have lost their finalizer."""
    status = job.status
    uncounted = status.get("uncountedTerminatedPods") or {}
    succeeded, failed = uncounted.get("succeeded") or [], uncounted.get("failed") or []
    count = JobCounts(
        uncounted_succeeded=[uid for uid in succeeded if uid in tracked],
        uncounted_failed=[uid for uid in failed if uid in tracked],
        completed=parsed_indexes(status.get("completedIndexes") or "", job.completions),
        failed_indexes=parsed_indexes(status.get("failedIndexes") or "", job.completions),
    )
    gone = len(succeeded) - len(count.uncounted_succeeded)
    count.counted_succeeded = (status.get("succeeded") or 0) + gone
    gone = len(failed) - len(count.uncounted_failed)
    count.counted_failed = (status.get("failed") or 0) + gone
    return count


def _succeed(count: JobCounts, job: JobFields, pod: PodView) -> None:
    count.release.append(pod)
    if not job.indexed:
        count.uncounted_succeeded.append(pod.uid)
    elif job.is_index(pod.index) and pod.index not in count.failed_indexes:
        assert pod.index is not None
        count.completed.add(pod.index)


def _fail(count: JobCounts, job: JobFields, pod: PodView, pods: Sequence[PodView]) -> None:
    if job.indexed and not job.is_index(pod.index):
        count.release.append(pod)
        return
    said = verdict(job.job, pod)
    action = said.action
    if action == FAIL_JOB:
        count.fail_job = count.fail_job or said.message
    if job.backoff_limit_per_index is not None:
        assert pod.index is not None
        if action == FAIL_INDEX or _failures(pod, action) > job.backoff_limit_per_index:
            if pod.index not in count.completed:
                count.failed_indexes.add(pod.index)
        elif not _replaced(pod, pods):
            # This pod records how often its index failed. It stays until another pod does.
            count.held += action != IGNORE
            return
    count.release.append(pod)
    if action != IGNORE:
        count.uncounted_failed.append(pod.uid)


def index_failures(job: JobFields, pods: Sequence[PodView], index: int) -> tuple[int, float]:
    """How often the index has failed according to its pods, and the time of the last failure."""
    failures, last = 0, 0.0
    for pod in pods:
        if pod.index == index and has_failed(job, pod):
            failures = max(failures, _failures(pod, verdict(job.job, pod).action))
            last = max(last, pod.finished)
    return failures, last


def _failures(pod: PodView, action: str) -> int:
    return pod.failures + (action != IGNORE)


def _replaced(pod: PodView, pods: Sequence[PodView]) -> bool:
    return any(
        each.index == pod.index
        and each.uid != pod.uid
        and (each.active or each.failures > pod.failures or each.phase == "Succeeded")
        for each in pods
    )
