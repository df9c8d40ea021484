# SPDX-License-Identifier: Apache-2.0
"""A fleet of three real control planes, of which some are killed or stopped at random under load.

A round submits Jobs and lets one fault happen: the manager or a worker is killed, a worker loses
power with all its processes, is stopped for a while as by a broken network, or two of these
together. Afterwards the manager has recorded exactly one completion of every Job.

A Job may have run a second time for these reasons only, which the test tells apart:

- The manager could not reach its worker for longer than `workerLostTimeout`, so it dispatched the
  Job again, and the process that was left in the worker ended as well. As in Kueue, this cannot be
  avoided: a worker that cannot be reached cannot be told to stop.
- Its worker lost power after the last line was written and before the end of the process was.

`--long` plays 200 rounds; `KUOTA_CHAOS_SEED` selects the first one, and `KUOTA_CHAOS_S` limits the
time in seconds after which no further round begins.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from control.objects import condition
from hang import HANG_S
from up.lab import job, queues
from up.machine import Machine, open_folder
from up.power import cut_power
from up.test_fleet import DISPATCHED, FLEET

SEED = int(os.environ.get("KUOTA_CHAOS_SEED", "1"))
LIMIT_S = float(os.environ.get("KUOTA_CHAOS_S", "inf"))
SHORT, LONG = 2, 200
WORKERS = ("lab-1", "lab-2")
GPUS, WAVE = 2, 6
CONFIG = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
multiKueue: {workerLostTimeout: 5s, gcInterval: 2s}
"""
FAULTS = ("manager", "worker", "power", "stopped", "manager and worker", "manager and power")
NOTE = "echo {name} $PWD >> {notes}"
"""The last command of a Job. Its directory is that of its worker."""


class Evictions(NamedTuple):
    """How often a Workload was evicted by its check, and the last message."""

    times: int
    message: str


