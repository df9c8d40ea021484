# SPDX-License-Identifier: Apache-2.0
"""Jobs with the controllers of their operators, from creation to completion.

Only scheduler and kubelet are replaced: the operators and Kubernetes' controllers create, delete
and count pods.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster import job_kinds
from cluster.job_actor import FLAVOR, HIGH, Actor, config, define_all, furnish, install
from cluster.job_kinds import JobStory
from cluster.kube_server import KubeServer
from cluster.operators import prepare_training, running
from cluster.stage import Stage, StageRunner
from control.objects import job
from kuota.api.base import Json
from kuota.bridge.jobs.registry import BUILT_IN
from kuota.kube.resources import JOBS, key_of

OPERATED = {
    "jobset": [job_kinds.JOB_SET],
    "kuberay": [job_kinds.RAY_CLUSTER, job_kinds.RAY_JOB],
    "training-operator": [
        job_kinds.PYTORCH_JOB,
        job_kinds.TF_JOB,
        job_kinds.XGBOOST_JOB,
        job_kinds.PADDLE_JOB,
        job_kinds.JAX_JOB,
    ],
}
QUEUED = {each.framework for each in BUILT_IN}
ROWS = [
    (name, story)
    for name, stories in OPERATED.items()
    for story in stories
    if story.framework in QUEUED
]


def pods(stage: Stage, *phases: str) -> list[Json]:
    """The pods of the job `mine` that are in one of the phases and not being deleted."""
    return [
        each
        for each in stage.kubelet.pods.values()
        if key_of(each).namespace == stage.names.namespace
        if key_of(each).name.startswith("mine-") and not each["metadata"].get("deletionTimestamp")
        if not phases or (each.get("status") or {}).get("phase") in phases
    ]


def selectors(stage: Stage) -> list[Json]:
    """The node selectors of the pods that run."""
    return [each["spec"].get("nodeSelector") or {} for each in pods(stage, "Running")]


@pytest.mark.parametrize(("operator", "story"), ROWS, ids=[each.kind for _, each in ROWS])
def test_an_operator_runs_a_job_when_and_where_it_is_admitted(
    on_stage: StageRunner, kube: KubeServer, tmp_path: Path, operator: str, story: JobStory
) -> None:
    async def scene(stage: Stage) -> None:
        await define_all(stage, operator)
        actor = Actor(stage, story, await install(stage, story))
        await prepare_training(stage.client)
        async with running(operator, kube, tmp_path) as controller:
            stage.require(controller)
            await live(stage, actor)
            await end(stage, actor)

    on_stage(scene, config=config(story))


def compact(value: Any) -> Any:
    """The value without empty objects, which KubeRay adds."""
    if isinstance(value, list):
        return [compact(each) for each in value]
    if not isinstance(value, dict):
        return value
    found = {name: compact(each) for name, each in value.items()}
    return {name: each for name, each in found.items() if each != {}}


async def live(stage: Stage, actor: Actor) -> None:
    await furnish(stage)
    await stage.apply(job("first", "4"))
    await stage.shows(False, stage.suspended, "first")
    await actor.create()
    await stage.shows("False/WaitingForQuota", stage.says, "mine", "QuotaReserved")
    if actor.story is job_kinds.RAY_JOB:
        # KubeRay writes the spec anew, with its own defaults, when it adds a finalizer.
        await stage.holds(lambda: bool(actor.job["metadata"].get("finalizers")))
    original = compact(actor.job["spec"])
    await stage.delete(JOBS, "first")
    await stage.shows([FLAVOR, FLAVOR], selectors, stage)
    await stage.apply(job("urgent", "4", labels=HIGH))
    await stage.shows(1, stage.active, "urgent")
    assert "True/Preempted" == stage.says("mine", "Evicted")
    await stage.shows([], pods, stage, "Pending", "Running")
    await stage.shows(original, lambda: compact(actor.job["spec"]))
    await stage.delete(JOBS, "urgent")
    await stage.shows([FLAVOR, FLAVOR], selectors, stage)


async def end(stage: Stage, actor: Actor) -> None:
    """Let the job finish, or delete it if its kind never finishes.

    KubeRay asks the head of the cluster whether a RayJob is done, which does not run here.
    """
    if actor.story is job_kinds.RAY_JOB:
        await actor.report(job_kinds.RAY_JOB.finished or {})
        await stage.shows("True/Succeeded", stage.says, "mine", "Finished")
    elif actor.story.finished is None:
        await actor.delete()
        await stage.shows([], stage.workloads, "mine")
    else:
        await stage.kubelet.end(pods(stage, "Running"), "Succeeded")
        await stage.shows("True/Succeeded", stage.says, "mine", "Finished")
