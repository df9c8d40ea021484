# SPDX-License-Identifier: Apache-2.0
"""A fleet of three real control planes, of which some are killed or stopped at random under load.

A round submits Jobs and lets one fault happen: the manager or a worker is killed, a worker loses
power with all its processes, is stopped for a while as by a broken network, or two of these
together. Afterwards every Job has completed once, as its owner sees it. `--long` plays 200 rounds;
`KUOTA_CHAOS_SEED` selects the first one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from hang import HANG_S
from up.lab import job, queues
from up.machine import Machine, open_folder
from up.test_fleet import DISPATCHED, FLEET

SEED = int(os.environ.get("KUOTA_CHAOS_SEED", "1"))
SHORT, LONG = 2, 200
WORKERS = ("lab-1", "lab-2")
GPUS, WAVE = 2, 6
CONFIG = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
multiKueue: {workerLostTimeout: 5s, gcInterval: 2s}
"""
FAULTS = ("manager", "worker", "power", "stopped", "manager and worker", "manager and power")


class Chaos:
    """The fleet, and what is done to it."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self.faults: Counter[str] = Counter()
        self.twice = 0
        """Jobs that ended a second time in a worker which had been given up."""
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
            job(name, f"{work}; echo {name} >> {self._notes}", retries=0)
            for name, work in zip(names, works, strict=True)
        ]
        self.manager.kubectl("create", "-f", "-", stdin="---\n".join(jobs))
        time.sleep(chance.uniform(0.0, 3.0))
        fault, worker = chance.choice(FAULTS), chance.choice(WORKERS)
        self.faults[fault] += 1
        self._strike(fault, worker, chance)
        self._settle(names, f"seed {seed}: {fault} of {worker}")
        self._check(names, fault)
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

    def _check(self, names: list[str], fault: str) -> None:
        """Every Job has completed, and nothing is left in any worker."""
        done = Counter(self._notes.read_text().split())
        for name in names:
            assert done[name] >= 1, f"{name} is complete and has not run"
        again = [name for name in names if done[name] > 1]
        assert not again or fault != "manager", f"{again} ran again"
        self.twice += len(again)
        until = time.monotonic() + HANG_S
        while any(self._left(name) for name in WORKERS):
            assert time.monotonic() < until, "copies are left in the workers"
            time.sleep(0.2)
        self.manager.wait("clusterqueue/lab", "jsonpath={.status.reservingWorkloads}=0")

    def _left(self, worker: str) -> list[Any]:
        return list(self.machines[worker].get("workloads,jobs")["items"])


def _end(job: dict[str, Any]) -> str:
    conditions = (job.get("status") or {}).get("conditions") or ()
    held = [each["type"] for each in conditions if each["status"] == "True"]
    found = [each for each in held if each in ("Complete", "Failed")]
    assert len(found) <= 1, conditions
    return found[0] if found else ""


def cut_power(machine: Machine) -> None:
    """Kill the control plane and everything that it runs, with SIGKILL."""
    doomed = [pid for pid in _pids() if _names(pid, str(machine.state).encode())]
    machine.kill()
    for pid in doomed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _pids() -> Iterator[int]:
    return (int(path.name) for path in Path("/proc").glob("[0-9]*"))


def _names(pid: int, folder: bytes) -> bool:
    """Whether a process was started with the folder in its arguments or its environment."""
    with suppress(OSError):
        texts = [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ")]
        return any(folder + b"/" in text or folder + b"\0" in text for text in texts)
    return False


@pytest.mark.slow
def test_jobs_of_a_fleet_outlive_random_faults(long_run: bool) -> None:
    with open_folder() as folder, ExitStack() as stack:
        chaos = Chaos(folder, stack)
        for seed in range(SEED, SEED + (LONG if long_run else SHORT)):
            chaos.round(seed)
            print(f"seed {seed}: {dict(chaos.faults)}; again: {chaos.twice}", flush=True)
        for machine in chaos.machines.values():
            assert "Traceback" not in (machine.state / "kuota.log").read_text()
