# SPDX-License-Identifier: Apache-2.0
"""The life of a gang in one rack: sent there by rank, given another node, preempted."""

from __future__ import annotations

from collections import Counter

from cluster.racks import TOPOLOGY, clear, gang, node, node_name
from cluster.stage import Stage, StageRunner
from control.objects import flavor, local_queue, queue, workload_class
from kuota.api.base import Json, Key
from kuota.kube.resources import NODES, TOPOLOGIES

INDEX = "batch.kubernetes.io/job-completion-index"
HIGH = {"kueue.x-k8s.io/priority-class": "high"}


async def _furnish(stage: Stage) -> None:
    """A rack of four nodes with two CPUs each, and a rack of one."""
    for rack, number in ((0, 0), (0, 1), (0, 2), (0, 3), (1, 0)):
        await node(stage, rack, number)
    on_racks = flavor(nodeLabels={"test/pool": stage.names.own("pool")}, topologyName="racks")
    preemption = {"withinClusterQueue": "LowerPriority"}
    cq = queue("cq", 100, preemption=preemption)
    await stage.apply(TOPOLOGY, on_racks, cq, local_queue(), workload_class("high", 9))


def _indexed(name: str, pods: int, labels: dict[str, str] | None = None) -> Json:
    made = gang(name, pods)
    made["spec"] |= {"completionMode": "Indexed", "backoffLimit": 100}
    made["metadata"]["labels"] |= labels or {}
    return made


def _where(stage: Stage, name: str) -> dict[int, str]:
    """The node of each rank that runs."""
    found = stage.pods(name, "Running")
    return {int(e["metadata"]["labels"][INDEX]): e["spec"]["nodeName"] for e in found}


def _on(stage: Stage, *numbers: int) -> dict[int, str]:
    """Two ranks on each of these nodes of the large rack."""
    nodes = [stage.names.own(node_name(0, number)) for number in numbers for _ in range(2)]
    return dict(enumerate(nodes))


async def _lose(stage: Stage, number: int) -> None:
    """Delete a node, and let the pods on it fail, as Kubernetes does."""
    name = stage.names.own(node_name(0, number))
    await stage.client.delete(NODES, Key("", name))
    lost = [each for each in stage.pods("train", "Running") if each["spec"]["nodeName"] == name]
    await stage.kubelet.end(lost, "Failed")


async def _told(stage: Stage) -> None:
    stage.follow(TOPOLOGIES)
    try:
        await _furnish(stage)
        await stage.apply(_indexed("train", 6))
        await stage.shows(_on(stage, 0, 1, 2), _where, stage, "train")
        await _lose(stage, 1)
        # The free node of the rack replaces it, and the ranks that it had run there.
        nodes = {stage.names.own(node_name(0, number)) for number in (0, 2, 3)}
        await stage.shows(dict.fromkeys(nodes, 2), lambda: Counter(_where(stage, "train").values()))
        assert not stage.workload("train")["status"].get("unhealthyNodes")
        assert "" == stage.says("train", "Evicted")
        # Quota is left, but no rack has room for four pods.
        await stage.apply(_indexed("urgent", 4, HIGH))
        await stage.shows("True/Preempted", stage.says, "train", "Evicted")
        await stage.shows(4, lambda: len(_where(stage, "urgent")))
        assert set(_where(stage, "urgent").values()) < nodes
        assert stage.suspended("train")
    finally:
        await clear(stage)


def test_a_gang_is_sent_by_rank_given_another_node_and_preempted(on_stage: StageRunner) -> None:
    on_stage(_told)
