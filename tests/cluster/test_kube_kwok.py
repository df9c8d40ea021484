# SPDX-License-Identifier: Apache-2.0
"""A gang on hundreds of nodes that KWOK runs: placed in a rack, given another node, preempted.

Scheduler and node lifecycle controller are the real ones. KWOK sends the heartbeats of the nodes
and runs their pods, so a node that KWOK no longer runs is lost as a real one is.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from cluster.kube_server import KubeServer, programs
from cluster.kubelet import NODE
from cluster.operators import KWOK_LEASE_S, running
from cluster.stage import Stage, StageRunner
from control.objects import flavor, job, local_queue, queue, workload_class
from kuota.api.base import Json, Key
from kuota.api.topology_codec import HOSTNAME, expand
from kuota.api.workload import TopologyAssignment
from kuota.kube.requests import PatchType
from kuota.kube.resources import NODES, PODS, TOPOLOGIES, key_of

RACKS, NODES_PER_RACK, CPUS = 50, 4, 2
INDEX = "batch.kubernetes.io/job-completion-index"
KWOK = {"test/kwok": "true"}
"""The label of nodes that KWOK runs."""
HIGH = {"kueue.x-k8s.io/priority-class": "high"}
TOPOLOGY: Json = {
    "apiVersion": TOPOLOGIES.api_version,
    "kind": TOPOLOGIES.kind,
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": "test/rack"}, {"nodeLabel": HOSTNAME}]},
}


def _name(stage: Stage, rack: int, number: int) -> str:
    return stage.names.own(f"node-{rack:03}-{number}")


def _node(stage: Stage, rack: int, number: int) -> Json:
    name = _name(stage, rack, number)
    labels = {"test/pool": stage.names.own("pool"), "test/rack": f"rack-{rack:03}", HOSTNAME: name}
    room = {"cpu": str(CPUS), "memory": "8Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels | KWOK},
        "status": {"capacity": room, "allocatable": room},
    }


async def _furnish(stage: Stage) -> None:
    places = [(rack, number) for rack in range(RACKS) for number in range(NODES_PER_RACK)]
    for first in range(0, len(places), 50):
        some = (_node(stage, *each) for each in places[first : first + 50])
        await asyncio.gather(*(stage.client.create(NODES, each) for each in some))
    on_racks = flavor(nodeLabels={"test/pool": stage.names.own("pool")}, topologyName="racks")
    cq = queue("cq", 10_000, preemption={"withinClusterQueue": "LowerPriority"})
    await stage.apply(TOPOLOGY, on_racks, cq, local_queue(), workload_class("high", 9))
    await stage.shows(len(places), _ready, stage)


def _ready(stage: Stage) -> int:
    own = stage.names.own("pool")
    labels = ((each, each["metadata"].get("labels") or {}) for each in stage.all(NODES))
    return sum(_is_ready(node) for node, of_node in labels if of_node.get("test/pool") == own)


def _is_ready(node: Json) -> bool:
    conditions = (node.get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _gang(name: str, pods: int, labels: dict[str, str] | None = None) -> Json:
    made = job(name, "1", parallelism=pods, completions=pods)
    annotations = {"kueue.x-k8s.io/podset-required-topology": "test/rack"}
    made["spec"]["template"]["metadata"] = {"annotations": annotations}
    made["spec"] |= {"completionMode": "Indexed", "backoffLimit": 100}
    made["metadata"]["labels"] |= labels or {}
    return made


def _where(stage: Stage, name: str) -> dict[int, str]:
    """The node of each rank that runs."""
    found = stage.pods(name, "Running")
    return {int(e["metadata"]["labels"][INDEX]): e["spec"]["nodeName"] for e in found}


def _assigned(stage: Stage, name: str) -> set[str]:
    [given] = stage.workload(name)["status"]["admission"]["podSetAssignments"]
    assignment = msgspec.convert(given["topologyAssignment"], TopologyAssignment)
    return {each.values[-1] for each in expand(assignment)}


async def _manage(stage: Stage, name: str, managed: bool) -> None:
    """Let KWOK run a node, or stop it."""
    value = {key: each if managed else None for key, each in KWOK.items()}
    body = {"metadata": {"labels": value}}
    await stage.client.patch(NODES, Key("", name), body, kind=PatchType.MERGE)


async def _told(stage: Stage) -> None:
    await _furnish(stage)
    await stage.apply(_gang("train", 6))
    nodes = [_name(stage, 0, number) for number in (0, 0, 1, 1, 2, 2)]
    await stage.shows(dict(enumerate(nodes)), _where, stage, "train")
    # The heartbeats of a node stop. Kubernetes notices it, and its pods are deleted.
    lost = _name(stage, 0, 1)
    await _manage(stage, lost, False)
    await stage.shows(RACKS * NODES_PER_RACK - 1, _ready, stage)
    assert {*nodes} == _assigned(stage, "train")
    for pod in stage.pods("train", "Running"):
        if pod["spec"]["nodeName"] == lost:
            await stage.client.delete(PODS, key_of(pod), grace_s=0)
    # The free node of the rack replaces it.
    rest = {_name(stage, 0, number) for number in (0, 2, 3)}
    await stage.shows(rest, _assigned, stage, "train")
    await stage.shows(dict.fromkeys(rest, 2), lambda: Counter(_where(stage, "train").values()))
    assert "" == stage.says("train", "Evicted")
    # Quota is left, but a gang with a higher priority can use only this rack.
    urgent = _gang("urgent", 4, HIGH)
    urgent["spec"]["template"]["spec"]["nodeSelector"] = {"test/rack": "rack-000"}
    await stage.apply(urgent)
    await stage.shows("True/Preempted", stage.says, "train", "Evicted")
    await stage.shows(4, lambda: len(_where(stage, "urgent")))
    assert set(_where(stage, "urgent").values()) < rest
    # The other one starts again in another rack.
    await stage.shows(6, lambda: len(_where(stage, "train")))
    assert not set(_where(stage, "train").values()) & rest


@asynccontextmanager
async def _node_lifecycle(kube: KubeServer, folder: Path) -> AsyncIterator[None]:
    """Run the controller of Kubernetes that notices missing heartbeats."""
    with (folder / "lifecycle.log").open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            str(programs()["kube-controller-manager"]),
            "--controllers=node-lifecycle-controller",
            f"--node-monitor-grace-period={KWOK_LEASE_S}s",
            "--node-monitor-period=1s",
            f"--kubeconfig={kube.kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            stdout=output,
            stderr=output,
        )
    try:
        yield
    finally:
        process.kill()
        await process.wait()


async def _clear(stage: Stage) -> None:
    await _manage(stage, NODE, False)
    selector = f"test/pool={stage.names.own('pool')}"
    found = await stage.client.list(NODES, label_selector=selector)
    await asyncio.gather(*(stage.client.delete(NODES, key_of(each)) for each in found.items))


def test_a_gang_on_nodes_of_kwok_is_placed_given_another_node_and_preempted(
    on_stage: StageRunner, kube: KubeServer, tmp_path: Path
) -> None:
    async def scene(stage: Stage) -> None:
        stage.kubelet.runs = False
        stage.follow(NODES)
        stage.follow(TOPOLOGIES)
        await _manage(stage, NODE, True)
        async with running("kwok", kube, tmp_path) as kwok, _node_lifecycle(kube, tmp_path):
            stage.require(kwok)
            try:
                await _told(stage)
            finally:
                await _clear(stage)

    kube.run("kube-scheduler")
    try:
        on_stage(scene)
    finally:
        kube.stop("kube-scheduler")
