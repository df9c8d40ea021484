# SPDX-License-Identifier: Apache-2.0
"""Shims, their server and the control plane are killed at any moment, in any order, under load.

Afterwards no pod is without a process, no device is allocated to nothing, and nothing ran twice.
`--long` kills 1,000 times; `KUOTA_CHAOS_SEED` selects other moments.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hang import HANG_S
from kuota.runner.processes import ShimState, shim_state
from up.lab import job, queues
from up.machine import Machine, running

SEED = int(os.environ.get("KUOTA_CHAOS_SEED", "1"))
SHORT, LONG = 24, 1000
GPUS, QUOTA = 4, 3
WAVE = 12
"""Jobs that are submitted together, as soon as the previous ones have ended."""

# A process holds a lock of its Job and one of each of its GPUs, and so do all its children. Each
# attempt of a container has an identity of its own, which must never be used twice.
SCRIPT = """
cd {folder}; exec 9>job-{name}; flock -n 9 || echo {name} runs twice at once >> bad
mkdir run-$(echo $KUOTA_RUN | tr / -) || echo $KUOTA_RUN of {name} runs again >> bad
set -- $(echo $CUDA_VISIBLE_DEVICES | tr , ' '); [ $# = {gpus} ] || echo {name} has $# >> bad
exec 5>$1; flock -n 5 || echo {name} shares $1 >> bad
exec 6>${{2:-/dev/null}}; [ $# = 1 ] || flock -n 6 || echo {name} shares $2 >> bad
{work}; echo {name} >> done
"""


class Chaos:
    """A machine with Jobs, and what is done to it."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self.machine = machine
        self.folder = folder
        self.kills: Counter[str] = Counter()
        self.submitted = 0
        self._chance = random.Random(SEED)

    def submit(self, work: str = "", count: int = WAVE) -> list[str]:
        """Create Jobs. By default they take a fraction of a second."""
        names = [f"j{self.submitted + number:05d}" for number in range(count)]
        self.submitted += count
        jobs = [self._job(each, work) for each in names]
        self.machine.kubectl("create", "-f", "-", stdin="---\n".join(jobs))
        return names

    def _job(self, name: str, work: str) -> str:
        gpus = 1 if work else self._chance.choice([1, 1, 2])
        work = work or f"sleep {self._chance.choice([0.1, 0.3])}"
        script = SCRIPT.format(name=name, folder=self.folder, gpus=gpus, work=work)
        urgent = not work and self._chance.random() < 0.1
        return job(name, script, gpus, restart="OnFailure", retries=1000, urgent=urgent)

    def strike(self) -> None:
        """After a while kill shims, their server, the control plane, or several of them."""
        time.sleep(self._chance.uniform(0.0, 0.3))
        kind = self._chance.choice(["control plane", "shim", "shim", "shim", "shim", "both"])
        if kind != "control plane":
            self._kill_shims(self._chance.randint(1, 3))
            if self._chance.random() < 0.3:
                self._kill_server_of_shims()
        if kind != "shim":
            self.machine.kill()
            self.kills["control plane"] += 1
            if kind == "both":
                self._kill_shims(2)
            if self._chance.random() < 0.1:
                self.machine.killed_start(self._chance.uniform(0.2, 2.0), "--gpus", str(GPUS))
                self.kills["control plane"] += 1
            self.machine.up("--gpus", str(GPUS))

    def runs(self) -> list[ShimState]:
        """The runs that have not ended according to their recorded state."""
        folders = sorted(self.machine.state.glob("pods/*/runs/main/*"))
        states = [shim_state(str(each)) for each in folders]
        return [each for each in states if each is not None and each.finished is None]

    def _kill_shims(self, count: int) -> None:
        """Kill shims several times in a row, so that their replacements die young."""
        for _ in range(count):
            runs = self.runs()
            if runs:
                self._kill("shim", self._chance.choice(runs).shim)
            time.sleep(self._chance.choice([0, 0, 0.002, 0.01, 0.05]))

    def _kill_server_of_shims(self) -> None:
        """Kill the child of the control plane that forks shims."""
        pid = self.machine.pid()
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            with suppress(OSError):
                if b"kuota.runner.shim" in Path(f"/proc/{child}/cmdline").read_bytes():
                    self._kill("server of shims", int(child))

    def _kill(self, what: str, pid: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
            self.kills[what] += 1

    def unfinished(self) -> list[str]:
        """The Jobs that have not succeeded. The reserved quota is checked meanwhile."""
        assert self.reserved() <= QUOTA
        return [
            each["metadata"]["name"]
            for each in self.machine.get("jobs")["items"]
            if not each["status"].get("completionTime")
        ]

    def reserved(self) -> int:
        """GPUs that admitted Workloads hold, by what is stored of them."""
        total = 0
        for each in self.machine.get("workloads")["items"]:
            status = each.get("status", {})
            held = {c["type"] for c in status.get("conditions", ()) if c["status"] == "True"}
            if "QuotaReserved" in held and "Finished" not in held:
                for pod_set in status["admission"]["podSetAssignments"]:
                    total += int(pod_set["resourceUsage"]["nvidia.com/gpu"])
        return total

    def delete_finished(self) -> None:
        self.machine.kubectl("delete", "jobs", "--all", "--wait=false")

    def settle(self) -> None:
        """Wait until every Job has succeeded."""
        until = time.monotonic() + HANG_S
        while left := self.unfinished():
            assert time.monotonic() < until, f"{left} do not end; kills: {dict(self.kills)}"

    def without_process(self) -> list[str]:
        """The running pods that have no living process."""
        return [
            each["metadata"]["name"]
            for each in self.machine.get("pods")["items"]
            if each["status"].get("phase") == "Running" and not self._lives(each["metadata"]["uid"])
        ]

    def _lives(self, uid: str) -> bool:
        folders = self.machine.state.glob(f"pods/{uid}/runs/main/*")
        states = [shim_state(str(each)) for each in folders]
        return any(each is not None and lives(each) for each in states)


def lives(run: ShimState) -> bool:
    """Whether the process of the run exists and is not a zombie."""
    try:
        state, *rest = Path(f"/proc/{run.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return state != "Z" and int(rest[18]) == run.pid_start


@pytest.fixture
def chaos() -> Iterator[Chaos]:
    with running("--gpus", str(GPUS)) as machine:
        marks = machine.state.parent / "marks"
        marks.mkdir()
        marks.chmod(0o777)
        yield Chaos(machine, marks)


def check_nothing_is_left(chaos: Chaos) -> None:
    """Quota and devices are free, and no run is recorded as unfinished."""
    chaos.machine.wait("clusterqueue/lab", "jsonpath={.status.admittedWorkloads}=0")
    status = chaos.machine.get("clusterqueue", "lab")["status"]
    assert (0, 0) == (status["reservingWorkloads"], status["pendingWorkloads"])
    (flavor,) = status["flavorsUsage"]
    assert ["0"] == [each["total"] for each in flavor["resources"]]
    assert "{}" == (chaos.machine.state / "devices.json").read_text()
    assert [] == chaos.runs()


@pytest.mark.slow
def test_after_any_kills_every_job_has_run_and_nothing_is_left(
    chaos: Chaos, long_run: bool
) -> None:
    chaos.machine.apply(queues(QUOTA))
    wanted = LONG if long_run else SHORT
    done: set[str] = set()
    while chaos.kills.total() < wanted:
        names = chaos.submit()
        while chaos.unfinished() and chaos.kills.total() < wanted:
            chaos.strike()
        chaos.settle()
        done |= set((chaos.folder / "done").read_text().split())
        assert set(names) <= done
        chaos.delete_finished()
    bad = chaos.folder / "bad"
    assert not bad.exists(), bad.read_text()
    check_nothing_is_left(chaos)
    assert "Traceback" not in (chaos.machine.state / "kuota.log").read_text()
    print(f"seed {SEED}: {dict(chaos.kills)}, {chaos.submitted} Jobs, each succeeded")


@pytest.mark.slow
def test_after_any_kills_long_running_pods_have_a_process(chaos: Chaos, long_run: bool) -> None:
    """A pod that runs is followed again, and can be deleted with all its processes."""
    chaos.machine.apply(queues(QUOTA))
    names = chaos.submit("while :; do sleep 0.1; done", QUOTA)
    for name in names:
        chaos.machine.started(name)
    first = chaos.runs()
    while chaos.kills.total() < (LONG // 5 if long_run else SHORT // 2):
        chaos.strike()
    assert [] == chaos.without_process()
    assert {each.pid for each in first} == {each.pid for each in chaos.runs()}
    chaos.delete_finished()
    chaos.machine.kubectl("wait", "pods", "--all", "--for=delete", f"--timeout={HANG_S}s")
    chaos.machine.wait("clusterqueue/lab", "jsonpath={.status.reservingWorkloads}=0")
    assert [] == [each.pid for each in first if lives(each)]
    bad = chaos.folder / "bad"
    assert not bad.exists(), bad.read_text()
