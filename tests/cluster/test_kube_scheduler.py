# SPDX-License-Identifier: Apache-2.0
"""With the Kubernetes scheduler, pods are bound to the nodes of their flavor."""

from __future__ import annotations

from cluster.kube_server import KubeServer
from cluster.stage import Stage, StageRunner
from control.objects import flavor, job, local_queue, queue
from kuota.api.base import Json
from kuota.kube.resources import NODES

SPOT = {"key": "example.com/spot", "value": "yes", "effect": "NoSchedule"}
TOLERATED = {"key": "example.com/spot", "operator": "Exists", "effect": "NoSchedule"}


def test_pods_land_on_the_nodes_of_their_flavor(on_stage: StageRunner, kube: KubeServer) -> None:
    async def scene(stage: Stage) -> None:
        stage.kubelet.binds = False
        await _node(stage, "reserved", {})
        await _node(stage, "spot", {"taints": [SPOT]})
        await stage.apply(flavor("reserved", nodeLabels=_label(stage, "reserved")))
        await stage.apply(flavor("spot", nodeLabels=_label(stage, "spot"), tolerations=[TOLERATED]))
        await stage.apply(queue("cq", flavors={"reserved": 2, "spot": 2}), local_queue())
        for name, node in (("first", "reserved"), ("second", "spot")):
            await stage.apply(job(name, parallelism=2, completions=2))
            await stage.shows([stage.names.own(node)] * 2, _nodes_of, stage, name)
            await stage.succeed(name, 2)
            await stage.shows("True/Succeeded", stage.says, name, "Finished")
            await stage.apply(job(f"{name}-again", parallelism=2))
            await stage.shows(2, stage.active, f"{name}-again")

    kube.run("kube-scheduler")
    try:
        on_stage(scene)
    finally:
        kube.stop("kube-scheduler")


async def _node(stage: Stage, name: str, spec: Json) -> None:
    meta = {"name": name, "labels": _label(stage, name)}
    await stage.apply({"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec})
    room = {"cpu": "8", "memory": "8Gi", "pods": "20"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    status = {"capacity": room, "allocatable": room, "conditions": [ready]}
    await stage.status(NODES, name, status)


def _label(stage: Stage, name: str) -> dict[str, str]:
    return {"example.com/pool": stage.names.own(name)}


def _nodes_of(stage: Stage, name: str) -> list[str]:
    return [each["spec"]["nodeName"] for each in stage.pods(name, "Running")]
