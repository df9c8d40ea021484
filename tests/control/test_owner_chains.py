# SPDX-License-Identifier: Apache-2.0
"""Chains of owners with kinds whose integrations are disabled, which no informer watches."""

from __future__ import annotations

from typing import Any

from control.objects import job
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.kube.resources import JOBS, REPLICA_SETS, WORKLOADS, Resource

WRAPPERS = Resource("workload.codeflare.dev", "v1beta2", "appwrappers", "AppWrapper")
TRAINING = Resource("kubeflow.org", "v1", "pytorchjobs", "PyTorchJob")
CONFIG = {"integrations": {"frameworks": ["batch/job", "workload.codeflare.dev/appwrapper"]}}
QUEUE = {"kueue.x-k8s.io/queue-name": "main"}


def below(owner: Json, obj: Json) -> Json:
    named = {key: owner["metadata"][key] for key in ("name", "uid")}
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    return obj | {"metadata": obj["metadata"] | {"ownerReferences": [reference | named]}}


def made(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name, "namespace": "team"}, "spec": spec}


async def wrapper(stage: Stage, *, queued: bool = True) -> Json:
    """An AppWrapper around a Job of one CPU."""
    wrapped = job("inner", queue="") | {"metadata": {"name": "inner"}}
    obj = made("top", suspend=True, components=[{"template": wrapped}])
    obj["metadata"]["labels"] = QUEUE if queued else {}
    return await stage.api.create(WRAPPERS, obj)


def owned(stage: Stage) -> set[str]:
    """The kinds and names of the owners of all Workloads."""
    references = [each["metadata"]["ownerReferences"] for each in stage.api.all(WORKLOADS)]
    return {f"{each['kind']}/{each['name']}" for listed in references for each in listed}


def test_a_job_below_a_disabled_kind_runs_on_the_quota_of_the_outermost_owner() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        top = await wrapper(stage)
        middle = await stage.api.create(TRAINING, below(top, made("middle")))
        replicas = await stage.api.create(REPLICA_SETS, below(middle, made("replicas")))
        await stage.rest()
        await stage.api.create(JOBS, below(replicas, job("leaf", suspend=False)))
        await stage.rest()
        assert {"AppWrapper/top"} == owned(stage)
        assert not stage.suspended("leaf"), "it is not stopped while its owner has quota"

    run_scene(scene, CONFIG)


def test_a_chain_that_leads_to_no_managed_owner_leaves_the_job_queued() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        top = await wrapper(stage, queued=False)
        middle = await stage.api.create(TRAINING, below(top, made("middle")))
        await stage.api.create(JOBS, below(middle, job("leaf")))
        await stage.rest()
        assert {"Job/leaf"} == owned(stage)

    run_scene(scene, CONFIG)


def test_a_disabled_owner_that_vanishes_ends_the_chain() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        middle = await stage.api.create(TRAINING, made("middle"))
        await stage.api.delete(TRAINING, Key("team", "middle"))
        await stage.api.create(JOBS, below(middle, job("leaf")))
        await stage.rest()
        assert {"Job/leaf"} == owned(stage)
        assert not stage.suspended("leaf")

    run_scene(scene, CONFIG)


def test_a_new_object_of_the_same_name_is_another_owner() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        top = await wrapper(stage)
        middle = await stage.api.create(TRAINING, below(top, made("middle")))
        await stage.api.create(JOBS, below(middle, job("first")))
        await stage.rest()
        await stage.api.delete(TRAINING, Key("team", "middle"))
        free = await stage.api.create(TRAINING, made("middle"))
        await stage.api.create(JOBS, below(free, job("second")))
        await stage.rest()
        assert {"AppWrapper/top", "Job/second"} == owned(stage)

    run_scene(scene, CONFIG)
