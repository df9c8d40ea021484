# SPDX-License-Identifier: Apache-2.0
"""A user with few requests does not wait for a user with many."""

from __future__ import annotations

import asyncio

import pytest

from kuota.api.status import StatusError
from kuota.server.fairness import SLICE_S, FairQueue, RequestLimits, Slots


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


Work = tuple[str, float]


def served(work: list[Work], late: Work, shares: dict[str, float]) -> list[str]:
    """The order in which requests are executed, if one arrives after the others are queued."""
    clock, order = Clock(), []
    fair_queue = FairQueue(shares, clock)

    async def request(user: str, cost_s: float) -> None:
        async with fair_queue.turn(user):
            order.append(user)
            clock.now += cost_s

    async def story() -> None:
        tasks = [asyncio.create_task(request(*each)) for each in work]
        await asyncio.sleep(0)
        tasks.append(asyncio.create_task(request(*late)))
        await asyncio.gather(*tasks)

    asyncio.run(story())
    return order


def test_a_newcomer_is_served_before_the_queue_of_a_noisy_user() -> None:
    order = served([("noisy", 0.004)] * 200, ("quiet", 0.001), {})
    assert order.index("quiet") < 8
    assert 201 == len(order)


def test_a_slow_request_is_paid_for_by_later_ones_of_its_user() -> None:
    work = [("slow", 0.5), *[("slow", 0.01), ("other", 0.01)] * 30]
    order = served(work, ("late", 0.01), {})
    assert {"other", "late"} >= set(order[1:30])


def test_the_controllers_have_a_larger_share() -> None:
    work = [("system", 0.01), ("user", 0.01)] * 50
    order = served(work, ("late", 0.01), {"system": 4.0})
    assert order[:50].count("system") > 30


def test_a_long_request_lets_others_in() -> None:
    clock, order = Clock(), []
    fair_queue = FairQueue({}, clock)

    async def long() -> None:
        async with fair_queue.turn("long") as turn:
            for at in range(5):
                order.append(f"part {at}")
                clock.now += SLICE_S
                await turn.pause()

    async def short() -> None:
        async with fair_queue.turn("short"):
            order.append("short")

    async def story() -> None:
        await asyncio.gather(long(), short())

    asyncio.run(story())
    assert order.index("short") <= 2


def test_a_cancelled_request_leaves_the_queue() -> None:
    clock = Clock()
    fair_queue = FairQueue({}, clock)

    async def request() -> None:
        async with fair_queue.turn("a"):
            clock.now += 1

    async def story() -> None:
        tasks = [asyncio.create_task(request()) for _ in range(10)]
        await asyncio.sleep(0)
        for each in tasks[5:]:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)

    asyncio.run(story())
    assert (0, 5) == (fair_queue.waiting, clock.now)


def test_requests_beyond_the_queue_are_rejected_with_429() -> None:
    slots = Slots(RequestLimits(executing=1, waiting=1, streams=1))

    async def story() -> None:
        async with slots.request("ann"):
            waiting = asyncio.create_task(anext_of(slots))
            await asyncio.sleep(0)
            with pytest.raises(StatusError) as refusal:
                async with slots.request("ann"):
                    pass
            assert (429, 1) == (refusal.value.code, refusal.value.details["retryAfterSeconds"])
            async with slots.request("bob"):
                pass
        await waiting
        async with slots.stream("ann"):
            with pytest.raises(StatusError):
                async with slots.stream("ann"):
                    pass
        assert (0, 0) == (slots.executing, slots.streams)

    async def anext_of(slots: Slots) -> None:
        async with slots.request("ann"):
            pass

    asyncio.run(story())
    assert {"queue": 1, "streams": 1} == slots.rejected


def test_a_waiting_request_that_is_cancelled_passes_its_slot_on() -> None:
    slots = Slots(RequestLimits(executing=1, waiting=5))

    async def request() -> None:
        async with slots.request("ann"):
            await asyncio.sleep(0)

    async def story() -> None:
        tasks = [asyncio.create_task(request()) for _ in range(5)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        tasks[0].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert 0 == slots.executing

    asyncio.run(story())
