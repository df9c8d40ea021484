# SPDX-License-Identifier: Apache-2.0
"""Queues report topology levels that no node has, and follow the labels of nodes."""

from __future__ import annotations

from control.objects import condition, flavor, local_queue, queue
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, NODES, TOPOLOGIES, Resource

TOPOLOGY: Json = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Topology",
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "host"}]},
}


def _node(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def _message(stage: Stage, resource: Resource, name: str) -> str:
    found = stage.api.find(resource, name)
    assert found is not None
    active = condition(found, "Active")
    assert ("True", "Ready") == (active["status"], active["reason"])
    return str(active["message"])


def test_a_queue_reports_levels_that_no_node_has_until_a_node_has_them() -> None:
    async def scene(stage: Stage) -> None:
        in_racks = flavor(nodeLabels={"pool": "a"}, topologyName="racks")
        await stage.api.apply(_node("one", host="one"), in_racks, TOPOLOGY)
        await stage.api.apply(queue("cq", 4), local_queue())
        await stage.rest(5)
        expected = (
            "Can admit new workloads, but no node has topology level rack of Topology racks; "
            "label the nodes"
        )
        assert expected == _message(stage, CLUSTER_QUEUES, "cq")
        assert expected == _message(stage, LOCAL_QUEUES, "main")
        await stage.api.apply(_node("two", host="two", rack="r1"))
        await stage.rest(5)
        assert "Can admit new workloads" == _message(stage, CLUSTER_QUEUES, "cq")
        assert "Can admit new workloads" == _message(stage, LOCAL_QUEUES, "main")
        await stage.api.delete(NODES, Key("", "two"))
        await stage.rest(5)
        assert expected == _message(stage, CLUSTER_QUEUES, "cq")

    run_scene(scene)


def test_nodes_are_not_watched_without_a_topology() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(_node("one"))
        await stage.furnish()
        await stage.rest(5)
        assert stage.system.node_labels() is None
        await stage.api.apply(TOPOLOGY)
        await stage.rest(5)
        assert frozenset() == stage.system.node_labels()
        await stage.api.delete(TOPOLOGIES, Key("", "racks"))
        await stage.rest(5)
        assert "Can admit new workloads" == _message(stage, CLUSTER_QUEUES, "cq")

    run_scene(scene)
