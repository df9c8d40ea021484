# SPDX-License-Identifier: Apache-2.0
"""`kuota run` against a running server; the test acts as controller and runner."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result

from cli.cluster import Cluster, condition, local_queue, workload
from hang import HANG_S
from kuota.api.base import Json
from kuota.cli.connect import Failed
from kuota.cli.main import main
from kuota.cli.run_job import RunRequest, job_of
from kuota.cli.run_submission import JobSubmitter
from kuota.kube.client import Listing
from kuota.kube.requests import HttpRequest
from kuota.kube.resources import (
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)

QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"


def _priority(name: str) -> Json:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": name},
        "value": 100,
    }


def test_a_command_becomes_a_suspended_job_in_a_queue(cluster: Cluster) -> None:
    cluster.create(LOCAL_QUEUES, local_queue("research"))
    cluster.create(WORKLOAD_PRIORITY_CLASSES, _priority("high"))
    said = cluster.kuota(
        *("run", "-q", "research", "--gpus", "2", "--cpus", "4", "--memory", "8Gi"),
        *("--priority", "high", "--name", "x", "--parallelism", "3", "--detach"),
        *("--", "python", "train.py", "--name", "mine"),
    )
    assert "job.batch/x\n" == said
    made = cluster.get(JOBS, "x")
    assert ("research", "high") == tuple(
        made["metadata"]["labels"][each] for each in (QUEUE, PRIORITY)
    )
    spec = made["spec"]
    assert (True, 3, 3, "Indexed") == (
        spec["suspend"],
        spec["parallelism"],
        spec["completions"],
        spec["completionMode"],
    )
    container = spec["template"]["spec"]["containers"][0]
    assert ["python", "train.py", "--name", "mine"] == container["command"]
    assert {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"} == container["resources"][
        "requests"
    ]
    assert str(cluster.folder) == container["workingDir"]


def test_a_job_runs_again_after_a_disruption_unless_told_otherwise() -> None:
    asked = RunRequest(arguments=("true",))
    spec = job_of(asked, "default")["spec"]
    (rule,) = spec["podFailurePolicy"]["rules"]
    (asks,) = rule["onPodConditions"]
    assert ("Ignore", "DisruptionTarget") == (rule["action"], asks["type"])
    assert (0, "Never") == (spec["backoffLimit"], spec["template"]["spec"]["restartPolicy"])
    once = job_of(msgspec.structs.replace(asked, requeue=False), "default")["spec"]
    assert "podFailurePolicy" not in once


def test_it_says_why_it_waits_then_shows_the_log_and_ends_as_the_command_does(
    cluster: Cluster,
) -> None:
    cluster.create(LOCAL_QUEUES, local_queue("research"))
    with cluster.start("run", "-q", "research", "--name", "x", "--", "train") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "job.batch/x submitted in queue research\n" == process.stderr.readline()
        made = cluster.get(JOBS, "x")
        cluster.create(WORKLOADS, workload("job-x", made))
        waits = condition("QuotaReserved", holds=False, message="2 more GPUs needed")
        cluster.status(WORKLOADS, "job-x", {"conditions": [waits]})
        while "PENDING: 2 more GPUs needed\n" != (said := process.stderr.readline()):
            # It may have seen the workload before there was anything to say of it.
            assert "PENDING: not evaluated yet\n" == said
        admission = {"clusterQueue": "gpus", "podSetAssignments": [{"name": "main", "count": 1}]}
        admitted = [condition("QuotaReserved"), condition("Admitted")]
        cluster.status(WORKLOADS, "job-x", {"conditions": admitted, "admission": admission})
        assert "admitted by ClusterQueue gpus\n" == process.stderr.readline()
        cluster.start_pod(made, "x-1")
        cluster.write("x-1", b"epoch 1\n")
        assert "epoch 1\n" == process.stdout.readline()
        cluster.end_pod("x-1", 7)
        cluster.end_job("x", "Failed", "BackoffLimitExceeded")
        assert "job.batch/x: FAILED: exit status 7\n" in process.stderr.read()
        assert 7 == process.wait(HANG_S)


def test_success_is_zero(cluster: Cluster) -> None:
    with cluster.start("run", "--quiet", "--name", "x", "--", "true") as process:
        assert process.stderr is not None
        made = cluster.appeared(JOBS)
        cluster.start_pod(made, "x-1")
        cluster.end_pod("x-1", 0)
        cluster.end_job("x")
        assert (0, "") == (process.wait(HANG_S), process.stderr.read())


def test_a_deleted_job_is_a_failure(cluster: Cluster) -> None:
    with cluster.start("run", "--name", "x", "--", "true") as process:
        assert process.stderr is not None
        assert "submitted" in process.stderr.readline()
        cluster.delete(JOBS, "x")
        assert "was deleted before it ended" in process.stderr.read()
        assert 1 == process.wait(HANG_S)


@contextmanager
def interrupted(cluster: Cluster, choice: str) -> Iterator[subprocess.Popen[str]]:
    """`kuota run` of Job x, interrupted after its pod x-0 has begun to write."""
    with cluster.start("run", "--on-interrupt", choice, "--name", "x", "--", "true") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert "submitted" in process.stderr.readline()
        cluster.start_pod(cluster.appeared(JOBS), "x-0")
        cluster.write("x-0", b"running\n")
        assert "running\n" == process.stdout.readline()
        process.send_signal(signal.SIGINT)
        yield process


def test_an_interrupt_leaves_the_job(cluster: Cluster) -> None:
    with interrupted(cluster, "leave") as process:
        _, said = process.communicate()
        assert "Follow it: kuota logs -f job/x; delete it: kuota delete job x\n" in said
        assert (130, ["x"]) == (process.returncode, cluster.names(JOBS))


def test_an_interrupt_cancels_the_job_and_its_last_words_are_shown(cluster: Cluster) -> None:
    with interrupted(cluster, "cancel") as process:
        assert process.stderr is not None
        assert "cancelled" in process.stderr.readline()
        cluster.write("x-0", b"saved\n")
        cluster.write("x-0", b"")
        last, _ = process.communicate()
        assert (130, "saved\n", []) == (process.returncode, last, cluster.names(JOBS))


def test_who_interrupts_again_does_not_wait_for_last_words(cluster: Cluster) -> None:
    with interrupted(cluster, "cancel") as process:
        assert process.stderr is not None
        assert "cancelled" in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert (130, []) == (process.returncode, cluster.names(JOBS))


def test_a_pod_that_cannot_start_reports_why(cluster: Cluster) -> None:
    with cluster.start("run", "--name", "x", "--", "true") as process:
        assert process.stderr is not None
        assert "submitted" in process.stderr.readline()
        cluster.start_pod(cluster.appeared(JOBS), "x-0", "Pending")
        full = condition("PodScheduled", holds=False, message="0/1 nodes are available")
        cluster.status(PODS, "x-0", {"phase": "Pending", "conditions": [full]})
        assert "starting: 0/1 nodes are available\n" == process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        process.communicate()


def test_a_queue_or_a_class_that_is_missing_is_refused_with_those_there_are(
    cluster: Cluster,
) -> None:
    cluster.create(LOCAL_QUEUES, local_queue("research"))
    said = cluster.kuota("run", "-q", "serch", "--", "true", code=1)
    assert "no LocalQueue serch in namespace default; there are: research" in said
    cluster.create(NAMESPACES, {"metadata": {"name": "vision"}})
    said = cluster.kuota("run", "-n", "vision", "-q", "research", "--", "true", code=1)
    assert "there is one in namespace default: say -n default" in said
    said = cluster.kuota("run", "--priority", "top", "--", "true", code=1)
    assert "no WorkloadPriorityClass and no PriorityClass top" in said
    assert [] == cluster.names(JOBS)


class _SuspendingSession:
    """A server that suspends Jobs without a queue, as namespaces of teams do."""

    namespace, here = "vision", ""

    def __init__(self, queue: str) -> None:
        self.client = self
        self.created: list[Json] = []
        self._default = {QUEUE: queue} if queue else {}

    async def answer(self, request: HttpRequest) -> tuple[Json, list[str]]:
        job = msgspec.json.decode(request.body)
        job["metadata"]["labels"] = self._default | job["metadata"].get("labels", {})
        job["spec"]["suspend"] = True
        if "dryRun" not in request.query:
            self.created.append(job)
        return job, []

    async def list(self, resource: Resource, namespace: str) -> Listing:
        return Listing([{"metadata": {"name": "gpu"}}], "1")


@pytest.mark.parametrize(("given", "default"), [("gpu", ""), ("", "default")])
def test_a_job_that_names_or_gets_a_queue_is_created(given: str, default: str) -> None:
    session = _SuspendingSession(default)
    manifest = job_of(RunRequest(arguments=("train",), queue=given), "vision")
    asyncio.run(JobSubmitter(session).create(manifest))  # type: ignore[arg-type]
    assert 1 == len(session.created)


def test_a_job_that_would_wait_for_a_queue_for_ever_is_not_created() -> None:
    session = _SuspendingSession("")
    manifest = job_of(RunRequest(arguments=("train",)), "vision")
    with pytest.raises(Failed, match="need a queue; choose one with -q NAME: there are: gpu"):
        asyncio.run(JobSubmitter(session).create(manifest))  # type: ignore[arg-type]
    assert [] == session.created


def test_a_name_that_is_taken_leads_to_a_remedy(cluster: Cluster) -> None:
    cluster.kuota("run", "--name", "x", "--detach", "--", "true")
    said = cluster.kuota("run", "--name", "x", "--detach", "--", "true", code=1)
    assert "choose another --name, omit it, or delete the Job: kuota delete job x" in said


def test_wrong_amounts_are_wrong_use(cluster: Cluster) -> None:
    assert "Invalid value for --memory" in cluster.kuota("run", "--memory=8Q!", "--", "x", code=2)
    assert "did you mean 8G or 8Gi?" in cluster.kuota("run", "--memory=8GB", "--", "x", code=2)
    assert "Missing argument" in cluster.kuota("run", "--gpus", "1", code=2)
    twice = ("--gpus", "2", "--resource", "nvidia.com/gpu=1")
    assert "is given twice: 2 and 1" in cluster.kuota("run", *twice, "--", "x", code=2)


def test_a_name_that_is_too_long_is_wrong_use() -> None:
    assert 0 == _run("--name", "x" * 63).exit_code
    done = _run("--name", "x" * 64)
    assert 2 == done.exit_code
    assert "is longer than 63 characters\n" in done.output


@pytest.mark.parametrize("amount", ["8", "8000m", "64k"])
def test_memory_without_a_unit_is_wrong_use(amount: str) -> None:
    said = _run("--memory", amount).output
    assert f"{amount} is less than 1Mi; add a unit, as in 8Gi" in said


@pytest.mark.parametrize(
    ("args", "ours"),
    [
        (("--partition=gpu",), "'--queue'"),
        (("-p", "gpu"), "'--queue'"),
        (("--mem", "8G"), "'--memory'"),
        (("--time=2:00:00",), "'--time-limit'"),
        (("--array", "0-9"), "'--parallelism'"),
    ],
)
def test_options_of_slurm_lead_to_ours(args: tuple[str, ...], ours: str) -> None:
    done = _run(*args)
    assert 2 == done.exit_code
    assert f"Did you mean {ours}?" in done.output


def _run(*args: str) -> Result:
    return CliRunner().invoke(main, ["run", "--dry-run", *args, "--", "true"])


def test_a_dry_run_prints_the_manifest(cluster: Cluster) -> None:
    printed = yaml.safe_load(cluster.kuota("run", "--dry-run", "--", "/opt/Train_v2.sh"))
    assert "train-v2-sh-" == printed["metadata"]["generateName"]
    assert [] == cluster.names(JOBS)


def _offline(folder: Path, *args: str) -> Result:
    """Run `kuota run --dry-run` where no server is configured."""
    env = {"HOME": str(folder), "KUOTA_STATE": str(folder / "state"), "KUBECONFIG": ""}
    with chdir(folder):
        return CliRunner().invoke(main, ["run", "--dry-run", *args], env=env)


def test_a_dry_run_needs_no_server(tmp_path: Path) -> None:
    done = _offline(tmp_path, "-q", "research", "-n", "vision", "--priority", "high", "--", "train")
    assert 0 == done.exit_code
    made = yaml.safe_load(done.stdout)
    assert {QUEUE: "research", PRIORITY: "high"} == made["metadata"]["labels"]
    assert "vision" == made["metadata"]["namespace"]
    assert "Queue and priority were not checked: no server to talk to" in done.stderr


def test_a_dry_run_for_a_cluster_has_nothing_of_this_machine(tmp_path: Path) -> None:
    done = _offline(tmp_path, "--image", "pytorch", "--", "train")
    container = yaml.safe_load(done.stdout)["spec"]["template"]["spec"]["containers"][0]
    assert {"name": "main", "image": "pytorch", "command": ["train"]} == container


def test_a_dry_run_on_a_named_server_that_is_down_fails(tmp_path: Path) -> None:
    done = _offline(tmp_path, "--kubeconfig", "absent", "--", "train")
    assert (3, "") == (done.exit_code, done.stdout)


def test_a_script_of_the_current_directory_gets_a_hint(tmp_path: Path) -> None:
    (tmp_path / "train.sh").touch()
    assert "write ./train.sh" in _offline(tmp_path, "--", "train.sh").stderr
    for other in ("./train.sh", "sh", "absent.sh"):
        assert "write ./" not in _offline(tmp_path, "--", other).stderr


def test_a_time_limit_counts_from_admission_where_there_is_a_queue() -> None:
    queued = job_of(RunRequest(arguments=("a",), queue="q", time_limit_s=60), "default")
    assert "60" == queued["metadata"]["labels"]["kueue.x-k8s.io/max-exec-time-seconds"]
    free = job_of(RunRequest(arguments=("a",), time_limit_s=60), "default")
    assert 60 == free["spec"]["template"]["spec"]["activeDeadlineSeconds"]


def test_dollars_in_variables_are_plain() -> None:
    made = job_of(RunRequest(arguments=("a",), variables={"A": "$(B)"}), "default")
    container = made["spec"]["template"]["spec"]["containers"][0]
    assert [{"name": "A", "value": "$$(B)"}] == container["env"]


def test_dollars_in_arguments_reach_the_command_unchanged() -> None:
    made = job_of(RunRequest(arguments=("sh", "-c", "kill $$; echo $(HOME)")), "default")
    container = made["spec"]["template"]["spec"]["containers"][0]
    assert ["sh", "-c", "kill $$$$; echo $$(HOME)"] == container["command"]
