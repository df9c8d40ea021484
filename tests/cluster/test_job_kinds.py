# SPDX-License-Identifier: Apache-2.0
"""The life of a job of each kind, with the definition of its operator.

The test reports in the status what the operator would. `test_kube_operators.py` runs operators.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest
from msgspec.structs import replace

from cluster.definitions import minimal
from cluster.job_actor import FLAVOR, HIGH, Actor, config, define, furnish, install, resource_of
from cluster.job_kinds import JOB_SET, STORIES, TRAIN_JOB, JobStory
from cluster.stage import Stage, StageRunner
from control.objects import job
from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.bridge.jobs.registry import BUILT_IN
from kuota.kube.errors import AlreadyExists, NotFound
from kuota.kube.resources import CRDS, JOBS, Resource

NAMES = [each.framework for each in BUILT_IN if each.framework in STORIES]
every_kind = pytest.mark.parametrize("story", [STORIES[each] for each in NAMES], ids=NAMES)


@every_kind
def test_a_job_waits_starts_is_preempted_restored_and_finishes(
    on_stage: StageRunner, story: JobStory
) -> None:
    async def scene(stage: Stage) -> None:
        actor = Actor(stage, story, await install(stage, story))
        await furnish(stage)
        await stage.apply(job("first", "4"))
        await stage.shows(False, stage.suspended, "first")
        await actor.create()
        await stage.shows("False/WaitingForQuota", stage.says, "mine", "QuotaReserved")
        assert (True, {}) == actor.state()
        original = actor.job["spec"]

        await stage.delete(JOBS, "first")
        await stage.shows((False, FLAVOR), actor.state)
        await actor.report(story.running)
        await stage.apply(job("urgent", "4", labels=HIGH))
        await stage.shows("True/Preempted", stage.says, "mine", "Evicted")
        await stage.shows(True, lambda: actor.state()[0])
        await actor.report(story.stopped)
        await stage.shows(original, lambda: actor.job["spec"])
        await stage.shows(False, stage.suspended, "urgent")

        await stage.delete(JOBS, "urgent")
        await stage.shows((False, FLAVOR), actor.state)
        await actor.report(story.running)
        if story.finished is not None:
            await actor.report(story.finished)
            await stage.shows("True/Succeeded", stage.says, "mine", "Finished")
        else:
            await actor.delete()
            await stage.shows([], stage.workloads, "mine")
        await stage.apply(job("next", "4"))
        await stage.shows(False, stage.suspended, "next")

    on_stage(scene, config=config(story))


@pytest.mark.parametrize("story", [JOB_SET, TRAIN_JOB], ids=lambda story: story.kind)
def test_a_kind_whose_definition_disappears_stops_and_the_rest_continues(
    on_stage: StageRunner, story: JobStory
) -> None:
    async def scene(stage: Stage) -> None:
        resource = await install(stage, story)
        actor = Actor(stage, story, resource)
        await furnish(stage)
        await actor.create()
        await stage.shows((False, FLAVOR), actor.state)
        await actor.report(story.running)
        await stage.client.delete(CRDS, Key("", resource.name))
        await stage.shows([], stage.workloads, "mine")
        await stage.apply(job("next", "4"))
        await stage.shows(False, stage.suspended, "next")
        await stage.delete(JOBS, "next")
        await define(stage, resource)
        await actor.create()
        await stage.shows((False, FLAVOR), actor.state)

    on_stage(scene, config=config(story))


@every_kind
def test_a_job_with_an_impossible_queue_name_gets_a_reason_and_the_rest_continues(
    on_stage: StageRunner, story: JobStory
) -> None:
    """The webhook rejects such a job. Here it was stored while the webhook was not running."""

    async def scene(stage: Stage) -> None:
        resource = await install(stage, story)
        await furnish(stage)
        bad = story.manifest("bad")
        bad["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] = "NotAName"
        await stage.apply(*story.companions, bad)
        actor = Actor(stage, story, resource)
        await actor.create()
        await stage.shows((False, FLAVOR), actor.state)
        await stage.holds(lambda: "ErrWorkloadCompose" in stage.events(story.kind, "bad"))
        assert [] == stage.workloads("bad")
        assert story.suspended(stage.get(resource, "bad"))

    on_stage(scene, config=config(story))


ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


async def redefine(stage: Stage, resource: Resource, **properties: Json) -> None:
    """Replace the definition of a kind by one with these properties."""
    found = minimal(resource.group, resource.version, resource.plural, resource.kind)
    schema = {"type": "object", "properties": properties}
    found["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema
    with suppress(NotFound):
        await stage.client.delete(CRDS, Key("", resource.name))
    async with asyncio.timeout(HANG_S):
        while True:
            try:
                await stage.client.create(CRDS, found)
            except AlreadyExists:
                await asyncio.sleep(0.05)  # The previous definition is still being deleted.
            else:
                return


async def the_rest_continues(stage: Stage, resource: Resource) -> None:
    """Check that no quota is lost, and remove the definition: it is that of this test only."""
    await stage.apply(job("next", "4"))
    await stage.shows(False, stage.suspended, "next")
    await stage.client.delete(CRDS, Key("", resource.name))


def test_jobs_whose_definition_cannot_suspend_them_get_a_reason(on_stage: StageRunner) -> None:
    story = JOB_SET

    async def scene(stage: Stage) -> None:
        resource = resource_of(story.manifest("any"))
        jobs = {"type": "array", "items": ANYTHING}
        spec = {"type": "object", "properties": {"replicatedJobs": jobs}}
        await redefine(stage, resource, spec=spec, status=ANYTHING)
        stage.follow(resource)
        await furnish(stage)
        await stage.apply(job("first", "4"))
        await stage.shows(False, stage.suspended, "first")
        actor = Actor(stage, story, resource)
        await actor.create()
        await stage.holds(lambda: "SuspendIgnored" in stage.events(story.kind, "mine"))
        await stage.delete(resource, "mine")
        await stage.delete(JOBS, "first")
        await the_rest_continues(stage, resource)

    on_stage(scene, config=config(story))


@pytest.mark.parametrize(("version", "reason"), [("v9", "VersionNotServed"), ("", "StatusMissing")])
def test_a_definition_with_which_jobs_cannot_be_queued_gets_a_reason(
    on_stage: StageRunner, version: str, reason: str
) -> None:
    story = JOB_SET

    async def scene(stage: Stage) -> None:
        resource = resource_of(story.manifest("any"))
        known = replace(resource, version=version) if version else resource
        properties = {"status": ANYTHING} if version else {}
        await redefine(stage, known, spec=ANYTHING, **properties)
        await furnish(stage)
        await stage.holds(
            lambda: reason in stage.events(CRDS.kind, resource.name, namespaced=False)
        )
        await the_rest_continues(stage, resource)

    on_stage(scene, config=config(story))


def test_a_job_without_pods_gets_a_reason(on_stage: StageRunner) -> None:
    story = JOB_SET

    async def scene(stage: Stage) -> None:
        resource = await install(stage, story)
        await furnish(stage)
        empty = story.manifest("empty")
        empty["spec"] = {"suspend": True, "replicatedJobs": []}
        await stage.apply(empty)
        await stage.holds(lambda: "NoPodSets" in stage.events(story.kind, "empty"))
        assert [] == stage.workloads("empty")
        assert story.suspended(stage.get(resource, "empty"))

    on_stage(scene, config=config(story))
