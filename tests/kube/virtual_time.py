# SPDX-License-Identifier: Apache-2.0
"""Virtual time that advances only when all tasks wait."""

from __future__ import annotations

import asyncio
import heapq
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


class Stuck(AssertionError):
    """Every task waits for another one: no test can go on from there."""


class VirtualClock:
    """A `Clock` that jumps to the next sleeper. `skew` moves its wall time alone."""

    def __init__(self, start: datetime = NOON) -> None:
        self._start = start
        self._now = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0
        self.skew = timedelta(0)

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._now) + self.skew

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            return await asyncio.sleep(0)
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._now + seconds, self._count, woken))
        return await woken

    def pass_by(self, seconds: float) -> None:
        """Let time pass while the event loop is stuck, as when the machine was suspended."""
        self._now += seconds

    def jump(self) -> bool:
        """Go to the time of the next sleeper and wake it; False when nobody sleeps."""
        while self._sleepers:
            due, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                self._now = max(self._now, due)
                woken.set_result(None)
                return True
        return False


class _JumpingSelector(selectors.DefaultSelector):
    """Where the loop would wait for the world, lets the clock jump instead."""

    clock: VirtualClock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0) or self.clock.jump():
            return ready
        if timeout is None:
            raise Stuck
        return super().select(timeout)


def run(clock: VirtualClock, main: Coroutine[Any, Any, T]) -> T:
    """Run to the end in virtual time; raises Stuck when everything waits for everything."""

    def loop() -> asyncio.AbstractEventLoop:
        selector = _JumpingSelector()
        selector.clock = clock
        return asyncio.SelectorEventLoop(selector)

    with asyncio.Runner(loop_factory=loop) as runner:
        return runner.run(main)


async def settled() -> None:
    """Return when every task has done what it can without time passing."""
    for _ in range(100):
        await asyncio.sleep(0)
