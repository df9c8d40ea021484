# SPDX-License-Identifier: Apache-2.0
"""Events and conditions of pods that are bound, or cannot be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from hang import HANG_S
from kuota.api.base import Json
from kuota.kube.clock import SystemClock
from kuota.kube.resources import PODS
from kuota.runner.binder import Binder
from kuota.runner.binding import SchedulableNode, offer
from runner.embedded import Cluster, RecordedEvents, cluster
from runner.machine import container, gpus, pod

FULL = (
    "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. "
    "No node has that much, even when it is empty: ask for less."
)
Story = Callable[[Cluster, Binder, RecordedEvents], Awaitable[None]]


def here(gpu: int, **labels: str) -> SchedulableNode:
    status = {"allocatable": {"cpu": "8", "nvidia.com/gpu": str(gpu), "pods": "10"}}
    return offer({"metadata": {"name": "here", "labels": labels}, "status": status})


def event_texts(work: Story) -> list[str]:
    async def played() -> list[str]:
        said = RecordedEvents()
        async with cluster() as world, asyncio.timeout(HANG_S):
            binder = Binder(world.client, SystemClock(), said)
            running = asyncio.create_task(binder.run())
            await work(world, binder, said)
            running.cancel()
        return list(said)

    return asyncio.run(played())


async def comes(world: Cluster, binder: Binder, name: str, count: int, **spec: Json) -> None:
    made = pod(name, container("true", resources=gpus(count)), **spec)
    binder.pod_changed(None, await world.client.create(PODS, made))


async def hears(said: RecordedEvents, count: int) -> None:
    """Return once so much has been said."""
    while len(said) < count:
        said.heard.clear()
        await said.heard.wait()


def test_a_pod_that_finds_no_room_hears_why_and_later_where_it_went() -> None:
    async def work(world: Cluster, binder: Binder, said: RecordedEvents) -> None:
        binder.set_offers([here(1)])
        await comes(world, binder, "p", 2)
        await hears(said, 1)
        binder.set_offers([here(2)])
        await hears(said, 2)

    bound = "Scheduled: Successfully assigned team/p to here"
    assert [f"!FailedScheduling: {FULL}", bound] == event_texts(work)


def test_the_same_reason_is_reported_once_and_a_new_one_again() -> None:
    async def work(world: Cluster, binder: Binder, said: RecordedEvents) -> None:
        binder.set_offers([here(1)])
        await comes(world, binder, "p", 2, nodeSelector={"zone": "x"})
        await hears(said, 1)
        binder.set_offers([here(0)])
        await comes(world, binder, "other", 0)
        await hears(said, 2)
        binder.set_offers([here(0, zone="x")])
        await hears(said, 3)

    nowhere = "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector."
    assert [
        f"!FailedScheduling: {nowhere}",
        "Scheduled: Successfully assigned team/other to here",
        f"!FailedScheduling: {FULL}",
    ] == event_texts(work)


def test_a_pod_that_is_over_before_the_answer_comes_is_reported_too() -> None:
    async def work(world: Cluster, binder: Binder, said: RecordedEvents) -> None:
        made = await world.client.create(PODS, pod("quick", container("true")))
        create = world.client.create

        async def created(*args: Any, **more: Any) -> Json:
            answer = await create(*args, **more)
            binder.pod_changed(made, made | {"status": {"phase": "Succeeded"}})
            return answer

        world.client.create = created  # type: ignore[method-assign]
        binder.set_offers([here(8)])
        binder.pod_changed(None, made)
        await hears(said, 1)

    assert ["Scheduled: Successfully assigned team/quick to here"] == event_texts(work)


def test_a_pod_that_went_meanwhile_hears_nothing() -> None:
    async def work(world: Cluster, binder: Binder, said: RecordedEvents) -> None:
        binder.set_offers([here(8)])
        binder.pod_changed(None, pod("gone", container("true")))
        await comes(world, binder, "there", 8)
        await hears(said, 1)

    assert ["Scheduled: Successfully assigned team/there to here"] == event_texts(work)
