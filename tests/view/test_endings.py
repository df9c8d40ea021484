# SPDX-License-Identifier: Apache-2.0
"""How and why jobs ended, from their objects."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.view.endings import Result, job_ending, workload_ending


def workload(*conditions: Json, active: bool = True, limit_s: int | None = None) -> Json:
    return {
        "metadata": {"name": "job-x"},
        "spec": {"active": active, "maximumExecutionTimeSeconds": limit_s},
        "status": {"conditions": list(conditions)},
    }


def met(kind: str, reason: str = "R", message: str = "") -> Json:
    return {"type": kind, "status": "True", "reason": reason, "message": message}


def pod(created: str, terminated: Json | None = None, **status: str) -> Json:
    containers = [{"name": "main", "state": {"terminated": terminated}}] if terminated else []
    return {
        "metadata": {"name": created, "creationTimestamp": created},
        "status": {"phase": "Failed", "containerStatuses": containers} | status,
    }


def words(workload: Json, *pods: Json) -> str:
    return str(workload_ending(workload, pods))


def test_a_workload_that_waits_or_runs_has_not_ended() -> None:
    assert workload_ending(workload()) is None
    assert workload_ending(workload(met("QuotaReserved"), met("Admitted"))) is None
    assert workload_ending(workload(met("Evicted", "Preempted"))) is None


def test_success_has_no_cause() -> None:
    assert words(workload(met("Finished", "Succeeded", "Job finished successfully"))) == "SUCCEEDED"


def test_a_failure_is_explained_by_the_pod_that_failed_last() -> None:
    failed = workload(met("Finished", "Failed", "Job has reached the specified backoff limit"))
    older, newer = (
        pod("2026-01-01T00:00:01Z", {"exitCode": 3}),
        pod("2026-01-01T00:00:02Z", {"exitCode": 4}),
    )
    assert words(failed, newer, older) == "FAILED: exit status 4"
    reported = pod("2026-01-01T00:00:01Z", {"exitCode": 128, "message": "no command"})
    assert words(failed, reported) == "FAILED: no command"
    assert words(failed) == "FAILED: Job has reached the specified backoff limit"


def test_signals_memory_and_lost_pods_are_named() -> None:
    failed = workload(met("Finished", "Failed"))
    at = "2026-01-01T00:00:01Z"
    killed = pod(at, {"exitCode": 137, "signal": 9})
    assert words(failed, killed) == "FAILED: killed by signal 9 (exit status 137)"
    starved = pod(at, {"exitCode": 137, "reason": "OOMKilled"})
    assert words(failed, starved) == "FAILED: out of memory (exit status 137)"
    lost = pod(at, reason="NodeLost", message="the node is gone")
    assert words(failed, lost) == "FAILED: NodeLost: the node is gone"


def test_every_time_limit_is_a_timeout() -> None:
    by_kueue = workload(
        met("Evicted", "DeactivatedDueToMaximumExecutionTimeExceeded"), active=False, limit_s=60
    )
    assert words(by_kueue) == "TIMEOUT: it ran longer than its time limit of 60 s"
    late_job = workload(met("Finished", "Failed"), met("kuota.dev/TimedOut", "DeadlineExceeded"))
    assert words(late_job).startswith("TIMEOUT: ")
    other = workload(met("Finished", "Failed", "Job was active longer than specified deadline"))
    assert words(other).startswith("FAILED: ")
    late = pod("2026-01-01T00:00:01Z", reason="DeadlineExceeded")
    assert words(workload(met("Finished", "Failed")), late).startswith("TIMEOUT: ")


def test_a_deactivated_workload_has_ended_once_it_is_evicted() -> None:
    stopping = workload(met("QuotaReserved"), active=False)
    assert workload_ending(stopping) is None
    ending = workload_ending(
        workload(met("QuotaReserved"), met("Evicted", "Deactivated"), active=False)
    )
    assert ending is not None
    assert (Result.DEACTIVATED, "job-x") == (ending.result, ending.workload)


def test_a_workload_that_never_held_quota_ends_when_it_is_deactivated() -> None:
    assert words(workload(active=False)) == "DEACTIVATED: somebody stopped it"


def test_the_exit_status_of_a_job_is_that_of_its_last_failure_or_one() -> None:
    job = {"status": {"conditions": [met("Failed", "BackoffLimitExceeded")]}}
    ending = job_ending(job, [pod("2026-01-01T00:00:01Z", {"exitCode": 7})])
    assert ending is not None
    assert 7 == ending.exit_status
    unknown = job_ending(job, ())
    assert unknown is not None
    assert (1, "its pods failed, and are gone") == (unknown.exit_status, unknown.cause)
