# SPDX-License-Identifier: Apache-2.0
"""One machine that is divided into domains: placement, preemption and binding within it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kuota.api.base import Json, Key
from kuota.cli.main import main
from kuota.kube.client import Client
from kuota.kube.clock import SystemClock
from kuota.kube.requests import PatchType
from kuota.kube.resources import RESOURCE_FLAVORS, TOPOLOGIES
from kuota.up.machine_nodes import publish
from runner.embedded import cluster
from up.lab import job, queues
from up.machine import Machine, running

GROUP = "kuota.dev/nvlink-group"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
OPTIONS = ("--gpus", "4", "--simulate-topology", "nvlink-group=2")
HOLD = "echo gpus=$CUDA_VISIBLE_DEVICES; exec sleep 600"
FLAVOR = "metadata: {name: default}"


def placed_queues(gpus: int) -> str:
    spec = "spec: {topologyName: machine, nodeLabels: {kubernetes.io/os: linux}}"
    return queues(gpus).replace(FLAVOR, f"{FLAVOR}\n{spec}")


def in_one_group(name: str, gpus: int, *, urgent: bool = False) -> str:
    manifest = json.loads(job(name, HOLD, gpus, urgent=urgent))
    manifest["spec"]["template"]["metadata"] = {"annotations": {REQUIRED: GROUP}}
    return json.dumps(manifest) + "\n"


def in_group(number: int, name: str) -> str:
    manifest = json.loads(job(name, HOLD, 1))
    manifest["spec"]["template"]["spec"]["nodeSelector"] = {GROUP: str(number)}
    return json.dumps(manifest) + "\n"


def node(machine: Machine, name: str) -> Json:
    """The Node of the only pod of a Job."""
    (pod,) = machine.get("pods", "-l", f"job-name={name}")["items"]
    found: Json = machine.get("node", pod["spec"]["nodeName"])
    return found


def cpus(machine: Machine, name: str) -> str:
    """The CPUs that a process of the Job may use, as the kernel shows them."""
    show = ("grep", "Cpus_allowed_list", "/proc/self/status")
    return machine.kubectl("exec", f"job/{name}", "--", *show).split()[-1]


@pytest.mark.slow
def test_two_gpus_of_one_nvlink_group_are_awaited_freed_and_kept() -> None:
    with running(*OPTIONS) as machine:
        machine.apply(placed_queues(4), in_group(0, "a"), in_group(1, "b"))
        machine.started("a")
        machine.started("b")
        # Two GPUs are free, but in two groups.
        machine.apply(in_one_group("pair", 2))
        reason = 'fits none of 1 pod in one domain of level "kuota.dev/nvlink-group"'
        with machine.following("get", "workloads", "-w", "-o", "json") as lines:
            next(each for each in lines if reason in each.replace("\\", ""))
        said = " ".join(machine.kuota("describe", "job", "pair").split())
        assert reason in said
        machine.apply(in_one_group("urgent", 2, urgent=True))
        machine.started("urgent")
        states = [machine.get("job", name)["status"].get("ready", 0) for name in ("a", "b", "pair")]
        assert [0, 1] == sorted(states[:2])
        assert 0 == states[2]
        group = node(machine, "urgent")["metadata"]["labels"][GROUP]
        pretended = f"GPU-pretend-{2 * int(group)},GPU-pretend-{2 * int(group) + 1}"
        assert f"gpus={pretended}\n" == machine.kubectl("logs", "job/urgent")
        bound = cpus(machine, "urgent")
        machine.kill()
        machine.up(*OPTIONS)
        machine.started("urgent")
        assert bound == cpus(machine, "urgent")
        assert group == node(machine, "urgent")["metadata"]["labels"][GROUP]
        rows = json.loads(machine.kuota("gpus", "-o", "json"))["items"]
        held = {each["id"] for each in rows if each.get("job") == "Job/urgent"}
        assert set(pretended.split(",")) == held
        assert GROUP in machine.kuota("topology", "urgent")


def topology(*labels: str) -> Json:
    levels = [{"nodeLabel": each} for each in labels]
    api = {"apiVersion": TOPOLOGIES.api_version, "kind": TOPOLOGIES.kind}
    return api | {"metadata": {"name": "machine"}, "spec": {"levels": levels}}


def flavor(name: str) -> Json:
    api = {"apiVersion": RESOURCE_FLAVORS.api_version, "kind": RESOURCE_FLAVORS.kind}
    spec = {"topologyName": "machine", "nodeLabels": {"kubernetes.io/os": "linux"}}
    return api | {"metadata": {"name": name}, "spec": spec}


async def levels(client: Client) -> list[str]:
    found = await client.get(TOPOLOGIES, Key("", "machine"))
    return [each["nodeLabel"] for each in found["spec"]["levels"]]


def test_the_topology_follows_the_machine_unless_a_flavor_uses_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    one, other = topology("a.dev/x"), topology("b.dev/y", "a.dev/x")

    async def story() -> None:
        async with cluster() as server:
            client = server.client
            for wanted in (one, one, other):
                await publish(client, wanted, SystemClock())
                expected = [each["nodeLabel"] for each in wanted["spec"]["levels"]]
                assert expected == await levels(client)
            await client.create(RESOURCE_FLAVORS, flavor("gpu"))
            await publish(client, one, SystemClock())
            assert ["b.dev/y", "a.dev/x"] == await levels(client)

    asyncio.run(story())
    assert "levels b.dev/y > a.dev/x, but this machine is divided by a.dev/x" in caplog.text
    assert "these flavors use it: gpu" in caplog.text


def test_the_topology_is_replaced_once_its_finalizer_is_removed() -> None:
    async def story() -> None:
        async with cluster() as server:
            client = server.client
            held = topology("a.dev/x")
            held["metadata"]["finalizers"] = ["kueue.x-k8s.io/resource-in-use"]
            await client.create(TOPOLOGIES, held)
            task = asyncio.create_task(publish(client, topology("b.dev/y"), SystemClock()))
            await server.until(
                TOPOLOGIES, "machine", lambda obj: obj["metadata"].get("deletionTimestamp")
            )
            free = {"metadata": {"finalizers": None}}
            await client.patch(TOPOLOGIES, Key("", "machine"), free, kind=PatchType.MERGE)
            await task
            assert ["b.dev/y"] == await levels(client)

    asyncio.run(story())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--simulate-topology", "rack=2"], "'rack=2' is not LEVEL=NUMBER"),
        (["--simulate-topology", "numa=0,socket"], "'0' is not a number of domains"),
        (["--topology", "rack"], "'rack' is not one of"),
        (
            ["--topology", "numa", "--simulate-topology", "numa=2"],
            "--topology and --simulate-topology exclude each other",
        ),
    ],
)
def test_invalid_options_are_rejected_before_anything_starts(
    options: list[str], words: str, tmp_path: Path
) -> None:
    for more in ([], ["--detach"]):
        state = tmp_path / "state"
        result = CliRunner().invoke(main, ["up", "--state", str(state), *options, *more])
        assert 2 == result.exit_code
        assert words in result.output
        assert not state.exists()


def test_a_level_that_this_machine_does_not_have_is_named(tmp_path: Path) -> None:
    options = ["--state", str(tmp_path / "state"), "--gpus", "2", "--topology", "nvlink-group"]
    result = CliRunner().invoke(main, ["up", "--allow-root", *options])
    assert 1 == result.exit_code
    assert "--topology nvlink-group: this machine cannot be divided" in result.output
