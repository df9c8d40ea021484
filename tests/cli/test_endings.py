# SPDX-License-Identifier: Apache-2.0
"""Every way in which a Job can end also ends `kuota run` and `kuota logs -f`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Thread
from typing import Any

import pytest

from cli.cluster import Cluster, condition, job, local_queue, workload
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.cli import job_follow
from kuota.kube.resources import JOBS, LOCAL_QUEUES, NAMESPACES, PODS, WORKLOADS

RUN = ("run", "-q", "research", "--name", "x", "--", "train")
FOLLOW = ("logs", "-f", "job/x")
QUEUE = "kueue.x-k8s.io/queue-name"
ADMISSION = {"clusterQueue": "gpus", "podSetAssignments": [{"name": "main", "count": 1}]}
TIMEOUT = "DeactivatedDueToMaximumExecutionTimeExceeded"


def complete(cluster: Cluster) -> None:
    cluster.end_pod("x-1", 0)
    cluster.end_job("x")


def fail(cluster: Cluster) -> None:
    cluster.end_pod("x-1", 7)
    cluster.end_job("x", "Failed", "BackoffLimitExceeded")


def exceed_deadline(cluster: Cluster) -> None:
    cluster.end_pod("x-1", 143)
    cluster.end_job("x", "Failed", "DeadlineExceeded")


def exceed_pod_deadline(cluster: Cluster) -> None:
    cluster.end_pod("x-1", 143)
    cluster.status(PODS, "x-1", {"reason": "DeadlineExceeded"})
    cluster.end_job("x", "Failed", "BackoffLimitExceeded")


def exceed_time_limit(cluster: Cluster) -> None:
    _deactivate(cluster, TIMEOUT)


def deactivate(cluster: Cluster) -> None:
    _deactivate(cluster, "Deactivated")


def exceed_requeuing_limit(cluster: Cluster) -> None:
    _deactivate(cluster, "DeactivatedDueToRequeuingLimitExceeded")


def reject(cluster: Cluster) -> None:
    check = {"name": "budget", "state": "Rejected", "message": "too dear"}
    check["lastTransitionTime"] = "2026-11-15T04:00:00Z"
    cluster.status(WORKLOADS, "job-x", {"admissionChecks": [check]})
    _deactivate(cluster, "DeactivatedDueToAdmissionCheck")


def _deactivate(cluster: Cluster, reason: str) -> None:
    """As Kueue does: clear spec.active, then evict, then stop the Job."""
    patch = {"spec": {"active": False}}
    cluster.do(cluster.client.patch(WORKLOADS, Key("default", "job-x"), patch))
    evicted = [condition("Evicted", reason=reason), condition("QuotaReserved", holds=False)]
    cluster.status(WORKLOADS, "job-x", {"conditions": evicted})
    cluster.delete(PODS, "x-1")
    cluster.write("x-1", b"")


def delete(cluster: Cluster) -> None:
    cluster.delete(JOBS, "x")
    cluster.write("x-1", b"")


def finish_with_ttl(cluster: Cluster) -> None:
    """Finish, and be deleted in the same instant."""

    async def finish() -> None:
        done = {"type": "Complete", "status": "True", "reason": "", "message": ""}
        key = Key("default", "x")
        status = {"status": {"conditions": [done]}}
        await cluster.client.patch(JOBS, key, status, subresource="status")
        await cluster.client.delete(JOBS, key, propagation="Background")

    cluster.end_pod("x-1", 0)
    cluster.do(finish())


ENDINGS: dict[Callable[[Cluster], None], tuple[int, str]] = {
    complete: (0, "job.batch/x: SUCCEEDED"),
    finish_with_ttl: (0, "job.batch/x: SUCCEEDED"),
    fail: (7, "job.batch/x: FAILED: exit status 7"),
    exceed_deadline: (124, "job.batch/x: TIMEOUT: it ran longer than its activeDeadlineSeconds"),
    exceed_pod_deadline: (124, "job.batch/x: TIMEOUT: its pod ran longer than its time limit"),
    exceed_time_limit: (124, "job.batch/x: TIMEOUT: it ran longer than its time limit of 1 s"),
    deactivate: (1, "job.batch/x: DEACTIVATED: somebody stopped it"),
    exceed_requeuing_limit: (1, "job.batch/x: DEACTIVATED: its pods did not become ready"),
    reject: (1, "job.batch/x: DEACTIVATED: rejected by admission check budget: too dear"),
    delete: (1, "job.batch/x was deleted before it ended"),
}


@contextmanager
def running(cluster: Cluster, *command: str) -> Iterator[subprocess.Popen[str]]:
    """The command, following Job x, whose pod x-1 has written one line."""
    cluster.create(LOCAL_QUEUES, local_queue("research"))
    if command == FOLLOW:
        cluster.create(JOBS, job("x", **{QUEUE: "research"}))
    with cluster.start(*command) as process:
        _admit(cluster, cluster.appeared(JOBS))
        assert process.stdout is not None
        assert "begun\n" == process.stdout.readline()
        yield process


def _admit(cluster: Cluster, made: Json) -> None:
    owned = workload("job-x", made)
    owned["spec"]["maximumExecutionTimeSeconds"] = 1
    cluster.create(WORKLOADS, owned)
    admitted = [condition("QuotaReserved"), condition("Admitted")]
    cluster.status(WORKLOADS, "job-x", {"conditions": admitted, "admission": ADMISSION})
    cluster.start_pod(made, "x-1")
    cluster.write("x-1", b"begun\n")


@pytest.mark.parametrize("end", ENDINGS, ids=lambda each: each.__name__)
def test_run_reports_how_the_job_ended_and_exits_accordingly(
    cluster: Cluster, end: Callable[[Cluster], None]
) -> None:
    status, words = ENDINGS[end]
    with running(cluster, *RUN) as process:
        end(cluster)
        _, said = process.communicate()
        assert words in said
        assert status == process.returncode


@pytest.mark.parametrize("end", ENDINGS, ids=lambda each: each.__name__)
def test_a_followed_log_ends_with_the_job(cluster: Cluster, end: Callable[[Cluster], None]) -> None:
    status, words = ENDINGS[end]
    with running(cluster, *FOLLOW) as process:
        end(cluster)
        _, said = process.communicate()
        assert status == 0 or words in said
        assert (1 if end is delete else 0) == process.returncode


def test_a_timeout_says_how_to_queue_the_job_again(cluster: Cluster) -> None:
    with running(cluster, *RUN) as process:
        exceed_time_limit(cluster)
        assert "run: kuota resume workload job-x\n" in process.communicate()[1]


BOTH = pytest.mark.parametrize("command", [RUN, FOLLOW], ids=["run", "logs"])


@BOTH
def test_the_deletion_of_the_namespace_ends_it(cluster: Cluster, command: tuple[str, ...]) -> None:
    place = {"name": "ml"}
    cluster.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": place})
    queue = local_queue("research")
    queue["metadata"] |= {"namespace": "ml"}
    cluster.create(LOCAL_QUEUES, queue)
    if command == FOLLOW:
        held = job("x") | {"metadata": {"name": "x", "namespace": "ml"}}
        held["spec"]["suspend"] = True
        cluster.create(JOBS, held)
    verb, *rest = command
    with cluster.start(verb, "-n", "ml", *rest) as process:
        assert process.stderr is not None
        assert process.stderr.readline().split()[0] in ("job.batch/x", "waiting")
        cluster.do(cluster.client.delete(NAMESPACES, Key("", "ml")))
        assert "was deleted before it ended" in process.communicate()[1]
        assert 1 == process.returncode


def _meanwhile(cluster: Cluster, command: tuple[str, ...], act: Callable[[], Any]) -> Thread:
    """A thread that acts once somebody follows the running Job x."""

    def work() -> None:
        _admit(cluster, cluster.appeared(JOBS))
        cluster.read("x-1")
        act()

    cluster.create(LOCAL_QUEUES, local_queue("research"))
    if command == FOLLOW:
        cluster.create(JOBS, job("x", **{QUEUE: "research"}))
    thread = Thread(target=work)
    thread.start()
    return thread


@BOTH
def test_a_server_that_stays_away_ends_it(
    cluster: Cluster, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_follow, "PATIENCE_S", 0.1)
    thread = _meanwhile(cluster, command, cluster.close)
    assert "the server does not answer" in cluster.kuota(*command, code=3)
    thread.join(HANG_S)


@BOTH
def test_a_revoked_token_ends_it(cluster: Cluster, command: tuple[str, ...]) -> None:
    with running(cluster, *command) as process:
        cluster.revoke_tokens()
        assert "does not accept these credentials" in process.communicate()[1]
        assert 1 == process.returncode


@BOTH
def test_a_deleted_queue_ends_it_while_the_job_waits(
    cluster: Cluster, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_follow, "QUEUE_ABSENT_S", 0.0)

    def lose_queue() -> None:
        cluster.delete(PODS, "x-1")
        cluster.write("x-1", b"")
        cluster.delete(LOCAL_QUEUES, "research")
        lost = condition("QuotaReserved", holds=False, reason="Misconfigured")
        cluster.status(WORKLOADS, "job-x", {"conditions": [lost], "admission": None})

    thread = _meanwhile(cluster, command, lose_queue)
    said = cluster.kuota(*command, code=1)
    thread.join(HANG_S)
    assert "job.batch/x waits for LocalQueue research, which was deleted" in said


def test_a_drained_queue_does_not_end_it_and_the_job_runs_on_when_it_is_resumed(
    cluster: Cluster,
) -> None:
    with running(cluster, *RUN) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        drained = [
            condition("Evicted", reason="ClusterQueueStopped", message="it is stopped"),
            condition("QuotaReserved", holds=False, message="ClusterQueue gpus is stopped"),
            condition("Requeued", holds=False, reason="ClusterQueueStopped"),
        ]
        cluster.status(WORKLOADS, "job-x", {"conditions": drained, "admission": None})
        cluster.delete(PODS, "x-1")
        cluster.write("x-1", b"")
        while "PENDING: ClusterQueue gpus is stopped\n" != process.stderr.readline():
            assert process.poll() is None, "it ended"
        admitted = [condition("QuotaReserved"), condition("Admitted")]
        cluster.status(WORKLOADS, "job-x", {"conditions": admitted, "admission": ADMISSION})
        cluster.start_pod(cluster.get(JOBS, "x"), "x-2")
        cluster.write("x-2", b"again\n")
        assert "again\n" == process.stdout.readline()
        cluster.end_pod("x-2", 0)
        cluster.end_job("x")
        assert 0 == process.wait(HANG_S)
