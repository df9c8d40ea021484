# SPDX-License-Identifier: Apache-2.0
"""Processes are bound to the CPUs of their node, also after restarts."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kuota.api.base import Json
from kuota.kube.resources import PODS
from kuota.runner.cgroups import Cgroups
from kuota.runner.domain_nodes import domain_nodes
from kuota.runner.host_topology import host_topology
from kuota.runner.inventory import Machine, pretended
from kuota.runner.machine_layout import simulated
from kuota.runner.nodes import NodePlan
from runner.machine import GI, World, container, gpus, pod, story

ALLOWED = sorted(os.sched_getaffinity(0))
SHOW = "grep Cpus_allowed_list /proc/self/status; echo gpus=$CUDA_VISIBLE_DEVICES."


def domains() -> list[NodePlan]:
    """This machine as two simulated domains with two GPUs each."""
    machine = Machine(1000 * len(ALLOWED), 8 * GI, GI, pretended(4))
    host = host_topology({}, machine.gpus.cards, ALLOWED, machine.memory_bytes)
    return domain_nodes("here", machine, simulated({"numa": 2}, host, machine.gpus.cards))


def on(number: int, name: str, script: str, **spec: object) -> Json:
    place = {"kuota.dev/numa": str(number)}
    return pod(name, container(script, resources=gpus(1)), nodeSelector=place, **spec)


def allowed(log: str) -> set[int]:
    """The CPUs in the first line that shows them."""
    text = next(each for each in log.splitlines() if each.startswith("Cpus_allowed_list"))
    found: set[int] = set()
    for part in text.split(":")[1].strip().split(","):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def runs_again(obj: Json) -> bool:
    (status,) = obj["status"]["containerStatuses"]
    return status["restartCount"] == 1 and "running" in status["state"]


needs_two = pytest.mark.skipif(len(ALLOWED) < 2, reason="needs two CPUs")


@needs_two
def test_processes_run_on_the_cpus_and_gpus_of_their_node(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        for number in (0, 1):
            await world.submit(on(number, f"p{number}", SHOW))
        for number, plan in enumerate(domains()):
            await world.phase(f"p{number}", "Succeeded")
            log = await world.log(f"p{number}")
            assert set(plan.cpus) == allowed(log) < set(ALLOWED)
            assert f"gpus=GPU-pretend-{2 * number}." in log

    story(tmp_path, body, domains())


@needs_two
def test_a_container_that_starts_again_after_a_restart_is_bound_again(tmp_path: Path) -> None:
    async def body(world: World) -> None:
        script = f"{SHOW}; while [ ! -e go ]; do sleep 0.05; done; rm go; exit 1"
        await world.submit(on(1, "p", script, restartPolicy="Always"))
        await world.phase("p", "Running")
        await world.line("p", "gpus=")
        before = allowed(await world.log("p"))
        await world.stop()
        world.start()
        home = await world.home("p")
        Path(home.root, "go").touch()
        await world.until(PODS, "p", runs_again)
        await world.line("p", "gpus=")
        assert set(domains()[1].cpus) == before == allowed(await world.log("p"))

    story(tmp_path, body, domains())


def test_a_node_whose_cpus_this_process_may_not_use_is_reported(tmp_path: Path) -> None:
    plans = [NodePlan(each.node, each.devices, (ALLOWED[-1] + 1000,)) for each in domains()]

    async def body(world: World) -> None:
        await world.submit(on(0, "p", SHOW))
        done = await world.phase("p", "Succeeded")
        assert set(ALLOWED) == allowed(await world.log("p"))
        assert "not bound to CPUs: Kuota may not use those of node here-numa-0" in str(done)

    story(tmp_path, body, plans)


def test_cgroups_enforce_the_choice_of_cpus_if_they_can(tmp_path: Path) -> None:
    groups = Cgroups(root=str(tmp_path), controllers=("cpu", "cpuset"))
    path = Path(groups.create("uid", "main", {}, cpus=(0, 2, 3)))
    assert "0,2,3" == (path / "cpuset.cpus").read_text()
    unbound = Path(groups.create("other", "main", {}))
    assert not (unbound / "cpuset.cpus").exists()
    without = Cgroups(root=str(tmp_path), controllers=("cpu",))
    assert not (Path(without.create("third", "main", {}, cpus=(0,))) / "cpuset.cpus").exists()
