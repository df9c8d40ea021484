# SPDX-License-Identifier: Apache-2.0
"""Objects in the state in which Kueue leaves them are continued, not recreated."""

from __future__ import annotations

from typing import Any

from cluster.stage import Stage, StageRunner
from control.objects import condition, flavor, job, local_queue, queue
from kuota.api.base import Json, Key
from kuota.bridge.job_pass.names import workload_name
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    PODS,
    RESOURCE_FLAVORS,
    WORKLOADS,
)

IN_USE = "kueue.x-k8s.io/resource-in-use"
THEN = "2026-01-02T03:04:05Z"
KUEUES_WORDS = "couldn't assign flavors to pod set main: insufficient unused quota for cpu"


def test_a_world_that_kueue_left_is_taken_over_as_it_is(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.stop_system()
        await _queues_of_kueue(stage)
        await _running(stage, "runs")
        await _waiting(stage, "waits")
        await _finished(stage, "ended")
        before = await _everything(stage)
        stage.start_system()
        await stage.shows((1, 1, 1), _counts, stage)
        assert before == await _everything(stage)
        await stage.succeed("runs", 2)
        await stage.shows("True/Admitted", stage.says, "waits", "Admitted")
        await stage.shows(2, stage.active, "waits")

    on_stage(scene)


async def _queues_of_kueue(stage: Stage) -> None:
    await stage.apply(flavor(nodeLabels={"tier": "gold"}), queue("cq", 2), local_queue())
    held = {"metadata": {"finalizers": [IN_USE]}}
    await stage.edit(CLUSTER_QUEUES, "cq", held)
    await stage.edit(RESOURCE_FLAVORS, "default", held)
    active = _condition("Active", "True", "Ready", "Can admit new workloads")
    usage = {"name": "default", "resources": [{"name": "cpu", "total": "2", "borrowed": "0"}]}
    counts = {"pendingWorkloads": 1, "reservingWorkloads": 1, "admittedWorkloads": 1}
    shown = {"conditions": [active], "flavorsReservation": [usage]}
    await stage.status(CLUSTER_QUEUES, "cq", counts | shown)
    await stage.status(LOCAL_QUEUES, "main", {"conditions": [active]})


async def _running(stage: Stage, name: str) -> None:
    """A Job that Kueue admitted and released, whose pods run."""
    await stage.apply(job(name, parallelism=2, completions=2))
    await _workload(stage, name)
    await _reserved(
        stage,
        name,
        _condition("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue cq"),
        _condition("Admitted", "True", "Admitted", "The workload is admitted"),
        _condition("PodsReady", "True", "Started", "All pods were ready or succeeded"),
    )
    await _release(stage, name)
    await stage.shows(2, lambda: stage.job(name)["status"].get("ready"))


async def _waiting(stage: Stage, name: str) -> None:
    await stage.apply(job(name, parallelism=2, completions=2))
    await _workload(stage, name)
    conditions = [
        _condition("QuotaReserved", "False", "WaitingForQuota", KUEUES_WORDS),
        _condition("Admitted", "False", "NoReservation", "The workload has no reservation"),
        _condition("PodsReady", "False", "WaitForStart", "Not all pods are ready or succeeded"),
    ]
    requests = [{"name": "main", "resources": {"cpu": "2"}}]
    status = {"conditions": conditions, "resourceRequests": requests}
    await stage.status(WORKLOADS, _name(stage, name), status)


async def _finished(stage: Stage, name: str) -> None:
    await stage.apply(job(name, parallelism=1))
    await _workload(stage, name, count=1, finalizers=())
    await _release(stage, name)
    await stage.succeed(name)
    await stage.shows(1, lambda: stage.job(name)["status"].get("succeeded"))
    await stage.holds(lambda: "Complete" in _condition_types(stage.job(name)))
    await _reserved(
        stage,
        name,
        _condition("QuotaReserved", "True", "QuotaReserved", "Quota reserved in ClusterQueue cq"),
        _condition("Admitted", "True", "Admitted", "The workload is admitted"),
        _condition("Finished", "True", "Succeeded", "Job finished successfully"),
        count=1,
    )


async def _workload(
    stage: Stage, job_name: str, count: int = 2, finalizers: tuple[str, ...] = (IN_USE,)
) -> None:
    owner = await stage.client.get(JOBS, Key(stage.names.namespace, job_name))
    meta = owner["metadata"]
    template = owner["spec"]["template"]
    labels = template["metadata"].get("labels") or {}
    unowned = {k: v for k, v in labels.items() if "controller-uid" not in k and k != "job-name"}
    pod_set = {
        "name": "main",
        "count": count,
        "template": {"metadata": {"labels": unowned}, "spec": template["spec"]},
    }
    reference = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": job_name,
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    await stage.apply(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {
                "name": workload_name("Job", "batch", job_name, meta["uid"]),
                "finalizers": list(finalizers),
                "labels": {"kueue.x-k8s.io/job-uid": meta["uid"]},
                "ownerReferences": [reference],
            },
            "spec": {"queueName": "main", "priority": 0, "active": True, "podSets": [pod_set]},
        }
    )
    await stage.holds(lambda: stage.workload(job_name))


def _name(stage: Stage, job_name: str) -> str:
    return str(stage.workload(job_name)["metadata"]["name"])


async def _reserved(stage: Stage, job_name: str, *conditions: Json, count: int = 2) -> None:
    assignment = {
        "name": "main",
        "count": count,
        "flavors": {"cpu": stage.names.own("default")},
        "resourceUsage": {"cpu": str(count)},
    }
    admission = {"clusterQueue": "cq", "podSetAssignments": [assignment]}
    status = {"admission": admission, "conditions": list(conditions)}
    await stage.status(WORKLOADS, _name(stage, job_name), status)


async def _release(stage: Stage, job_name: str) -> None:
    """What Kueue does to a Job that it admitted."""
    labels = {
        "kueue.x-k8s.io/podset": "main",
        "kueue.x-k8s.io/cluster-queue-name": stage.names.own("cq"),
        "kueue.x-k8s.io/local-queue-name": "main",
    }
    workload = {"kueue.x-k8s.io/workload": _name(stage, job_name)}
    template = {
        "metadata": {"labels": labels, "annotations": workload},
        "spec": {"nodeSelector": {"tier": "gold"}},
    }
    await stage.edit(JOBS, job_name, {"spec": {"suspend": False, "template": template}})


def _condition(type_: str, status: str, reason: str, message: str) -> Json:
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": THEN,
        "observedGeneration": 1,
    }


def _condition_types(obj: Json) -> set[str]:
    return {each["type"] for each in obj["status"].get("conditions") or ()}


def _counts(stage: Stage) -> tuple[Any, ...]:
    status = stage.get(LOCAL_QUEUES, "main")["status"]
    names = ("admittedWorkloads", "reservingWorkloads", "pendingWorkloads")
    return tuple(status.get(name) for name in names)


async def _everything(stage: Stage) -> dict[str, Json]:
    """Whatever people would miss, but for the words of why one waits, and who wrote it last."""
    found = {}
    for resource in (JOBS, WORKLOADS, PODS):
        listed = await stage.client.list(resource, stage.names.namespace)
        for each in listed.items:
            meta = each["metadata"]
            said = {k: v for k, v in meta.items() if k not in ("resourceVersion", "managedFields")}
            if meta["name"].startswith("job-waits-"):
                condition(each, "QuotaReserved").pop("message")
            found[f"{resource}/{meta['name']}"] = each | {"metadata": said}
    return found
