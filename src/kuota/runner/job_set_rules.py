# SPDX-License-Identifier: Apache-2.0
"""Decides the next step of one JobSet, given its Jobs and the time. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from kuota.api.base import Json
from kuota.api.core import is_finished
from kuota.api.rules.report import child, elements, integer, mapping, string_map, text, texts
from kuota.bridge.jobs.job_set import replicated_jobs

from .child_jobs import (
    GroupEvent,
    GroupStep,
    at_rest,
    conditions_of,
    failure,
    holds,
    is_deleting,
    is_ready,
    is_suspended,
    reconciled,
    set_condition,
    succeeded,
)
from .instants import instant
from .job_set_jobs import ATTEMPT, REPLICATED_JOB, jobs_of, replicas, restarts
from .loopback_ports import Taken

CONTROLLER = "jobset.sigs.k8s.io/jobset-controller"
_RESTART, _RESTART_FREE, _FAIL = (
    "RestartJobSet",
    "RestartJobSetAndIgnoreMaxRestarts",
    "FailJobSet",
)


def job_set_step(job_set: Json, jobs: Sequence[Json], now: float, taken: Taken) -> GroupStep:
    """The next step of the JobSet. `jobs` are all Jobs that it controls."""
    if (text(child(job_set, "spec").get("managedBy")) or CONTROLLER) != CONTROLLER:
        return GroupStep()
    if is_deleting(job_set):
        return GroupStep()
    current = [each for each in jobs if _attempt(each) == restarts(job_set)]
    if holds(job_set, "Completed") or holds(job_set, "Failed"):
        return _after_the_end(job_set, jobs, current, now)
    if is_suspended(job_set):
        return _suspended(job_set, jobs, current, now)
    outcome = _outcome(job_set, current, now)
    if outcome is not None:
        return outcome
    return _running(job_set, jobs, current, now)


def _attempt(job: Json) -> int:
    found = string_map(child(job, "metadata").get("labels")).get(ATTEMPT, "")
    return int(found) if found.isdecimal() else 0


def _after_the_end(
    job_set: Json, jobs: Sequence[Json], current: Sequence[Json], now: float
) -> GroupStep:
    unneeded = [each for each in jobs if not is_finished(each) and not is_deleting(each)]
    status = _status(job_set, current)
    ttl_s = integer(child(job_set, "spec").get("ttlSecondsAfterFinished"))
    if ttl_s is None:
        return GroupStep(delete=unneeded, status=status)
    ended = [each for each in conditions_of(job_set) if each.get("type") in ("Completed", "Failed")]
    at = max((instant(each.get("lastTransitionTime")) or now for each in ended), default=now)
    due = now >= at + ttl_s
    retry_at = None if due else at + ttl_s
    return GroupStep(delete=unneeded, status=status, remove=due, retry_at=retry_at)


def _suspended(
    job_set: Json, jobs: Sequence[Json], current: Sequence[Json], now: float
) -> GroupStep:
    status = _status(job_set, current)
    running = [each for each in current if not is_suspended(each) and not is_finished(each)]
    stale = [each for each in jobs if each not in current and not is_deleting(each)]
    said = _conditioned(status, "Suspended", True, "SuspendedJobs", "jobset is suspended", now)
    return GroupStep(suspend=running, delete=stale, status=status, events=said)


def _running(job_set: Json, jobs: Sequence[Json], current: Sequence[Json], now: float) -> GroupStep:
    status = _status(job_set, current)
    events: list[GroupEvent] = []
    if holds(job_set, "Suspended"):
        events = _conditioned(status, "Suspended", False, "ResumeJobs", "jobset is resumed", now)
    wanted = [job for each in _startable(job_set, current) for job in jobs_of(job_set, each)]
    step = reconciled(wanted, current)
    # Jobs of earlier attempts have the same names, so they must be gone first.
    stale = {each["metadata"]["name"]: each for each in jobs if each not in current}
    return replace(
        step,
        delete=[*step.delete, *(each for each in stale.values() if not is_deleting(each))],
        create=[each for each in step.create if each["metadata"]["name"] not in stale],
        status=status,
        events=events,
    )


def _startable(job_set: Json, current: Sequence[Json]) -> Iterator[Json]:
    """The replicated Jobs that may exist now, by the startup policy and their dependencies."""
    in_order = child(job_set, "spec", "startupPolicy").get("startupPolicyOrder") == "InOrder"
    for replicated in replicated_jobs(job_set):
        if all(_reached(job_set, current, each) for each in elements(replicated.get("dependsOn"))):
            yield replicated
        if in_order and not _all(job_set, current, replicated, "Ready"):
            return


def _reached(job_set: Json, current: Sequence[Json], dependency: object) -> bool:
    name, status = mapping(dependency).get("name"), text(mapping(dependency).get("status"))
    named = [each for each in replicated_jobs(job_set) if each.get("name") == name]
    return all(_all(job_set, current, each, status) for each in named)


def _all(job_set: Json, current: Sequence[Json], replicated: Json, status: str) -> bool:
    own = _of(current, replicated)
    reached = [succeeded(each) or (status != "Complete" and is_ready(each)) for each in own]
    return sum(reached) >= replicas(replicated)


def _of(jobs: Sequence[Json], replicated: Json) -> list[Json]:
    return [
        each
        for each in jobs
        if string_map(child(each, "metadata").get("labels")).get(REPLICATED_JOB)
        == replicated.get("name")
    ]


def _outcome(job_set: Json, current: Sequence[Json], now: float) -> GroupStep | None:
    """The step that ends the JobSet or restarts its Jobs, if that is due."""
    failed = [each for each in current if failure(each) is not None]
    if failed:
        return _failed(job_set, current, failed[0], now)
    if not _complete(job_set, current):
        return None
    status = _status(job_set, current)
    reason, message = "AllJobsCompleted", "jobset completed successfully"
    events = _conditioned(status, "Completed", True, reason, message, now)
    status["terminalState"] = "Completed"
    return GroupStep(status=status, events=events)


def _complete(job_set: Json, current: Sequence[Json]) -> bool:
    policy = child(job_set, "spec", "successPolicy")
    targets = texts(policy.get("targetReplicatedJobs"))
    counted = [
        each for each in replicated_jobs(job_set) if not targets or each.get("name") in targets
    ]
    done = sum(succeeded(job) for each in counted for job in _of(current, each))
    if policy.get("operator") == "Any":
        return done > 0
    return done >= sum(map(replicas, counted))


def _failed(job_set: Json, current: Sequence[Json], job: Json, now: float) -> GroupStep:
    status = _status(job_set, current)
    policy = child(job_set, "spec", "failurePolicy")
    most = integer(policy.get("maxRestarts")) or 0
    counted = integer(child(job_set, "status").get("restartsCountTowardsMax")) or 0
    action = _action(policy, job)
    name = job["metadata"]["name"]
    if action == _RESTART_FREE or (action == _RESTART and counted < most):
        status["restarts"] = restarts(job_set) + 1
        if action == _RESTART:
            status["restartsCountTowardsMax"] = counted + 1
        message = f"restarting jobset, attempt {status['restarts']}: Job {name} failed"
        return GroupStep(status=status, events=[GroupEvent("Restarting", message, True)])
    reason, message = "FailedJobs", f"jobset failed due to one or more job failures: Job {name}"
    if action == _FAIL:
        reason = "FailJobSetFailurePolicyAction"
    elif most:
        reason = "ReachedMaxRestarts"
        message = f"jobset failed due to reaching max number of restarts: Job {name} failed"
    events = _conditioned(status, "Failed", True, reason, message, now, warning=True)
    status["terminalState"] = "Failed"
    return GroupStep(status=status, events=events)


def _action(policy: Json, job: Json) -> str:
    """The action of the first rule that matches the failed Job. The default is to restart."""
    reason = (failure(job) or {}).get("reason")
    replicated = string_map(child(job, "metadata").get("labels")).get(REPLICATED_JOB)
    for rule in map(mapping, elements(policy.get("rules"))):
        reasons = texts(rule.get("onJobFailureReasons"))
        targets = texts(rule.get("targetReplicatedJobs"))
        if (not reasons or reason in reasons) and (not targets or replicated in targets):
            return text(rule.get("action"))
    return _RESTART


def _status(job_set: Json, current: Sequence[Json]) -> Json:
    """The status with the counts of Jobs."""
    counts = []
    for each in replicated_jobs(job_set):
        own = _of(current, each)
        counts.append(
            {
                "name": text(each.get("name")),
                "ready": sum(is_ready(job) and not at_rest(job) for job in own),
                "succeeded": sum(succeeded(job) for job in own),
                "failed": sum(failure(job) is not None for job in own),
                "active": sum(not at_rest(job) for job in own),
                "suspended": sum(is_suspended(job) for job in own),
            }
        )
    return {"restarts": 0, **child(job_set, "status"), "replicatedJobsStatus": counts}


def _conditioned(
    status: Json,
    type_: str,
    value: bool,
    reason: str,
    message: str,
    now: float,
    *,
    warning: bool = False,
) -> list[GroupEvent]:
    """Set a condition, and return the event of it if it is new."""
    before = [mapping(each) for each in elements(status.get("conditions"))]
    status["conditions"] = set_condition(before, type_, value, reason, message, now)
    return [] if status["conditions"] == before else [GroupEvent(reason, message, warning)]
