# SPDX-License-Identifier: Apache-2.0
"""Gangs are placed on the racks of a cluster with many nodes."""

from __future__ import annotations

import asyncio
import os

import msgspec

from cluster.racks import HOST, TOPOLOGY, clear, gang, node, node_name
from cluster.stage import Stage, StageRunner
from control.objects import condition, flavor, local_queue, queue
from kuota.api.base import Json
from kuota.api.topology_codec import expand
from kuota.api.workload import TopologyAssignment
from kuota.kube.resources import PODS, TOPOLOGIES

RACKS = 100 if os.environ.get("KUOTA_KUBE") else 10
NODES_PER_RACK = 4


async def _furnish(stage: Stage) -> None:
    """A queue for racks of four nodes with two CPUs each."""
    places = [(rack, number) for rack in range(RACKS) for number in range(NODES_PER_RACK)]
    for first in range(0, len(places), 50):
        await asyncio.gather(*(node(stage, *each) for each in places[first : first + 50]))
    on_racks = flavor(nodeLabels={"test/pool": stage.names.own("pool")}, topologyName="racks")
    await stage.apply(TOPOLOGY, on_racks, queue("cq", 10_000), local_queue())


def _racks(stage: Stage, name: str) -> dict[str, int]:
    """Return how many pods of a job are placed in each rack."""
    [given] = stage.workload(name)["status"]["admission"]["podSetAssignments"]
    assignment = msgspec.convert(given["topologyAssignment"], TopologyAssignment)
    assert [HOST] == assignment.levels
    found: dict[str, int] = {}
    for each in expand(assignment):
        rack = each.values[-1].split("-")[1]
        found[rack] = found.get(rack, 0) + each.count
    return found


def _gates(stage: Stage, name: str) -> list[Json]:
    gates: list[Json] = stage.job(name)["spec"]["template"]["spec"]["schedulingGates"]
    return gates


def _message(stage: Stage, name: str) -> str:
    return str(condition(stage.workload(name), "QuotaReserved").get("message", ""))


async def _told(stage: Stage) -> None:
    stage.follow(TOPOLOGIES)
    try:
        await _furnish(stage)
        # A gang fills one rack, and the next one another.
        await stage.apply(gang("first", 8))
        await stage.shows({"000": 8}, _racks, stage, "first")
        await stage.apply(gang("second", 5))
        await stage.shows({"001": 5}, _racks, stage, "second")
        # No rack holds ten pods.
        await stage.apply(gang("large", 10))
        await stage.holds(lambda: "fits only 8 of 10 pods" in _message(stage, "large"))
        # A pod that no topology places takes the room that the third rack offers.
        await _bound_pod(stage, 2)
        await stage.apply(gang("third", 8))
        await stage.shows({"003": 8}, _racks, stage, "third")
        # Another node in the last rack makes room for the large gang.
        await node(stage, RACKS - 1, NODES_PER_RACK)
        await stage.shows({f"{RACKS - 1:03}": 10}, _racks, stage, "large")
        await stage.shows([{"name": "kueue.x-k8s.io/topology"}], _gates, stage, "large")
        finalizers = stage.get(TOPOLOGIES, "racks")["metadata"]["finalizers"]
        assert ["kueue.x-k8s.io/resource-in-use"] == finalizers
    finally:
        await clear(stage)


async def _bound_pod(stage: Stage, rack: int) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"nodeName": stage.names.own(node_name(rack, 0)), "containers": [container]}
    meta = {"name": "daemon", "namespace": stage.names.namespace}
    await stage.client.create(
        PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    )


def test_gangs_are_placed_in_one_rack_each_or_wait(on_stage: StageRunner) -> None:
    on_stage(_told)
