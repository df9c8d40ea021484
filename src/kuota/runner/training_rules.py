# SPDX-License-Identifier: Apache-2.0
"""Decides the next step of one PyTorchJob or JAXJob, given its Jobs and the time. Pure.

Each replica is a Job with one pod, with the name that the training operator gives the pod.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from kuota.api.base import Json
from kuota.api.core import is_finished
from kuota.api.rules.report import child, elements, integer, mapping, string_map, text

from .child_jobs import (
    LOOPBACK,
    GroupEvent,
    GroupStep,
    at_rest,
    child_job,
    conditions_of,
    failure,
    holds,
    is_deleting,
    is_ready,
    is_suspended,
    reconciled,
    set_condition,
    succeeded,
    with_environment,
    with_loopback,
)
from .instants import instant, time_text
from .loopback_ports import PORT, Taken, loopback_port

CONTROLLER = "kubeflow.org/training-operator"
PREFIX = "training.kubeflow.org/"
REPLICA_TYPE = f"{PREFIX}replica-type"
_UNLIMITED = 2**31 - 1
_SIGNALLED = 128
"""Exit codes from here on mean that a signal ended the process, which may be repeated."""


class Replica(msgspec.Struct, frozen=True):
    """One replica of a job. `rank` counts the replicas of all types."""

    kind: str
    index: int
    rank: int
    spec: Json


Environment = Callable[[Json, Replica, int, int], Mapping[str, str]]
"""Returns the variables of a replica, given the number of replicas and the port of the job."""


class TrainingRules(msgspec.Struct, frozen=True):
    """The rules of one kind of the training operator."""

    kind: str
    field: str
    types: tuple[str, ...]
    environment: Environment

    def __call__(self, job: Json, jobs: Sequence[Json], now: float, taken: Taken) -> GroupStep:
        """The next step of the job. `jobs` are all Jobs that it controls."""
        policy = child(job, "spec", "runPolicy")
        if is_deleting(job) or (text(policy.get("managedBy")) or CONTROLLER) != CONTROLLER:
            return GroupStep()
        status = self._status(job, jobs, now)
        if holds(job, "Succeeded") or holds(job, "Failed"):
            return _after_the_end(job, jobs, status, now)
        if policy.get("suspend") is True:
            return self._suspended(jobs, status, now)
        outcome = self._outcome(job, jobs, status, now)
        if outcome is not None:
            return outcome
        return self._running(job, jobs, status, now, loopback_port(job, jobs, taken))

    def replicas(self, job: Json) -> list[Replica]:
        """All replicas in the order of their ranks."""
        found: list[Replica] = []
        for kind, spec in self._specs(job):
            count = integer(spec.get("replicas"))
            for index in range(1 if count is None else max(0, count)):
                found.append(Replica(kind, index, len(found), spec))
        return found

    def _specs(self, job: Json) -> Iterator[tuple[str, Json]]:
        specs = child(job, "spec", self.field)
        for wanted in self.types:
            for key, spec in specs.items():
                if key.lower() == wanted.lower():
                    yield wanted, mapping(spec)

    def _job(self, job: Json, replica: Replica, total: int, port: int) -> Json:
        pod = with_loopback(child(replica.spec, "template"), _names(job))
        pod = with_environment(pod, self.environment(job, replica, total, port))
        labels = {
            f"{PREFIX}job-name": job["metadata"]["name"],
            f"{PREFIX}operator-name": f"{self.kind.lower()}-controller",
            REPLICA_TYPE: replica.kind.lower(),
            f"{PREFIX}replica-index": str(replica.index),
        }
        if replica.kind == "Master":
            labels[f"{PREFIX}job-role"] = "master"
        name = f"{job['metadata']['name']}-{replica.kind.lower()}-{replica.index}"
        meta = {"annotations": {PORT: str(port)}}
        return child_job(job, name, {"metadata": meta, "spec": _spec(job, replica, pod)}, labels)

    def _running(
        self, job: Json, jobs: Sequence[Json], status: Json, now: float, port: int
    ) -> GroupStep:
        replicas = self.replicas(job)
        wanted = [self._job(job, each, len(replicas), port) for each in replicas]
        step = reconciled(wanted, jobs)
        events: list[GroupEvent] = []
        if holds({"status": status}, "Suspended"):
            events += self._set(status, "Suspended", False, "Resumed", "is resumed", now)
        status.setdefault("startTime", time_text(now))
        ready = len(jobs) == len(wanted) and all(is_ready(each) for each in jobs)
        if ready and not holds({"status": status}, "Running"):
            events += self._set(status, "Running", True, "Running", "is running", now)
        return replace(step, status=status, events=events, retry_at=_deadline(job, status))

    def _suspended(self, jobs: Sequence[Json], status: Json, now: float) -> GroupStep:
        running = [each for each in jobs if not is_suspended(each) and not is_finished(each)]
        if holds({"status": status}, "Running"):
            self._set(status, "Running", False, "Suspended", "is suspended", now)
        status["startTime"] = None
        events = self._set(status, "Suspended", True, "Suspended", "is suspended", now)
        return GroupStep(suspend=running, status=status, events=events)

    def _outcome(
        self, job: Json, jobs: Sequence[Json], status: Json, now: float
    ) -> GroupStep | None:
        failed = next((each for each in jobs if failure(each) is not None), None)
        at = _deadline(job, status)
        if failed is not None or (at is not None and now >= at):
            why = f"has failed because Job {failed['metadata']['name']} failed" if failed else ""
            return self._ended(
                status, "Failed", why or "was active longer than specified deadline", now
            )
        leading = "master" if any(kind == "Master" for kind, _ in self._specs(job)) else "worker"
        wanted = sum(each.kind.lower() == leading for each in self.replicas(job))
        done = sum(succeeded(each) for each in jobs if _type(each) == leading)
        if done < wanted:
            return None
        return self._ended(status, "Succeeded", "has successfully completed", now)

    def _ended(self, status: Json, type_: str, words: str, now: float) -> GroupStep:
        if holds({"status": status}, "Running"):
            self._set(status, "Running", False, type_, words, now)
        status["completionTime"] = time_text(now)
        return GroupStep(status=status, events=self._set(status, type_, True, type_, words, now))

    def _set(
        self, status: Json, type_: str, value: bool, reason: str, words: str, now: float
    ) -> list[GroupEvent]:
        """Set a condition, and return the event of it if it is new."""
        before = conditions_of({"status": status})
        reason, message = f"{self.kind}{reason}", f"{self.kind} {words}"
        after = set_condition(before, type_, value, reason, message, now)
        status["conditions"] = after
        return [] if after == before else [GroupEvent(reason, message, type_ == "Failed")]

    def _status(self, job: Json, jobs: Sequence[Json], now: float) -> Json:
        status = dict(child(job, "status"))
        if not conditions_of(job):
            self._set(status, "Created", True, "Created", "is created", now)
        status["replicaStatuses"] = {
            kind: _counts([each for each in jobs if _type(each) == kind.lower()])
            for kind, _ in self._specs(job)
        }
        return status


def _counts(jobs: Sequence[Json]) -> Json:
    counts = {
        "active": sum(not at_rest(each) for each in jobs),
        "succeeded": sum(succeeded(each) for each in jobs),
        "failed": sum(failure(each) is not None for each in jobs),
    }
    return {name: count for name, count in counts.items() if count}


def _spec(job: Json, replica: Replica, pod: Json) -> Json:
    """The spec of the Job of a replica, by the restart policy of the replica."""
    policy = text(replica.spec.get("restartPolicy")) or "Never"
    limit = integer(child(job, "spec", "runPolicy").get("backoffLimit"))
    again = policy in ("Always", "OnFailure")
    spec: Json = {
        "completionMode": "NonIndexed",
        "completions": 1,
        "parallelism": 1,
        "backoffLimit": 0 if policy == "Never" else _UNLIMITED if limit is None else limit,
        "template": pod
        | {"spec": child(pod, "spec") | {"restartPolicy": "OnFailure" if again else "Never"}},
    }
    if policy == "ExitCode":
        codes = list(range(1, _SIGNALLED))
        rule = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": codes}}
        spec["podFailurePolicy"] = {"rules": [rule]}
    return spec


def _after_the_end(job: Json, jobs: Sequence[Json], status: Json, now: float) -> GroupStep:
    unneeded = [each for each in jobs if not is_finished(each) and not is_deleting(each)]
    policy = child(job, "spec", "runPolicy").get("cleanPodPolicy")
    if policy not in ("Running", "All") and not holds(job, "Failed"):
        unneeded = []  # Workers that end after the master are not interrupted.
    ttl_s = integer(child(job, "spec", "runPolicy").get("ttlSecondsAfterFinished"))
    if ttl_s is None:
        return GroupStep(delete=unneeded, status=status)
    at = (instant(text(status.get("completionTime"))) or now) + ttl_s
    due = now >= at
    return GroupStep(delete=unneeded, status=status, remove=due, retry_at=None if due else at)


def _deadline(job: Json, status: Json) -> float | None:
    limit_s = integer(child(job, "spec", "runPolicy").get("activeDeadlineSeconds"))
    started = instant(text(status.get("startTime")))
    return None if limit_s is None or started is None else started + limit_s


def _type(job: Json) -> str:
    return string_map(child(job, "metadata").get("labels")).get(REPLICA_TYPE, "")


def _names(job: Json) -> re.Pattern[str]:
    """Matches the network names of the replicas: NAME-TYPE-INDEX, perhaps with a domain."""
    name, namespace = (
        re.escape(text(job["metadata"].get(field))) for field in ("name", "namespace")
    )
    domain = rf"(?:\.{namespace}(?:\.svc(?:\.[a-z0-9.-]*[a-z0-9])?)?)?"
    return re.compile(rf"(?<![a-zA-Z0-9.-]){name}-(?:master|worker)-\d+{domain}(?![a-zA-Z0-9-])")


def torch_environment(job: Json, replica: Replica, total: int, port: int) -> Mapping[str, str]:
    """The variables that torchrun and `torch.distributed` read."""
    spec = child(job, "spec")
    processes = text(spec.get("nprocPerNode"))
    each = int(processes) if processes.isdecimal() and len(processes) < 6 else 1
    found = {
        "PYTHONUNBUFFERED": "1",
        "MASTER_ADDR": LOOPBACK,
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(total * each),
        "RANK": str(replica.rank),
        "PET_MASTER_ADDR": LOOPBACK,
        "PET_MASTER_PORT": str(port),
        "PET_NODE_RANK": str(replica.rank),
        "PET_NNODES": str(total),
    }
    if processes:
        found["PET_NPROC_PER_NODE"] = processes
    elastic = child(job, "spec", "elasticPolicy")
    if elastic:
        found |= _elastic_environment(job, elastic, total, port)
    return found


def _elastic_environment(job: Json, elastic: Json, total: int, port: int) -> dict[str, str]:
    least, most = (integer(elastic.get(field)) or total for field in ("minReplicas", "maxReplicas"))
    found = {
        "PET_NNODES": f"{least}:{most}",
        "PET_RDZV_BACKEND": text(elastic.get("rdzvBackend")) or "c10d",
        "PET_RDZV_ENDPOINT": f"{LOOPBACK}:{port}",
        "PET_RDZV_ID": text(elastic.get("rdzvId")) or text(job["metadata"].get("uid")),
    }
    restarts = integer(elastic.get("maxRestarts"))
    if restarts is not None:
        found["PET_MAX_RESTARTS"] = str(restarts)
    conf = [mapping(each) for each in elements(elastic.get("rdzvConf"))]
    if conf:
        found["PET_RDZV_CONF"] = ",".join(
            f"{text(each.get('key'))}={text(each.get('value'))}" for each in conf
        )
    return found


def jax_environment(job: Json, replica: Replica, total: int, port: int) -> Mapping[str, str]:
    """The variables that the examples of JAXJob pass to `jax.distributed.initialize`."""
    return {
        "PYTHONUNBUFFERED": "1",
        "COORDINATOR_ADDRESS": LOOPBACK,
        "COORDINATOR_PORT": str(port),
        "NUM_PROCESSES": str(total),
        "PROCESS_ID": str(replica.rank),
    }


PYTORCH_JOB = TrainingRules(
    "PyTorchJob", "pytorchReplicaSpecs", ("Master", "Worker"), torch_environment
)
JAX_JOB = TrainingRules("JAXJob", "jaxReplicaSpecs", ("Worker",), jax_environment)
