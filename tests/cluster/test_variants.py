# SPDX-License-Identifier: Apache-2.0
"""Concurrent admission: variants try all flavors of a Job, which moves to better ones."""

from __future__ import annotations

from typing import Any

from cluster.stage import Stage, StageRunner
from control.objects import condition, flavor, job, local_queue, queue, workload_class
from kuota.api.base import Json
from kuota.kube.resources import CLUSTER_QUEUES, JOBS

ON = {"ConcurrentAdmission": True}
ALLOWED = "kueue.x-k8s.io/workload-allowed-resource-flavors"
PARENT = "kueue.x-k8s.io/concurrent-admission-parent"
HIGH = {"kueue.x-k8s.io/priority-class": "high"}


async def _setting(stage: Stage, flavors: dict[str, int], mode: str, **more: Any) -> None:
    policy: Json = {"concurrentAdmissionPolicy": {"migration": {"mode": mode}}}
    await stage.apply(*(flavor(each, nodeLabels={"kind": each}) for each in flavors))
    await stage.apply(queue("cq", flavors=flavors, **policy, **more), local_queue())


def _variants(stage: Stage, job_name: str) -> dict[str, Json]:
    """The variants of a Job by flavor, under the story's own names."""
    found = stage.workloads(stage.workload(job_name)["metadata"]["name"])
    named = ((each["metadata"]["annotations"][ALLOWED], each) for each in found)
    return {name.partition("-")[0]: each for name, each in named}


def _runs_on(stage: Stage, job_name: str) -> str:
    """The flavor whose nodes a running Job is bound to."""
    spec = stage.job(job_name)["spec"]
    return "" if spec.get("suspend") else str(spec["template"]["spec"]["nodeSelector"]["kind"])


def _active(stage: Stage, job_name: str) -> set[str]:
    found = _variants(stage, job_name).items()
    return {name for name, each in found if each["spec"].get("active") is not False}


def _says(obj: Json, type_: str) -> str:
    found = condition(obj, type_)
    return f"{found['status']}/{found['reason']}" if found else ""


async def _quota(stage: Stage, **flavors: int) -> None:
    groups = queue("cq", flavors=flavors)["spec"]["resourceGroups"]
    await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"resourceGroups": groups}})


def test_a_job_starts_on_what_there_is_and_moves_to_what_is_preferred(
    on_stage: StageRunner,
) -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, {"reserved": 0, "spot": 4}, "TryPreferredFlavors")
        await stage.apply(job("a", "4"))
        await stage.shows("spot", _runs_on, stage, "a")
        await stage.shows(1, stage.active, "a")
        assert "true" == stage.workload("a")["metadata"]["labels"][PARENT]
        await _quota(stage, reserved=4, spot=4)
        await stage.shows("reserved", _runs_on, stage, "a")
        await stage.shows(1, stage.active, "a")
        await stage.shows({"reserved"}, _active, stage, "a")
        await stage.succeed("a")
        ends = {"True/Succeeded"}
        await stage.shows(
            ends, lambda: {_says(each, "Finished") for each in _variants(stage, "a").values()}
        )

    on_stage(scene, gates=ON)


def test_one_variant_preempts_and_all_of_them_go_with_their_job(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        by_priority = {"withinClusterQueue": "LowerPriority"}
        flavors = {"reserved": 4, "spot": 4}
        await stage.apply(workload_class("high", 100))
        await _setting(stage, flavors, "RetainFirstAdmission", preemption=by_priority)
        await stage.apply(job("low", "4"), job("lower", "4"))
        await stage.shows(2, lambda: stage.active("low") + stage.active("lower"))
        await stage.apply(job("high", "4", labels=HIGH))
        await stage.shows("reserved", _runs_on, stage, "high")
        await stage.shows({"reserved"}, _active, stage, "high")
        assert 1 == stage.active("low") + stage.active("lower")
        for name in ("low", "lower", "high"):
            await stage.delete(JOBS, name)
        await stage.shows([], stage.workloads)

    on_stage(scene, gates=ON)