class Chaos:
    """The fleet, and what is done to it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.faults: Counter[str] = Counter()
        self.again: Counter[str] = Counter()
        """Jobs that ran a second time, by the reason."""
        self._notes = folder / "done"
        self._notes.touch()
        self._notes.chmod(0o666)
        config = folder / "manager.yaml"
        config.write_text(CONFIG)
        self._options = {"manager": ("--gpus", "0", "--config", str(config))}
        self.machines: dict[str, Machine] = {}
        for name in ("manager", *WORKERS):
            self.machines[name] = machine = Machine(folder / name)
            machine.up(*self._started_with(name))
            stack.callback(machine.down)
            machine.apply(queues(GPUS if name in WORKERS else GPUS * len(WORKERS)))
        self.manager = self.machines["manager"]
        self._connect(folder)

    def _started_with(self, name: str) -> tuple[str, ...]:
        return self._options.get(name, ("--gpus", str(GPUS)))

    def _connect(self, folder: Path) -> None:
        for name in WORKERS:
            token = folder / f"{name}.kubeconfig"
            worker = self.machines[name]
            worker.kuota("token", "create", "fleet", "--manager", "--out", str(token))
            self.manager.kuota("cluster", "add", name, "--kubeconfig", str(token))
        self.manager.apply(FLEET.replace("[lab-2]", json.dumps(WORKERS)))
        patch = ("--type=merge", "-p", json.dumps(DISPATCHED))
        self.manager.kubectl("patch", "clusterqueue", "lab", *patch)

    def round(self, seed: int) -> None:
        """Submit Jobs, let a fault happen, and wait until all Jobs have completed."""
        chance = random.Random(seed)
        names = [f"s{seed}-{number}" for number in range(WAVE)]
        works = (f"sleep {chance.choice([0.2, 1, 2])}" for _ in names)
        jobs = [
            job(
                name,
                f"{work}; {NOTE.format(name=name, notes=self._notes)}",
                retries=0,
                requeue=True,
            )
            for name, work in zip(names, works, strict=True)
        ]
        self.manager.kubectl("create", "-f", "-", stdin="---\n".join(jobs))
        time.sleep(chance.uniform(0.0, 3.0))
        fault, worker = chance.choice(FAULTS), chance.choice(WORKERS)
        self.faults[fault] += 1
        self._strike(fault, worker, chance)
        self._settle(names, f"seed {seed}: {fault} of {worker}")
        self._check(names, fault, worker)
        self.manager.kubectl("delete", "jobs", "--all")

    def _strike(self, fault: str, worker: str, chance: random.Random) -> None:
        away_s = chance.choice([0.0, 2.0, 8.0])
        machine = self.machines[worker]
        if fault == "stopped":
            os.kill(machine.pid(), signal.SIGSTOP)
            time.sleep(away_s)
            os.kill(machine.pid(), signal.SIGCONT)
            return
        killed = [name for name in ("manager",) if "manager" in fault]
        if "worker" in fault:
            killed.append(worker)
        for name in killed:
            self.machines[name].kill()
        if "power" in fault:
            cut_power(machine)
            killed.append(worker)
            time.sleep(away_s)
        for name in killed:
            self.machines[name].up(*self._started_with(name))

    def _settle(self, names: list[str], about: str) -> None:
        until = time.monotonic() + HANG_S
        while left := [name for name, end in self._ends().items() if not end]:
            assert time.monotonic() < until, f"{about}: {left} do not end"
            time.sleep(0.2)
        assert set(names) == set(self._ends()), about
        failed = {name: end for name, end in self._ends().items() if end != "Complete"}
        assert {} == failed, about

    def _ends(self) -> dict[str, str]:
        return {each["metadata"]["name"]: _end(each) for each in self.manager.get("jobs")["items"]}

    def _check(self, names: list[str], fault: str, worker: str) -> None:
        """Every Job has completed once and ran again for a reason; nothing is left in workers."""
        before = self._recorded()
        until = time.monotonic() + HANG_S
        while any(self._left(name) for name in WORKERS):
            assert time.monotonic() < until, "copies are left in the workers"
            time.sleep(0.2)
        self.manager.wait("clusterqueue/lab", "jsonpath={.status.reservingWorkloads}=0")
        assert before == self._recorded(), "a worker that returned has changed a completed Job"
        assert dict.fromkeys(names, 1) == {
            name: succeeded for name, (succeeded, _) in before.items()
        }
        runs, evictions = self._runs(), self._evictions()
        for name in names:
            assert runs.get(name), f"{name} is complete and has not run"
            if len(runs[name]) > 1:
                about = f"{fault} of {worker}: {name} ran in {runs[name]}; {evictions[name]}"
                self.again[_reason(runs[name], fault, worker, evictions[name], about)] += 1

    def _recorded(self) -> dict[str, tuple[int, str]]:
        """How often each Job has succeeded as the manager sees it, and when it was complete."""
        return {
            each["metadata"]["name"]: (
                each["status"]["succeeded"],
                each["status"]["completionTime"],
            )
            for each in self.manager.get("jobs")["items"]
        }

    def _runs(self) -> dict[str, list[str]]:
        """The workers in which each Job has written its last line."""
        found: dict[str, list[str]] = {}
        for line in self._notes.read_text().splitlines():
            name, _, folder = line.partition(" ")
            (place,) = (each for each in WORKERS if f"{self.machines[each].state}/" in folder)
            found.setdefault(name, []).append(place)
        return found

    def _evictions(self) -> dict[str, Evictions]:
        """How often the manager has dispatched each Job again, and why the last time."""
        found: dict[str, Evictions] = {}
        for each in self.manager.get("workloads")["items"]:
            stats = (each["status"].get("schedulingStats") or {}).get("evictions") or ()
            times = sum(one["count"] for one in stats if one["reason"] == "AdmissionCheck")
            name = each["metadata"]["ownerReferences"][0]["name"]
            found[name] = Evictions(times, condition(each, "Evicted").get("message", ""))
        return found

    def _left(self, worker: str) -> list[Any]:
        return list(self.machines[worker].get("workloads,jobs")["items"])


def _reason(runs: list[str], fault: str, struck: str, evictions: Evictions, about: str) -> str:
    """Why a Job has run again. Fails without a reason."""
    assert fault != "manager", about
    assert struck in runs, about
    if evictions.times:
        assert len(runs) <= evictions.times + 1, about
        assert f"Cluster {struck} is lost" in evictions.message, about
        return "its worker was lost"
    assert {struck} == set(runs), about
    assert "power" in fault, about
    return "its end was lost with the power"


def _end(job: dict[str, Any]) -> str:
    conditions = (job.get("status") or {}).get("conditions") or ()
    held = [each["type"] for each in conditions if each["status"] == "True"]
    found = [each for each in held if each in ("Complete", "Failed")]
    assert len(found) <= 1, conditions
    return found[0] if found else ""


@pytest.mark.slow
def test_jobs_of_a_fleet_outlive_random_faults(long_run: bool) -> None:
    with open_folder() as folder, ExitStack() as stack:
        chaos = Chaos(folder, stack)
        until = time.monotonic() + LIMIT_S
        for seed in range(SEED, SEED + (LONG if long_run else SHORT)):
            if time.monotonic() > until:
                break
            chaos.round(seed)
            print(f"seed {seed}: {dict(chaos.faults)}; again: {dict(chaos.again)}", flush=True)
        for machine in chaos.machines.values():
            assert "Traceback" not in (machine.state / "kuota.log").read_text()
