# SPDX-License-Identifier: Apache-2.0
"""Nodes in racks that belong to one story, a Topology of them, and gangs that need one rack."""

from __future__ import annotations

import asyncio

from cluster.stage import Stage
from control.objects import job
from kuota.api.base import Json, Key
from kuota.kube.resources import NODES

HOST = "kubernetes.io/hostname"
TOPOLOGY: Json = {
    "apiVersion": "kueue.x-k8s.io/v1beta2",
    "kind": "Topology",
    "metadata": {"name": "racks"},
    "spec": {"levels": [{"nodeLabel": "test/rack"}, {"nodeLabel": HOST}]},
}


def node_name(rack: int, number: int) -> str:
    return f"node-{rack:03}-{number}"


async def node(stage: Stage, rack: int, number: int, cpu: int = 2) -> None:
    """Create a node that belongs to this story only."""
    name = stage.names.own(node_name(rack, number))
    labels = {"test/pool": stage.names.own("pool"), "test/rack": f"rack-{rack:03}", HOST: name}
    await stage.client.create(
        NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
    )
    room = {"cpu": str(cpu), "memory": "8Gi", "pods": "10"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"capacity": room, "allocatable": room, "conditions": [ready]}
    await stage.client.patch(NODES, Key("", name), {"status": status}, subresource="status")


async def clear(stage: Stage) -> None:
    """Delete the nodes, which the stage does not know."""
    selector = f"test/pool={stage.names.own('pool')}"
    found = await stage.client.list(NODES, label_selector=selector)
    names = [Key("", each["metadata"]["name"]) for each in found.items]
    await asyncio.gather(*(stage.client.delete(NODES, each) for each in names))


def gang(name: str, pods: int) -> Json:
    made = job(name, "1", parallelism=pods, completions=pods)
    annotations = {"kueue.x-k8s.io/podset-required-topology": "test/rack"}
    made["spec"]["template"]["metadata"] = {"annotations": annotations}
    return made
