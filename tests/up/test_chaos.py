# SPDX-License-Identifier: Apache-2.0
"""The control plane and its shims are killed at random moments under load; the work goes on, once.

`KUOTA_CHAOS=200` runs so many Jobs and `KUOTA_CHAOS_SEED` draws other moments.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from hang import HANG_S
from kuota.runner.processes import shim_state
from up.lab import job, queues
from up.machine import Machine, running

JOBS = int(os.environ.get("KUOTA_CHAOS", "40"))
SEED = int(os.environ.get("KUOTA_CHAOS_SEED", "1"))
PATIENT = "KUOTA_CHAOS" in os.environ
GPUS, QUOTA = 4, 3

# A process holds a lock of its Job's and one of each of its GPUs', and so do all its children.
# The first Job ends once enough has been killed: on a slow machine too there is something to kill.
SCRIPT = """
cd {folder}; exec 9>job-{name}; flock -n 9 || echo {name} runs twice >> bad
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
        self._chance = random.Random(SEED)
        self._until = time.monotonic() + HANG_S + 3 * JOBS
        self.deaths = {"server": 0, "shim": 0}

    def submit(self) -> None:
        jobs = [self._job(f"j{number:03d}", number % 8 == 7) for number in range(JOBS)]
        self.machine.kubectl("create", "-f", "-", stdin="---\n".join(jobs))

    def _job(self, name: str, urgent: bool) -> str:
        gpus = self._chance.choice([1, 1, 2])
        work = f"sleep {self._chance.choice([0.1, 0.3])}"
        if name == "j000":
            work = "while ! [ -e enough ]; do sleep 0.05; done"
        script = SCRIPT.format(name=name, folder=self.folder, gpus=gpus, work=work)
        # After a failure that it must count, the Job controller pauses: for patient runs only.
        again = self._chance.choice(["OnFailure", "Never" if PATIENT else "OnFailure"])
        return job(name, script, gpus, restart=again, retries=1000, urgent=urgent)

    def strike(self) -> None:
        """After a while kill the control plane, some shims, or both, and start it again."""
        time.sleep(self._chance.uniform(0.0, 0.5))
        kind = self._chance.choice(["server", "shim", "shim", "both"])
        if kind in ("shim", "both"):
            self._kill_shims(self._chance.randint(1, 2))
            if self._chance.random() < 0.3:
                self._kill_server_of_shims()
        if kind in ("server", "both"):
            self.machine.kill()
            self.deaths["server"] += 1
            if kind == "both":
                self._kill_shims(1)
            if PATIENT and self._chance.random() < 0.3:
                self.machine.stillbirth(self._chance.uniform(0.2, 2.0), "--gpus", str(GPUS))
            self.machine.up("--gpus", str(GPUS))

    def _kill_shims(self, count: int) -> None:
        folders = sorted(self.machine.state.glob("pods/*/runs/main/*"))
        self._chance.shuffle(folders)
        states = [shim_state(str(each)) for each in folders]
        living = [each.shim for each in states if each is not None and each.finished is None]
        for pid in living[:count]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.deaths["shim"] += 1

    def _kill_server_of_shims(self) -> None:
        """Kill the child of the control plane that forks shims."""
        pid = self.machine.pid()
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            if b"kuota.runner.shim" in Path(f"/proc/{child}/cmdline").read_bytes():
                os.kill(int(child), signal.SIGKILL)

    def unfinished(self) -> list[str]:
        """The Jobs that have not succeeded; what holds quota meanwhile is looked at too."""
        assert time.monotonic() < self._until, "it takes too long"
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

    def failures(self) -> list[str]:
        jobs = self.machine.get("jobs")["items"]
        return [
            each["metadata"]["name"]
            for each in jobs
            if any(c["type"] == "Failed" for c in each["status"].get("conditions", ()))
        ]


@pytest.fixture
def chaos() -> Iterator[Chaos]:
    with running("--gpus", str(GPUS)) as machine:
        marks = machine.state.parent / "marks"
        marks.mkdir()
        marks.chmod(0o777)
        yield Chaos(machine, marks)


@pytest.mark.slow
def test_whatever_dies_every_job_ends_once_at_a_time_and_quota_adds_up(chaos: Chaos) -> None:
    chaos.machine.apply(queues(QUOTA))
    chaos.submit()
    while chaos.unfinished():
        if sum(chaos.deaths.values()) < JOBS // 5 or not all(chaos.deaths.values()):
            chaos.strike()
        else:
            (chaos.folder / "enough").touch()
    bad = chaos.folder / "bad"
    assert not bad.exists(), bad.read_text()
    assert [] == chaos.failures()
    assert JOBS == len(set((chaos.folder / "done").read_text().split()))
    chaos.machine.wait("clusterqueue/lab", "jsonpath={.status.admittedWorkloads}=0")
    status = chaos.machine.get("clusterqueue", "lab")["status"]
    assert (0, 0) == (status["reservingWorkloads"], status["pendingWorkloads"])
    (flavor,) = status["flavorsUsage"]
    assert ["0"] == [each["total"] for each in flavor["resources"]]
    assert "{}" == (chaos.machine.state / "devices.json").read_text()
    assert "Traceback" not in (chaos.machine.state / "kuota.log").read_text()
