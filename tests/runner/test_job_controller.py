# SPDX-License-Identifier: Apache-2.0
"""The Job controller on the embedded server; the test ends the pods."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.kube.informer import Informer
from kuota.kube.resources import JOBS, PODS, Resource, key_of
from kuota.runner.job_controller import JobController
from kuota.runner.job_rules import ReplacementBackoff
from runner.embedded import Cluster, RecordedEvents, cluster
from runner.pods import runner_pods

QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
AT_ONCE = ReplacementBackoff(first_s=0.05)


def job(name: str, **spec: Any) -> Json:
    container = {"name": "main", "image": "x", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    meta = {"name": name, "namespace": "team"}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta,
        "spec": {"template": template, **spec},
    }


@asynccontextmanager
async def controlled(recorder: RecordedEvents | None = None) -> AsyncIterator[Cluster]:
    async with cluster() as world, asyncio.TaskGroup() as group:
        jobs = Informer[Json](world.client, JOBS)
        pods = runner_pods(world.client)
        controller = JobController(world.client, jobs, pods, backoff=AT_ONCE, recorder=recorder)
        tasks = [group.create_task(each.run()) for each in (jobs, pods, controller)]
        try:
            yield world
        finally:
            for task in tasks:
                task.cancel()


def story(
    work: Callable[[Cluster], Coroutine[Any, Any, None]], recorder: RecordedEvents | None = None
) -> None:
    async def played() -> None:
        async with controlled(recorder) as world:
            await work(world)

    asyncio.run(played())


async def end(world: Cluster, pod: Json, phase: str) -> None:
    terminated = {"exitCode": int(phase != "Succeeded")}
    container = {"name": "main", "image": "x", "imageID": "", "ready": False, "restartCount": 0}
    containers = [{**container, "state": {"terminated": terminated}}]
    status = {"phase": phase, "containerStatuses": containers}
    await world.client.patch(PODS, key_of(pod), {"status": status}, subresource="status")


def has(type_: str) -> Callable[[Json], bool]:
    return lambda obj: any(
        each["type"] == type_ and each["status"] == "True"
        for each in (obj.get("status") or {}).get("conditions") or ()
    )


def test_a_job_gets_its_pods_and_ends_when_they_succeed() -> None:
    async def work(world: Cluster) -> None:
        await world.client.create(JOBS, job("sum", parallelism=2, completions=2))
        pods = await world.some(PODS, lambda some: len(some) == 2)
        assert {"sum"} == {pod["metadata"]["labels"]["job-name"] for pod in pods}
        await world.until(JOBS, "sum", lambda obj: obj["status"].get("active") == 2)
        for pod in pods:
            await end(world, pod, "Succeeded")
        done = await world.until(JOBS, "sum", has("Complete"))
        assert (2, None) == (done["status"]["succeeded"], done["status"].get("active"))
        await world.some(PODS, lambda some: not any(p["metadata"].get("finalizers") for p in some))

    story(work)


def test_failures_are_counted_once_and_replaced_until_the_limit() -> None:
    async def work(world: Cluster) -> None:
        await world.client.create(JOBS, job("bad", backoffLimit=2))
        for number in (1, 2, 3):
            pods = await world.some(
                PODS,
                lambda some, number=number: len(some) == number,  # type: ignore[misc]
            )
            (alive,) = [p for p in pods if p["status"]["phase"] == "Pending"]
            await end(world, alive, "Failed")
        done = await world.until(JOBS, "bad", has("Failed"))
        assert 3 == done["status"]["failed"]
        assert 3 == len((await world.client.list(PODS)).items)

    story(work)


def test_suspending_deletes_the_pods_and_resuming_makes_new_ones() -> None:
    async def work(world: Cluster) -> None:
        await world.client.create(JOBS, job("rest", suspend=True))
        await world.until(JOBS, "rest", has("Suspended"))
        assert [] == (await world.client.list(PODS)).items
        for suspend, count in ((False, 1), (True, 0), (False, 1)):
            await world.client.patch(JOBS, Key("team", "rest"), {"spec": {"suspend": suspend}})
            await world.some(PODS, lambda some, count=count: len(some) == count)  # type: ignore[misc]
        back = await world.until(JOBS, "rest", lambda obj: not has("Suspended")(obj))
        assert 0 == back["status"].get("failed", 0)

    story(work)


def test_a_job_with_no_time_to_live_is_removed_when_it_is_finished() -> None:
    async def work(world: Cluster) -> None:
        await world.client.create(JOBS, job("brief", ttlSecondsAfterFinished=0))
        (pod,) = await world.some(PODS, lambda some: len(some) == 1)
        await end(world, pod, "Succeeded")
        await world.gone(JOBS, "brief")

    story(work)


def test_pods_of_a_job_that_is_gone_are_released() -> None:
    async def work(world: Cluster) -> None:
        await world.client.create(JOBS, job("left"))
        (pod,) = await world.some(PODS, lambda some: len(some) == 1)
        await world.client.delete(JOBS, Key("team", "left"), propagation="Orphan")
        await world.until(
            PODS, pod["metadata"]["name"], lambda obj: not obj["metadata"].get("finalizers")
        )

    story(work)


def test_what_becomes_of_a_job_is_reported_in_few_words() -> None:
    async def work(world: Cluster) -> None:
        await world.client.create(JOBS, job("sum", parallelism=5, completions=5, suspend=True))
        await world.until(JOBS, "sum", has("Suspended"))
        await world.client.patch(JOBS, Key("team", "sum"), {"spec": {"suspend": False}})
        for pod in await world.some(PODS, lambda some: len(some) == 5):
            await end(world, pod, "Succeeded")
        await world.until(JOBS, "sum", has("Complete"))

    recorded = RecordedEvents()
    story(work, recorded)
    reasons = [each.partition(":")[0] for each in recorded]
    assert ["Suspended", "SuccessfulCreate", "Resumed", "Completed"] == reasons
    assert recorded[1].startswith("SuccessfulCreate: Created pods: sum-")
    assert recorded[1].endswith(" and 2 more")


def test_pods_that_cannot_be_made_are_reported() -> None:
    recorded = RecordedEvents()

    async def work(world: Cluster) -> None:
        refused = job("bad")
        refused["spec"]["template"]["metadata"] = {"finalizers": ["not a name"]}
        await world.client.create(JOBS, refused)
        async with asyncio.timeout(HANG_S):
            await recorded.heard.wait()

    story(work, recorded)
    assert recorded[0].startswith("!FailedCreate: Error creating: ")
    assert "metadata.finalizers[0]" in recorded[0]


def test_pods_are_counted_although_the_job_may_not_have_more() -> None:
    async def work(world: Cluster) -> None:
        quota = {"metadata": {"name": "few", "namespace": "team"}}
        await world.client.create(QUOTAS, quota | {"spec": {"hard": {"count/pods": "2"}}})
        await world.client.create(JOBS, job("sum", parallelism=5, completions=5))
        pods = await world.some(PODS, lambda some: len(some) == 2)
        await world.until(JOBS, "sum", lambda obj: obj["status"].get("active") == 2)
        await end(world, pods[0], "Succeeded")
        await world.until(JOBS, "sum", lambda obj: obj["status"].get("succeeded") == 1)

    story(work)
