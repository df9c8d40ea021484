# SPDX-License-Identifier: Apache-2.0
"""Topologies and nodes with their contents, and devices with their holders."""

from __future__ import annotations

import msgspec

from control.objects import flavor
from dashboard.test_visible import MINE, SECRET, World, _pod, _workload
from kuota.api.base import Json, Key
from kuota.dashboard.models.nodes import nodes_model
from kuota.dashboard.models.topology import topology_model
from kuota.dashboard.shapes import NodeAmounts, Ref
from kuota.view.devices import DeviceRow
from kuota.view.observed import ObservedState


def _cpu(amounts: list[NodeAmounts]) -> tuple[str, str, str, int]:
    (found,) = [each for each in amounts if each.resource == "cpu"]
    return found.allocatable.text, found.used.text, found.free.text, found.used_percent


def test_domains_show_capacity_usage_and_the_workloads_in_them() -> None:
    world = World([(False, "admitted", 0, True), (False, "pending", 0, False)])
    (found,) = topology_model(world.observed).flavors
    assert ("default", "t", 2) == (found.flavor, found.topology, found.nodes)
    (rack,) = found.domains
    assert ("r1", "cloud.com/rack", 2, 1) == (rack.name, rack.level, rack.nodes, rack.pods)
    empty, used = rack.children
    assert (["n0", "n1"], [0, 1]) == ([empty.name, used.name], [empty.pods, used.pods])
    (content,) = used.contents
    assert ("mine-w0", "Job", "mine-job0", 1) == (
        *(content.workload.name, content.kind),
        *(content.job, content.pods),
    )
    (cpu,) = [each for each in used.resources if each.resource == "cpu"]
    assert ("8", 8.0, "1") == (cpu.total.text, cpu.total.value, cpu.placed.text)


def test_nodes_show_requests_contents_and_devices() -> None:
    world = World([(False, "admitted", 0, False)])
    first, second = nodes_model(world.observed, world.devices).nodes
    assert ("n0", "", ["default"], ["r1", "n0"]) == (
        *(first.name, first.unusable),
        *(first.flavors, first.domain),
    )
    assert ("8", "1", "7", 12) == _cpu(first.resources)
    assert ("8", "0", "8", 0) == _cpu(second.resources)
    (content,) = first.contents
    assert ("Workload", "mine-w0", "Job/mine-job0", 1) == (
        *(content.owner.kind, content.owner.name),
        *(content.job, content.pods),
    )
    (device,) = first.devices
    assert device.holder is not None
    assert device.workload is not None
    assert ("mine-w0-pod", "mine-w0") == (device.holder.name, device.workload.name)
    world.observed.drop("Pod", Key(MINE, "mine-w0-pod"))
    assert ("8", "0", "8", 0) == _cpu(nodes_model(world.observed).nodes[0].resources)


def test_an_idle_device_says_since_when_and_names_its_workload() -> None:
    row = DeviceRow("n", "gpu", "d", held=True, namespace=MINE, pod="gone", workload="w")
    idle = msgspec.structs.replace(row, idle_since="2026-01-01T00:00:00Z")
    (node,) = nodes_model(ObservedState(), [idle]).nodes
    (device,) = node.devices
    assert ("2026-01-01T00:00:00Z", Ref(kind="Workload", name="w", namespace=MINE)) == (
        device.idle_since,
        device.workload,
    )


def test_a_device_of_an_unknown_node_is_still_shown() -> None:
    (node,) = nodes_model(ObservedState(), [DeviceRow("n", "gpu", "d")], "no nodes").nodes
    assert ("n", ["d"], False) == (
        *(node.name, [each.id for each in node.devices]),
        node.devices[0].held,
    )


def test_nodes_that_take_no_pods_say_why() -> None:
    def node(name: str, ready: str, **spec: object) -> Json:
        status = {"conditions": [{"type": "Ready", "status": ready}], "allocatable": {"cpu": "1"}}
        return {"kind": "Node", "metadata": {"name": name}, "spec": spec, "status": status}

    observed = ObservedState.of(
        [flavor(), node("a", "False"), node("b", "True", unschedulable=True), node("c", "True")]
    )
    assert [("a", "is not ready"), ("b", "is cordoned"), ("c", "")] == [
        (each.name, each.unusable) for each in nodes_model(observed).nodes
    ]


def test_a_pod_belongs_to_the_workload_that_it_names_or_to_the_current_one_of_its_job() -> None:
    old, new = (_workload(MINE, each, "admitted", "", "n0") for each in (0, 1))
    new["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]
    new["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    pod = _pod(old, "n0")
    observed = ObservedState.of([new, old, pod])
    assert new == observed.workload_of_pod(pod)
    finished = {"type": "Finished", "status": "True"}
    observed.put(new | {"status": {"conditions": [finished]}})
    assert old == observed.workload_of_pod(pod)
    named = {"annotations": {"kueue.x-k8s.io/workload": f"{MINE}-w1"}}
    found = observed.workload_of_pod(pod | {"metadata": pod["metadata"] | named})
    assert found is not None
    assert f"{MINE}-w1" == found["metadata"]["name"]


def test_an_invented_owner_in_another_namespace_connects_nothing() -> None:
    workload = _workload(SECRET, 0, "admitted", "", "n0")
    pod = _pod(workload, "n0")
    pod["metadata"]["namespace"] = MINE
    pod["status"]["phase"] = "Failed"
    observed = ObservedState.of([workload])
    assert frozenset() == observed.put(pod)
    assert observed.workload_of_pod(pod) is None
    assert [] == observed.pods_of(workload)
    assert [] == observed.failed_pods(workload)
