# SPDX-License-Identifier: Apache-2.0
"""The examples run as their README says, with real processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest

from hang import HANG_S
from kuota.api.base import Json
from kuota.api.manifest_yaml import load_all
from up.machine import Machine, open_folder

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"
TIME_PATH = "jsonpath={.metadata.creationTimestamp}"
FLAVORS = {"2-gpus.yaml": ("l4", "t4"), "3-cpus.yaml": ("spot", "on-demand")}


class Example(Machine):
    """An installation on which one example is tried."""

    def __init__(self, state: Path, name: str) -> None:
        super().__init__(state)
        self.folder = EXAMPLES / name

    def load(self, *files: str) -> None:
        for file in files:
            self.kubectl("apply", "-f", str(self.folder / file))

    def pods(self, namespace: str, job: str) -> list[Json]:
        found = self.get("pods", "-n", namespace, "-l", f"job-name={job}")["items"]
        return list(found)

    def workload(self, namespace: str, job: str) -> str:
        """The name of the Workload of a Job, once there is one."""
        uid = self.get("job", job, "-n", namespace)["metadata"]["uid"]
        chosen = ["-n", namespace, "-l", f"kueue.x-k8s.io/job-uid={uid}"]
        self.kubectl("wait", "workload", *chosen, "--for=create", f"--timeout={HANG_S}s")
        return str(self.get("workloads", *chosen)["items"][0]["metadata"]["name"])

    def waits(self, namespace: str, job: str) -> None:
        """Wait until a Job has been tried and found no room; it has no pods then."""
        name = self.workload(namespace, job)
        self.wait(f"workload/{name} -n {namespace}", "condition=QuotaReserved=false")
        assert [] == self.pods(namespace, job)

    def preempted(self, namespace: str, job: str, reason: str) -> None:
        """Wait until a Job has been evicted for another, for the reason given."""
        name = self.workload(namespace, job)
        path = '{.status.conditions[?(@.type=="Preempted")].reason}'
        self.wait(f"workload/{name} -n {namespace}", f"jsonpath={path}={reason}")

    def says(self, namespace: str, job: str, line: str) -> None:
        """Wait until the log of a Job that runs has a line, among the first thousand."""
        self.started(job, namespace=namespace)
        with self.following("logs", "-f", f"job/{job}", "-n", namespace) as log:
            seen = next((each for each in islice(log, 1000) if each.rstrip() == line), "")
        assert seen, f"{job} ended without saying {line!r}"

    def outlive(self, namespace: str, job: str) -> None:
        """Return once what is made from now on is younger than a Workload: queues count seconds."""
        made = self.get("workload", self.workload(namespace, job), "-n", namespace)["metadata"]
        ask = ("create", "configmap", "now", "--dry-run=server", "-o", TIME_PATH)
        for _ in range(100):
            if self.kubectl(*ask) > made["creationTimestamp"]:
                return
        raise AssertionError("the clock of the server stands still")

    def finish(self, namespace: str, *jobs: str) -> None:
        self.kubectl("delete", "job", *jobs, "-n", namespace)


Start = Callable[..., Example]


@pytest.fixture
def start() -> Iterator[Start]:
    running: list[Example] = []
    with open_folder() as folder:

        def started(name: str, *options: str) -> Example:
            found = Example(folder / "state", name)
            found.up(*options)
            running.append(found)
            return found

        yield started
        for each in running:
            each.kubectl("delete", "jobs", "--all", "-A")  # their processes would outlive it
            each.down()


def test_one_gpu_the_second_job_waits_as_a_workload_and_an_urgent_one_preempts(
    start: Start,
) -> None:
    machine = start("one-gpu", "--gpus", "1")
    machine.load("1-queues.yaml", "2-two-jobs.yaml")
    machine.started("first", namespace="team-a")
    machine.waits("team-b", "second")
    machine.finish("team-b", "second")
    machine.load("3-urgent.yaml")
    machine.preempted("team-a", "first", "InClusterQueue")
    machine.started("urgent", namespace="team-b")
    machine.finish("team-b", "urgent")
    machine.started("first", namespace="team-a")
    (pod,) = machine.pods("team-a", "first")
    tolerated = [each.get("key") for each in pod["spec"]["tolerations"]]
    assert "nvidia.com/gpu" in tolerated


def test_head_of_line_strict_fifo_waits_and_best_effort_fifo_passes_by(start: Start) -> None:
    machine = start("head-of-line", "--gpus", "128")
    machine.load("1-queues.yaml", "2-running.yaml", "3-big.yaml")
    for namespace in ("strict", "best-effort"):
        machine.started("running", namespace=namespace)
        machine.waits(namespace, "big")
        machine.outlive(namespace, "big")
    machine.load("4-small.yaml")
    machine.started("small", namespace="best-effort")
    small = machine.workload("strict", "small")
    assert "admission" not in machine.get("workload", small, "-n", "strict")["status"]
    assert [] == machine.pods("strict", "small")
    machine.finish("strict", "big")
    machine.started("small", namespace="strict")


def test_sla_an_idle_team_keeps_three_quarters_of_its_quota(start: Start) -> None:
    machine = start("sla", "--gpus", "16")
    machine.load("1-queues.yaml", "2-hungry.yaml")
    machine.started("own", namespace="bronze")
    machine.started("borrowed", namespace="bronze")
    machine.load("3-more.yaml")
    machine.waits("bronze", "more")
    machine.load("4-owner.yaml")
    machine.started("guaranteed", namespace="gold")
    assert 1 == len(machine.pods("bronze", "borrowed")), "nobody had to go"


def test_tiers_training_gives_way_to_both_and_goes_on_where_it_saved(start: Start) -> None:
    machine = start("tiers", "--gpus", "12")
    saved = machine.state.parent / "saved"
    saved.mkdir()
    saved.chmod(0o777)
    training = (machine.folder / "2-training.yaml").read_text()
    machine.load("1-queues.yaml")
    machine.apply(training.replace("/tmp", str(saved)).replace("sleep 1", "sleep 0.02"))
    machine.says("training", "train", "step 3")

    machine.load("3-interactive.yaml")
    machine.preempted("training", "train", "InCohortReclamation")
    machine.started("notebook", namespace="inference")
    step = int((saved / "kuota-tiers-step").read_text())
    assert 3 <= step
    machine.finish("inference", "notebook")
    machine.says("training", "train", f"goes on from step {step}")

    machine.load("4-inference.yaml")
    machine.preempted("training", "train", "InCohortReclaimWhileBorrowing")
    machine.started("serve", namespace="inference")
    machine.load("3-interactive.yaml")
    machine.waits("inference", "notebook")
    assert step <= int((saved / "kuota-tiers-step").read_text())


def test_tiers_inference_takes_its_quota_from_interactive_work(start: Start) -> None:
    machine = start("tiers", "--gpus", "12")
    machine.load("1-queues.yaml", "3-interactive.yaml")
    machine.started("notebook", namespace="inference")
    machine.load("4-inference.yaml")
    machine.preempted("inference", "notebook", "InClusterQueue")
    machine.started("serve", namespace="inference")


def test_shared_cohort_gangs_start_whole_and_a_reclaim_evicts_borrowers_only(start: Start) -> None:
    machine = start("shared-cohort", "--gpus", "48")
    machine.load("1-queues.yaml", "2-gangs.yaml", "3-borrowers.yaml")
    for team in ("red", "green"):
        machine.started("gang", 16, namespace=team)
        machine.started("sweep", namespace=team)
    machine.load("4-second-gang.yaml")
    machine.waits("red", "second-gang")

    machine.load("5-lender.yaml")
    machine.started("gang", 16, namespace="blue")
    for team in ("red", "green"):
        machine.preempted(team, "sweep", "InCohortReclamation")
        gang = machine.get("job", "gang", "-n", team)["status"]
        assert (16, 0) == (gang["ready"], gang.get("failed", 0))
    events = machine.get("events", "-A", "--field-selector", "reason=Preempted")["items"]
    evicted = {each["involvedObject"]["name"] for each in events}
    sweeps = {machine.workload(team, "sweep") for team in ("red", "green")}
    assert sweeps == evicted


def test_fallback_fills_one_flavor_then_the_next_with_its_labels_and_tolerations(
    start: Start,
) -> None:
    machine = start("fallback", "--nodes", str(EXAMPLES / "fallback" / "nodes.yaml"))
    machine.load("1-queues.yaml")
    for file, flavors in FLAVORS.items():
        jobs = (machine.folder / file).read_text().split("---\n")
        for job, flavor in zip(jobs, flavors, strict=True):
            machine.apply(job)
            name = load_all(job)[0]["metadata"]["name"]
            machine.started(name)
            (pod,) = machine.pods("default", name)
            spec = machine.get("resourceflavor", flavor)["spec"]
            assert f"node-{flavor}" == pod["spec"]["nodeName"]
            assert spec["nodeLabels"] == pod["spec"]["nodeSelector"]
            for each in spec.get("tolerations", []):
                assert each in pod["spec"]["tolerations"]


@pytest.fixture
def two_resources(start: Start) -> Example:
    folder = EXAMPLES / "two-resources"
    options = ("--nodes", str(folder / "nodes.yaml"), "--config", str(folder / "config.yaml"))
    return start("two-resources", *options)


def test_two_resources_dominant_shares_settle_by_weight(two_resources: Example) -> None:
    machine = two_resources
    machine.load("1-queues.yaml", "2-cpu-heavy.yaml")
    machine.wait("job --all -n simulation", "jsonpath={.status.ready}=1")
    machine.load("3-gpu-heavy.yaml")
    machine.wait("job --all -n training", "jsonpath={.status.ready}=1")
    for queue in ("simulation", "training"):
        machine.wait(f"clusterqueue/{queue}", "jsonpath={.status.fairSharing.weightedShare}=500")
    running = [
        each["metadata"]["name"]
        for each in machine.get("jobs", "-n", "simulation")["items"]
        if not each["spec"]["suspend"]
    ]
    assert 4 == len(running)


def test_two_resources_recent_use_puts_a_team_behind_another(two_resources: Example) -> None:
    machine = two_resources
    machine.load("1-queues.yaml", "4-recent-use.yaml")
    machine.started("earlier", namespace="busy")
    machine.load("5-next.yaml")
    machine.waits("busy", "next")
    machine.outlive("busy", "next")
    machine.load("6-newcomer.yaml")
    machine.waits("calm", "newcomer")
    machine.finish("busy", "earlier")
    machine.started("newcomer", namespace="calm")
    machine.waits("busy", "next")
    machine.finish("calm", "newcomer")
    machine.started("next", namespace="busy")
