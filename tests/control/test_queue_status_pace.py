# SPDX-License-Identifier: Apache-2.0
"""Only counters of a queue are written at intervals: conditions and finalizers do not wait."""

from __future__ import annotations

from collections.abc import Callable

from control.objects import NAMESPACE, check, condition, flavor, job, local_queue, queue
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    Resource,
)

IMMEDIATE_S = 0.05


async def _busy(stage: Stage) -> None:
    """Furnish one queue and change its counters until their interval is at its longest."""
    await stage.api.apply(flavor(), queue("cq", 100), local_queue())
    for number in range(100):
        await stage.api.apply(job(f"busy-{number}"))
        await stage.rest(0.1)


async def _until(stage: Stage, true: Callable[[], bool]) -> float:
    """Seconds until the predicate holds."""
    start = stage.clock.monotonic()
    while not true():
        assert stage.clock.monotonic() - start < 10, "did not happen within 10 s"
        await stage.rest(0.01)
    return stage.clock.monotonic() - start


def _active(stage: Stage, resource: Resource, name: str) -> str:
    found: Json | None = stage.api.find(resource, name)
    return condition(found, "Active").get("status", "") if found else ""


def test_a_queue_that_stops_says_so_although_its_counters_were_just_written() -> None:
    async def scene(stage: Stage) -> None:
        await _busy(stage)
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "Hold"}})
        assert await _until(stage, lambda: _active(stage, CLUSTER_QUEUES, "cq") == "False") < (
            IMMEDIATE_S
        )
        assert await _until(stage, lambda: _active(stage, LOCAL_QUEUES, "main") == "False") < (
            IMMEDIATE_S
        )

    run_scene(scene)


def test_a_cluster_queue_is_released_as_soon_as_its_last_workload_is_gone() -> None:
    async def scene(stage: Stage) -> None:
        await _busy(stage)
        await stage.api.delete(CLUSTER_QUEUES, Key("", "cq"))
        await stage.rest(0.3)
        for number in range(100):
            await stage.api.delete(JOBS, Key(NAMESPACE, f"busy-{number}"))
        assert await _until(stage, lambda: stage.api.find(CLUSTER_QUEUES, "cq") is None) < (
            IMMEDIATE_S
        )

    run_scene(scene)


def test_a_recreated_queue_owes_nothing_to_its_predecessor() -> None:
    async def scene(stage: Stage) -> None:
        await _busy(stage)
        await stage.api.delete(LOCAL_QUEUES, Key(NAMESPACE, "main"))
        await stage.api.apply(local_queue())
        assert await _until(stage, lambda: _active(stage, LOCAL_QUEUES, "main") == "True") < (
            IMMEDIATE_S
        )

    run_scene(scene)


def test_a_new_flavor_gets_its_finalizer_at_once() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(flavor("new"))

        def held() -> bool:
            return bool(stage.get(RESOURCE_FLAVORS, "new")["metadata"].get("finalizers"))

        assert await _until(stage, held) < IMMEDIATE_S

    run_scene(scene)


def test_counters_wait_longer_the_more_often_they_change() -> None:
    async def scene(stage: Stage) -> None:
        await _busy(stage)
        before = stage.api.versions(CLUSTER_QUEUES, "cq")
        for number in range(60):
            await stage.api.apply(job(f"more-{number}"))
            await stage.rest(0.1)
        assert stage.api.versions(CLUSTER_QUEUES, "cq") - before in (2, 3)

    run_scene(scene)


def test_a_condition_takes_the_newest_counters_with_it() -> None:
    async def scene(stage: Stage) -> None:
        await _busy(stage)
        await stage.api.apply(job("late", "500"))
        await stage.rest(0.05)
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "Hold"}})
        await _until(stage, lambda: _active(stage, CLUSTER_QUEUES, "cq") == "False")
        status = stage.get(CLUSTER_QUEUES, "cq")["status"]
        assert (100, 1) == (status["reservingWorkloads"], status["pendingWorkloads"])

    run_scene(scene)


def test_what_others_overwrite_is_put_right() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(flavor(), queue("cq", 4), local_queue(), check("ok"))
        await stage.rest()
        for resource, name in ((CLUSTER_QUEUES, "cq"), (LOCAL_QUEUES, "main")):
            sound = stage.get(resource, name)["status"]
            await stage.status(resource, name, {"conditions": [], "pendingWorkloads": 7})
            await stage.rest()
            found = stage.get(resource, name)["status"]
            assert 0 == found["pendingWorkloads"]
            for each in (sound, found):
                each["conditions"][0].pop("lastTransitionTime")
            assert sound == found
        for resource, name in ((CLUSTER_QUEUES, "cq"), (ADMISSION_CHECKS, "ok")):
            await stage.edit(resource, name, {"metadata": {"finalizers": None}})
            await stage.rest()
            assert stage.get(resource, name)["metadata"].get("finalizers"), name

    run_scene(scene)


def test_a_queue_that_is_released_gets_no_last_status() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(flavor(), queue("cq", 4))
        await stage.rest()
        before = stage.api.writes
        await stage.api.delete(CLUSTER_QUEUES, Key("", "cq"))
        await _until(stage, lambda: stage.api.find(CLUSTER_QUEUES, "cq") is None)
        # The request to delete, and the finalizer.
        assert before + 2 == stage.api.writes

    run_scene(scene)
