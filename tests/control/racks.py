# SPDX-License-Identifier: Apache-2.0
"""Nodes in racks, a Topology of them, and gangs that need one rack."""

from __future__ import annotations

from typing import Any

from control.objects import flavor, job, local_queue, queue
from control.stage import Stage
from kuota.api.base import Json

HOST = "kubernetes.io/hostname"
GATE = "kueue.x-k8s.io/topology"
TOPOLOGY: Json = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Topology",
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": HOST}]},
}
FLAVOR = flavor(nodeLabels={"pool": "a"}, topologyName="racks")


def node(name: str, rack: str, cpu: int = 2, **spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"pool": "a", "rack": rack, HOST: name}},
        "spec": spec,
        "status": {
            "allocatable": {"cpu": str(cpu), "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def gang(name: str, pods: int, cpu: str = "1") -> Json:
    made = job(name, cpu, parallelism=pods, completions=pods)
    annotations = {"kueue.x-k8s.io/podset-required-topology": "rack"}
    made["spec"]["template"]["metadata"] = {"annotations": annotations}
    return made


def placement(stage: Stage, name: str) -> list[str] | None:
    """Return the hostnames that a job was assigned, or None while it waits."""
    admission = (stage.workload(name).get("status") or {}).get("admission")
    if admission is None:
        return None
    [assigned] = admission["podSetAssignments"]
    [part] = assigned["topologyAssignment"]["slices"]
    [values] = part["valuesPerLevel"]
    if "universal" in values:
        return [values["universal"]]
    found = values["individual"]
    return [found.get("prefix", "") + root + found.get("suffix", "") for root in found["roots"]]


async def furnish(stage: Stage, *nodes: Json) -> None:
    await stage.api.apply(*nodes, TOPOLOGY, FLAVOR, queue("cq", 100), local_queue())
