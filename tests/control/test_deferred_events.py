# SPDX-License-Identifier: Apache-2.0
"""Events of other controllers yield to decisions, and a flood of them is thinned out."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from control.virtual import START, VirtualClock, played
from kuota.api.base import Json
from kuota.control.deferred_events import MAX_PENDING, DeferredEvents
from kuota.control.deferred_writes import BUSY_INTERVAL_S

BY = "job-controller"
Told = tuple[str, str, datetime | None]
Story = Callable[[DeferredEvents, list[Told]], Awaitable[None]]


class RecordedEvents(list[Told]):
    """A recorder that remembers about whom it was told what, and when that was said to be."""

    def record(self, regarding: Json, reason: str, note: str, **more: Any) -> None:
        assert BY == more["controller"]
        self.append((regarding["metadata"]["name"], reason, more["when"]))


def about(name: str) -> Json:
    return {"kind": "Job", "metadata": {"namespace": "ns", "name": name}}


def heard(story: Story, *, busy: bool = False) -> list[Told]:
    async def run() -> list[Told]:
        clock, said = VirtualClock(), RecordedEvents()
        events = DeferredEvents(said, clock, lambda: busy)
        running = asyncio.create_task(events.run())
        await story(events, said)
        running.cancel()
        return list(said)

    return played(run())


def test_what_happened_is_reportedon_in_order_and_with_its_own_time() -> None:
    async def story(events: DeferredEvents, said: list[Told]) -> None:
        events.record(about("a"), "SuccessfulCreate", "Created pod: a-1", controller=BY)
        events.record(about("a"), "Completed", "Job completed", controller=BY)
        assert [] == said
        await asyncio.sleep(1)

    assert [("a", "SuccessfulCreate", START), ("a", "Completed", START)] == heard(story)


def test_while_decisions_are_written_only_a_few_are_reported() -> None:
    async def story(events: DeferredEvents, said: list[Told]) -> None:
        for number in range(10):
            events.record(about(f"job-{number}"), "Completed", "", controller=BY)
        await asyncio.sleep(3.5 * BUSY_INTERVAL_S)

    assert ["job-0", "job-1", "job-2"] == [name for name, _, _ in heard(story, busy=True)]


def test_of_a_flood_only_the_first_are_reported_and_what_went_wrong_always() -> None:
    async def story(events: DeferredEvents, said: list[Told]) -> None:
        for number in range(MAX_PENDING + 10):
            events.record(about(f"job-{number}"), "Completed", "", controller=BY)
        events.record(about("bad"), "FailedCreate", "", warning=True, controller=BY)
        assert ["bad"] == [name for name, _, _ in said]
        await asyncio.sleep(MAX_PENDING)

    assert MAX_PENDING + 1 == len(heard(story))


def test_a_warning_that_can_wait_does_and_in_a_flood_is_left_out() -> None:
    async def story(events: DeferredEvents, said: list[Told]) -> None:
        for number in range(MAX_PENDING + 10):
            name = about(f"pod-{number}")
            events.record(name, "FailedScheduling", "", warning=True, can_wait=True, controller=BY)
        assert [] == said
        await asyncio.sleep(MAX_PENDING)

    assert MAX_PENDING == len(heard(story))
