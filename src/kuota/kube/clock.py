# SPDX-License-Identifier: Apache-2.0
"""Where time comes from. Whoever waits or measures takes a `Clock`, so that tests can jump."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Clock(Protocol):
    """Wall time for people, monotonic time for measuring, and waiting."""

    def now(self) -> datetime:
        """The wall time, in UTC. It may jump either way: write it down, never measure with it."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""

    async def sleep(self, seconds: float) -> None:
        """Return after that long; at once, but not before other tasks had a turn, for <= 0."""


# Where there is one, the clock that goes on while the machine sleeps: a lease runs out then, too.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(_STEADY)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """What `work` returns; cancels it and raises TimeoutError when it takes longer.

    The cancelled work has ended when this returns, unless it refuses to.
    """
    task = asyncio.ensure_future(work)
    alarm = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait((task, alarm), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        alarm.result()
        raise TimeoutError(f"took longer than {seconds:g} s")
    finally:
        task.cancel()
        alarm.cancel()
        await asyncio.gather(task, alarm, return_exceptions=True)


def time_text(moment: datetime) -> str:
    """The moment as Kubernetes' Time writes it: in whole seconds, and Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(moment: datetime) -> str:
    """The moment as Kubernetes' MicroTime writes it: six digits of a second, and Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
