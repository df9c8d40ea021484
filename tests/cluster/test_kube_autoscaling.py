# SPDX-License-Identifier: Apache-2.0
"""Jobs that need missing nodes, with the Kubernetes scheduler and its definition of requests."""

from __future__ import annotations

import asyncio

from cluster.job_actor import define
from cluster.kube_server import KubeServer
from cluster.stage import Stage, StageRunner
from control.autoscaler import ATOMIC, POOL, Autoscaler
from control.objects import check, condition, flavor, job, local_queue, queue
from kuota.api.base import Json
from kuota.kube.clock import SystemClock
from kuota.kube.resources import (
    ADMISSION_CHECKS,
    CRDS,
    NODES,
    PROVISIONING_REQUESTS,
)

PROVISIONING = "kueue.x-k8s.io/provisioning-request"


async def _furnish(stage: Stage) -> None:
    selector = {"key": POOL, "valueFromProvisioningClassDetail": "pool"}
    spec = {
        "provisioningClassName": ATOMIC,
        "podSetUpdates": {"nodeSelector": [selector]},
    }
    kind = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "ProvisioningRequestConfig"}
    made = check("nodes", PROVISIONING)
    made["spec"]["parameters"] = {
        "apiGroup": "kueue.x-k8s.io",
        "kind": "ProvisioningRequestConfig",
        "name": stage.names.own("config"),
    }
    await stage.apply(kind | {"metadata": {"name": "config"}, "spec": spec}, made)
    strategy = {"admissionChecks": [{"name": "nodes"}]}
    await stage.apply(flavor(), local_queue(), queue("cq", 8, admissionChecksStrategy=strategy))


def _active(stage: Stage) -> str:
    return str(condition(stage.get(ADMISSION_CHECKS, "nodes"), "Active").get("reason"))


def _state(stage: Stage) -> Json:
    (found,) = stage.workload("train")["status"]["admissionChecks"]
    return dict(found)


def _pool(stage: Stage) -> list[str]:
    """The nodes that the autoscaler has added for the story."""
    return sorted(
        each["metadata"]["name"]
        for each in stage.all(NODES)
        if stage.names.own("nodes") in each["metadata"].get("labels", {}).get(POOL, "")
    )


def test_a_job_waits_for_four_nodes_runs_on_exactly_these_and_gives_them_back(
    on_stage: StageRunner, kube: KubeServer
) -> None:
    async def scene(stage: Stage) -> None:
        stage.kubelet.binds = False
        for each in (ADMISSION_CHECKS, NODES):
            stage.follow(each)
        await _furnish(stage)
        if PROVISIONING_REQUESTS.name not in await _defined(stage):
            await stage.shows("ProvisioningRequestsNotServed", _active, stage)
        await define(stage, PROVISIONING_REQUESTS)
        await stage.shows("Active", _active, stage)

        await stage.apply(job("train", parallelism=4, completions=4))
        await stage.holds(lambda: "waiting for an autoscaler" in _state(stage)["message"])
        assert stage.suspended("train")
        autoscaler = Autoscaler(stage.client, SystemClock(), scale_up_s=0.5)
        stage.require(asyncio.create_task(autoscaler.run()))
        await stage.shows("4 nodes are being added", lambda: _state(stage)["message"])
        await stage.shows(4, lambda: len(stage.pods("train", "Running")))
        bound = sorted(each["spec"]["nodeName"] for each in stage.pods("train", "Running"))
        assert _pool(stage) == bound

        await stage.succeed("train", 4)
        await stage.shows("True/Succeeded", stage.says, "train", "Finished")
        await stage.shows([], _pool, stage)

    kube.run("kube-scheduler")
    try:
        on_stage(scene)
    finally:
        kube.stop("kube-scheduler")


async def _defined(stage: Stage) -> list[str]:
    return [each["metadata"]["name"] for each in (await stage.client.list(CRDS)).items]
