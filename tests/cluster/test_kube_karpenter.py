# SPDX-License-Identifier: Apache-2.0
"""Karpenter with its KWOK provider adds nodes for jobs that Kuota has started, and removes them.

Scheduler and Karpenter are the real ones. The test stands in for the kubelets of new nodes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path

import pytest
import yaml

from cluster import definitions
from cluster.kube_server import KubeServer
from cluster.operators import running
from cluster.stage import Stage, StageRunner
from control.objects import flavor, job, local_queue, queue
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.errors import AlreadyExists, Conflict, NotFound
from kuota.kube.resources import CRDS, NODES, Resource, key_of

NODE_POOLS = Resource("karpenter.sh", "v1", "nodepools", "NodePool", namespaced=False)
NODE_CLASSES = Resource(
    "karpenter.kwok.sh", "v1alpha1", "kwoknodeclasses", "KWOKNodeClass", namespaced=False
)
POOL = "karpenter.sh/nodepool"
SMALL = "c-1x-amd64-linux"
"""An instance type with one CPU, of which pods can use nine tenths."""

READY = {
    "timeout": "25s",
    "requeuingStrategy": {"timestamp": "Eviction", "backoffBaseSeconds": 600},
}


def _node_pool(name: str, cpus: int) -> Json:
    """A pool as in docs/autoscaling.md: limited, and consolidated when nodes are empty."""
    reference = {"group": NODE_CLASSES.group, "kind": NODE_CLASSES.kind, "name": "default"}
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [SMALL]}
    return {
        "apiVersion": NODE_POOLS.api_version,
        "kind": NODE_POOLS.kind,
        "metadata": {"name": name},
        "spec": {
            "limits": {"cpu": str(cpus)},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "0s"},
            "template": {"spec": {"nodeClassRef": reference, "requirements": [requirement]}},
        },
    }


async def _define(client: Client) -> None:
    folder = definitions.folders().get("karpenter")
    if folder is None:
        pytest.skip("no definitions of Karpenter: run `make kube`")
    for file in sorted(folder.glob("*.yaml")):
        with suppress(AlreadyExists):
            await client.create(CRDS, yaml.safe_load(file.read_text()))
    async with asyncio.timeout(HANG_S):
        for resource in (NODE_POOLS, NODE_CLASSES):
            while not await _served(client, resource):
                await asyncio.sleep(0.05)


async def _served(client: Client, resource: Resource) -> bool:
    try:
        await client.list(resource)
    except NotFound:
        return False
    return True


async def _stand_in_for_kubelets(client: Client, pool: str) -> None:
    """Make new nodes of the pool ready."""
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    body = {"status": {"conditions": [ready], "phase": "Running"}}
    listing = await client.list(NODES)
    async with aclosing(client.watch(NODES, since=listing.revision)) as events:
        async for event in events:
            mine = event.object["metadata"].get("labels", {}).get(POOL) == pool
            if mine and event.type == "ADDED":
                with suppress(NotFound, Conflict):
                    await client.patch(NODES, key_of(event.object), body, subresource="status")


@asynccontextmanager
async def _pool(stage: Stage, cpus: int) -> AsyncGenerator[str]:
    name = stage.names.own("pool")
    kind = {"apiVersion": NODE_CLASSES.api_version, "kind": NODE_CLASSES.kind}
    with suppress(AlreadyExists):
        await stage.client.create(
            NODE_CLASSES, kind | {"metadata": {"name": "default"}, "spec": {}}
        )
    await stage.client.create(NODE_POOLS, _node_pool(name, cpus))
    kubelets = asyncio.create_task(_stand_in_for_kubelets(stage.client, name))
    stage.require(kubelets)
    try:
        yield name
    finally:
        await stage.client.delete(NODE_POOLS, Key("", name))


def _nodes(stage: Stage, pool: str) -> list[str]:
    return sorted(
        each["metadata"]["name"]
        for each in stage.all(NODES)
        if each["metadata"].get("labels", {}).get(POOL) == pool
    )


def _bound(stage: Stage, name: str) -> list[str]:
    return sorted(each["spec"]["nodeName"] for each in stage.pods(name, "Running"))


def test_karpenter_adds_nodes_up_to_its_limit_and_the_rest_gives_its_quota_back(
    on_stage: StageRunner, kube: KubeServer, tmp_path: Path
) -> None:
    async def scene(stage: Stage) -> None:
        stage.kubelet.binds = False
        stage.follow(NODES)
        await _define(stage.client)
        async with running("karpenter", kube, tmp_path) as karpenter, _pool(stage, 2) as pool:
            stage.require(karpenter)
            labels = {POOL: pool}
            await stage.apply(flavor(nodeLabels=labels), queue("cq", 3), local_queue())
            kept = {"karpenter.sh/do-not-disrupt": "true"}
            gang = job("gang", "500m", parallelism=2, completions=2)
            gang["spec"]["template"]["metadata"] = {"annotations": kept}
            await stage.apply(gang)
            await stage.shows(2, lambda: len(_bound(stage, "gang")))
            assert _nodes(stage, pool) == _bound(stage, "gang")

            # Quota above the limit of the pool admits a job whose pods get no nodes.
            await stage.apply(job("excess", "500m", parallelism=2))
            await stage.shows("True/PodsReadyTimeout", stage.says, "excess", "Evicted")
            await stage.holds(lambda: stage.suspended("excess"))
            assert 2 == len(_bound(stage, "gang"))

            await stage.succeed("gang", 2)
            await stage.shows("True/Succeeded", stage.says, "gang", "Finished")
            await stage.shows([], _nodes, stage, pool)

    kube.run("kube-scheduler")
    try:
        on_stage(scene, {"waitForPodsReady": READY})
    finally:
        kube.stop("kube-scheduler")
