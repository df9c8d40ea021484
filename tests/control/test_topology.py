# SPDX-License-Identifier: Apache-2.0
"""Nodes, pods and Topologies reach the engine: gangs are placed, and wait while they cannot be."""

from __future__ import annotations

from control.objects import condition, local_queue, queue
from control.racks import FLAVOR, GATE, TOPOLOGY, furnish, gang, node, placement
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.kube.resources import CLUSTER_QUEUES, JOBS, NODES, PODS, RESOURCE_FLAVORS, TOPOLOGIES


def _pod(name: str, node: str, cpu: str, **annotations: str) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team", "annotations": annotations},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": "Running"},
    }


def test_a_gang_is_placed_in_one_rack_and_its_pods_are_gated() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, node("n1", "r1"), node("n2", "r2"), node("n3", "r2"))
        await stage.api.apply(gang("gang", 4))
        await stage.rest()
        assert ["n2", "n3"] == placement(stage, "gang")
        template = stage.job("gang")["spec"]["template"]
        assert [{"name": GATE}] == template["spec"]["schedulingGates"]
        assert "main" == template["metadata"]["labels"]["kueue.x-k8s.io/podset"]
        name = stage.workload("gang")["metadata"]["name"]
        assert name == template["metadata"]["annotations"]["kueue.x-k8s.io/workload"]

    run_scene(scene)


def test_a_gang_that_no_rack_holds_waits_with_the_reason_until_a_node_is_added() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, node("n1", "r1"), node("n2", "r2"))
        await stage.api.apply(gang("gang", 4))
        await stage.rest(5)
        reserved = stage.condition("gang", "QuotaReserved")
        assert "False" == reserved["status"]
        assert 'topology "racks" fits only 2 of 4 pods' in reserved["message"]
        await stage.api.apply(node("n3", "r2"))
        await stage.rest(5)
        assert ["n2", "n3"] == placement(stage, "gang")

    run_scene(scene)


def test_pods_that_no_topology_places_use_their_node_until_they_end() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, node("n1", "r1"))
        placed = {"kueue.x-k8s.io/podset-unconstrained-topology": "true"}
        await stage.api.apply(_pod("daemon", "n1", "1"), _pod("placed", "n1", "1", **placed))
        await stage.api.apply(gang("gang", 2))
        await stage.rest(5)
        assert placement(stage, "gang") is None
        await stage.api.patch(
            PODS, Key("team", "daemon"), {"status": {"phase": "Succeeded"}}, subresource="status"
        )
        await stage.rest(15)
        assert ["n1"] == placement(stage, "gang")

    run_scene(scene)


def test_cordoned_and_unready_nodes_are_not_used() -> None:
    async def scene(stage: Stage) -> None:
        unready = node("n2", "r1")
        unready["status"]["conditions"][0]["status"] = "False"
        await furnish(stage, node("n1", "r1", unschedulable=True), unready, node("n3", "r2", 1))
        await stage.api.apply(gang("gang", 2))
        await stage.rest(5)
        assert placement(stage, "gang") is None
        await stage.api.patch(NODES, Key("", "n1"), {"spec": {"unschedulable": None}})
        await stage.rest(5)
        assert ["n1"] == placement(stage, "gang")

    run_scene(scene)


def test_a_queue_whose_topology_is_missing_is_inactive() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, node("n1", "r1"))
        await stage.rest(5)
        await stage.api.patch(TOPOLOGIES, Key("", "racks"), {"metadata": {"finalizers": None}})
        await stage.api.delete(TOPOLOGIES, Key("", "racks"))
        await stage.api.apply(gang("gang", 1))
        await stage.rest(5)
        active = condition(stage.get(CLUSTER_QUEUES, "cq"), "Active")
        assert ("False", "TopologyNotFound") == (active["status"], active["reason"])
        assert placement(stage, "gang") is None
        await stage.api.apply(TOPOLOGY)
        await stage.rest(5)
        assert ["n1"] == placement(stage, "gang")

    run_scene(scene)


def test_a_topology_is_kept_until_no_flavor_uses_it() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(TOPOLOGY, FLAVOR)
        await stage.rest(5)
        finalizers = stage.get(TOPOLOGIES, "racks")["metadata"]["finalizers"]
        assert ["kueue.x-k8s.io/resource-in-use"] == finalizers
        await stage.api.delete(TOPOLOGIES, Key("", "racks"))
        await stage.rest(5)
        assert stage.get(TOPOLOGIES, "racks")["metadata"]["deletionTimestamp"]
        await stage.api.delete(RESOURCE_FLAVORS, Key("", "default"))
        await stage.rest(5)
        assert stage.api.find(TOPOLOGIES, "racks") is None

    run_scene(scene)


def test_usage_counts_after_a_restart() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, node("n1", "r1"))
        await stage.api.apply(gang("first", 1))
        await stage.rest(5)
        await stage.restart()
        await stage.rest(5)
        await stage.api.apply(gang("second", 2), gang("third", 1))
        await stage.rest(5)
        assert placement(stage, "second") is None
        assert ["n1"] == placement(stage, "third")
        await stage.api.delete(JOBS, Key("team", "first"))
        await stage.api.delete(JOBS, Key("team", "third"))
        await stage.rest(15)
        assert ["n1"] == placement(stage, "second")

    run_scene(scene)


def test_heartbeats_of_nodes_are_not_facts() -> None:
    async def scene(stage: Stage) -> None:
        await furnish(stage, node("n1", "r1"))
        await stage.rest(5)
        applied: list[object] = []
        stage.system._node_facts._apply = applied.append
        beat = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2030-01-01T00:00:00Z"}]
        for conditions in (beat, [*beat, {"type": "DiskPressure", "status": "True"}]):
            patch = {"status": {"conditions": conditions}, "metadata": {"annotations": {"a": "b"}}}
            await stage.api.patch(NODES, Key("", "n1"), patch, subresource="status")
            await stage.rest(1)
        assert [] == applied
        await stage.api.apply(node("n1", "r1", 3))
        await stage.rest(1)
        assert 1 == len(applied)

    run_scene(scene)


def test_without_the_gate_nodes_are_not_watched() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(FLAVOR, queue("cq", 100), local_queue(), gang("gang", 4))
        await stage.rest(5)
        assert not stage.system.cache.nodes.needed
        assert not stage.system.cache.pods.needed

    run_scene(scene, gates={"TopologyAwareScheduling": False})
