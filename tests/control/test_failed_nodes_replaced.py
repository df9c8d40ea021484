# SPDX-License-Identifier: Apache-2.0
"""Workloads that lose a node: the engine replaces it in a second pass, or evicts the workload."""

from __future__ import annotations

from control.objects import job, local_queue, queue
from control.racks import FLAVOR, TOPOLOGY, node, placement
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.kube.errors import ServerError
from kuota.kube.resources import NODES


def _gang(name: str, pods: int) -> Json:
    made = job(name, "2", parallelism=pods, completions=pods)
    annotations = {"kueue.x-k8s.io/podset-preferred-topology": "rack"}
    made["spec"]["template"]["metadata"] = {"annotations": annotations}
    return made


async def _running(stage: Stage, *nodes: Json) -> None:
    """Let a gang run on the nodes n1 and n2."""
    await stage.api.apply(*nodes, TOPOLOGY, FLAVOR, queue("cq", 100), local_queue())
    await stage.api.apply(_gang("gang", 2))
    await stage.rest(5)
    assert ["n1", "n2"] == placement(stage, "gang")


def test_a_lost_node_is_replaced_while_the_workload_keeps_its_quota() -> None:
    async def scene(stage: Stage) -> None:
        await _running(stage, node("n1", "r1"), node("n2", "r1"), node("n3", "r2"))
        reserved = stage.condition("gang", "QuotaReserved")["lastTransitionTime"]
        await stage.api.delete(NODES, Key("", "n1"))
        await stage.rest(10)
        assert ["n2", "n3"] == placement(stage, "gang")
        assert not stage.workload("gang")["status"].get("unhealthyNodes")
        assert reserved == stage.condition("gang", "QuotaReserved")["lastTransitionTime"]
        assert "True/Admitted" == stage.says("gang", "Admitted")
        assert not stage.suspended("gang")

    run_scene(scene)


def test_a_workload_that_lost_a_node_without_a_replacement_is_evicted_and_waits() -> None:
    async def scene(stage: Stage) -> None:
        await _running(stage, node("n1", "r1"), node("n2", "r1"))
        await stage.api.delete(NODES, Key("", "n1"))
        await stage.rest(30)
        assert placement(stage, "gang") is None
        name = stage.workload("gang")["metadata"]["name"]
        assert "EvictedDueToNodeFailures" in stage.events("Workload", name)
        assert stage.suspended("gang")
        await stage.api.apply(node("n3", "r2"))
        await stage.rest(30)
        assert ["n2", "n3"] == placement(stage, "gang")

    run_scene(scene)


def test_a_replacement_whose_write_fails_is_written_later() -> None:
    async def scene(stage: Stage) -> None:
        await _running(stage, node("n1", "r1"), node("n2", "r1"), node("n3", "r2"))
        stage.api.refuse["status", "Workload"] = [
            ServerError(500, "InternalError", "out of order") for _ in range(6)
        ]
        await stage.api.delete(NODES, Key("", "n1"))
        await stage.rest(120)
        assert ["n2", "n3"] == placement(stage, "gang")
        assert not stage.workload("gang")["status"].get("unhealthyNodes")

    run_scene(scene)
