# SPDX-License-Identifier: Apache-2.0
"""Nodes among the manifests of a plan: pods are placed on them."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.engine.model import Reservation
from kuota.sim.nodes import UNPLACED
from kuota.sim.scenario import load_scenario
from kuota.sim.timeline import played
from manifests import cluster_queue, flavor, job, local_queue

TOPOLOGY: Json = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Topology",
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]},
}


def _flavor() -> Json:
    made = flavor()
    made["spec"] = {"nodeLabels": {"pool": "a"}, "topologyName": "racks"}
    return made


def _node(name: str, rack: str, gpus: int = 2) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"pool": "a", "rack": rack}},
        "status": {"capacity": {"nvidia.com/gpu": gpus, "cpu": "8", "pods": "10"}},
    }


def _gang(pods: int) -> Json:
    made = job("gang", "q", gpu=1)
    made["spec"] |= {"parallelism": pods, "completions": pods}
    annotations = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    made["spec"]["template"]["metadata"] = {"annotations": annotations}
    return made


def _pod(node: str) -> Json:
    resources = {"requests": {"nvidia.com/gpu": "1"}, "limits": {"nvidia.com/gpu": "1"}}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "i", "resources": resources}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "daemon", "namespace": "default"},
        "spec": spec,
    }


def _planned(*objects: Json) -> Reservation | None:
    scenario = load_scenario(
        [_flavor(), TOPOLOGY, cluster_queue("a", 8), local_queue("q", "a"), *objects]
    )
    assert () == scenario.invalid
    [submitted] = scenario.submissions
    return played(scenario).engine.state.workloads[submitted.workload.key].reservation


def test_a_gang_is_placed_in_a_rack_that_holds_it() -> None:
    held = _planned(_node("n1", "r1"), _node("n2", "r2"), _node("n3", "r2"), _gang(4))
    assert held is not None
    assert held.pod_sets[0].topology is not None


def test_a_gang_that_no_rack_holds_waits() -> None:
    assert _planned(_node("n1", "r1"), _node("n2", "r2"), _gang(4)) is None


def test_pods_that_run_on_a_node_use_it() -> None:
    assert _planned(_node("n1", "r1"), _gang(2)) is not None
    assert _planned(_node("n1", "r1"), _pod("n1"), _gang(2)) is None


def test_without_nodes_only_quota_counts_and_the_plan_says_so() -> None:
    held = _planned(_gang(4))
    assert held is not None
    assert held.pod_sets[0].topology is None
    assert UNPLACED in load_scenario([_flavor(), TOPOLOGY]).notes
    assert UNPLACED not in load_scenario([_flavor(), TOPOLOGY, _node("n", "r")]).notes
