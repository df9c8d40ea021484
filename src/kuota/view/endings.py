# SPDX-License-Identifier: Apache-2.0
"""Determines how a job ended and why, from its objects. Pure.

A job has ended when it will not run again unless somebody acts: its Job finished, or its Workload
was deactivated. A preempted workload, or one whose queue is stopped, has not ended: it waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

from kuota.api.base import Json
from kuota.api.core import DEADLINE_EXCEEDED
from kuota.api.workload import TIMED_OUT
from kuota.bridge.admission import EXECUTION_TIME_EXCEEDED

from .conditions import condition, holds, message
from .plan import ViewStruct

TIMEOUT_STATUS = 124
"""Exit status of a job that exceeded its time limit, as of timeout(1)."""

_DEACTIVATED = "Deactivated"
_DUE_TO = "DeactivatedDueTo"
_CAUSES = {
    "AdmissionCheck": "an admission check rejected it",
    "RequeuingLimitExceeded": "its pods did not become ready, and it may not be requeued again",
    "EvictedOnManagerCluster": "the manager cluster evicted it",
}


class Result(StrEnum):
    """The way in which a job ended."""

    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    DEACTIVATED = "DEACTIVATED"
    DELETED = "DELETED"


class Ending(ViewStruct):
    """How a job ended. `cause` is "" if the result is self-explanatory.

    `workload` is the Workload to reactivate for the job to run again, "" if that does not help.
    """

    result: Result
    cause: str = ""
    exit_status: int = 1
    workload: str = ""

    def __str__(self) -> str:
        return f"{self.result}: {self.cause}" if self.cause else str(self.result)


def job_ending(job: Json, pods: Iterable[Json]) -> Ending | None:
    """Return how the Job ended; None until it has finished. `pods` are those of the Job.

    The exit status of a failed Job is that of the container that failed last.
    """
    if holds(job, "Complete"):
        return Ending(result=Result.SUCCEEDED, exit_status=0)
    if not holds(job, "Failed"):
        return None
    found = condition(job, "Failed") or {}
    if found.get("reason") == DEADLINE_EXCEEDED:
        limit_s = (job.get("spec") or {}).get("activeDeadlineSeconds")
        return _timeout(f"it ran longer than its activeDeadlineSeconds of {limit_s}")
    spent = found.get("reason") == "BackoffLimitExceeded"
    return _pods_ending(pods) or Ending(
        result=Result.FAILED,
        cause="its pods failed, and are gone" if spent else message(job, "Failed"),
    )


def workload_ending(workload: Json, pods: Iterable[Json] = ()) -> Ending | None:
    """Return how the job of the workload ended; None while it may still run.

    `pods` are failed pods of its Job: the Workload alone does not record why they failed.
    """
    if holds(workload, "Finished"):
        return _finished(workload, pods)
    return deactivation(workload)


def _finished(workload: Json, pods: Iterable[Json]) -> Ending:
    found = condition(workload, "Finished") or {}
    words = message(workload, "Finished")
    if found.get("reason") != "Failed":
        # Other reasons mean success, or that another workload replaced this one.
        plain = found.get("reason") in ("Succeeded", "JobFinished")
        return Ending(result=Result.SUCCEEDED, cause="" if plain else words, exit_status=0)
    if holds(workload, TIMED_OUT):
        return _timeout("it ran longer than its activeDeadlineSeconds")
    return _pods_ending(pods) or Ending(result=Result.FAILED, cause=words)


def deactivation(workload: Json) -> Ending | None:
    """Return why the workload was deactivated; None while it is active or still stopping."""
    if (workload.get("spec") or {}).get("active") is not False:
        return None
    evicted = condition(workload, "Evicted") or {}
    reason = str(evicted.get("reason") or "") if evicted.get("status") == "True" else ""
    if not reason.startswith(_DEACTIVATED) and holds(workload, "QuotaReserved"):
        return None
    name = str(workload["metadata"]["name"])
    cause = reason.removeprefix(_DUE_TO) if reason.startswith(_DUE_TO) else ""
    cause = cause or str((condition(workload, "DeactivationTarget") or {}).get("reason") or "")
    if cause == EXECUTION_TIME_EXCEEDED:
        limit_s = (workload.get("spec") or {}).get("maximumExecutionTimeSeconds")
        return _timeout(f"it ran longer than its time limit of {limit_s} s", name)
    words = _CAUSES.get(cause) or cause or "somebody stopped it"
    if cause == "AdmissionCheck":
        words = _rejection(workload) or words
    return Ending(result=Result.DEACTIVATED, cause=words, workload=name)


def _rejection(workload: Json) -> str:
    """Return which admission checks rejected the workload, and why; "" if none did."""
    checks = (workload.get("status") or {}).get("admissionChecks") or ()
    rejected = [
        ": ".join(filter(None, (str(each.get("name")), each.get("message"))))
        for each in checks
        if each.get("state") == "Rejected"
    ]
    return f"rejected by admission check {', '.join(rejected)}" if rejected else ""


def _timeout(cause: str, workload: str = "") -> Ending:
    status = TIMEOUT_STATUS
    return Ending(result=Result.TIMEOUT, cause=cause, exit_status=status, workload=workload)


def _pods_ending(pods: Iterable[Json]) -> Ending | None:
    """Return the ending that the last failed pod reports; None if no pod reports one."""
    for pod in sorted(pods, key=_created, reverse=True):
        if (pod.get("status") or {}).get("reason") == DEADLINE_EXCEEDED:
            limit_s = (pod.get("spec") or {}).get("activeDeadlineSeconds")
            return _timeout(f"its pod ran longer than its time limit of {limit_s} s")
        failures = _failures(pod)
        if failures:
            last = failures[-1]
            status = int(last["exitCode"])
            return Ending(result=Result.FAILED, cause=container_cause(last), exit_status=status)
        if (pod.get("status") or {}).get("phase") == "Failed":
            return Ending(result=Result.FAILED, cause=_pod_words(pod))
    return None


def _created(pod: Json) -> str:
    return str(pod["metadata"].get("creationTimestamp") or "")


def _pod_words(pod: Json) -> str:
    status = pod.get("status") or {}
    return (
        ": ".join(filter(None, (status.get("reason"), status.get("message")))) or "its pod failed"
    )


def _failures(pod: Json) -> Sequence[Json]:
    """Return the `terminated` states of the containers of the pod that failed."""
    status = pod.get("status") or {}
    fields = ("initContainerStatuses", "containerStatuses")
    statuses = [each for field in fields for each in status.get(field) or ()]
    ended = [(each.get("state") or {}).get("terminated") or {} for each in statuses]
    return [each for each in ended if each.get("exitCode")]


def container_cause(terminated: Json) -> str:
    """Return a short description of why a container failed, from its `terminated` state."""
    if words := terminated.get("message"):
        return str(words).strip()
    status = f"exit status {terminated['exitCode']}"
    if terminated.get("reason") == "OOMKilled":
        return f"out of memory ({status})"
    if signal := terminated.get("signal"):
        return f"killed by signal {signal} ({status})"
    return status
