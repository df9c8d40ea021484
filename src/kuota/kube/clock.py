# SPDX-License-Identifier: Apache-2.0
"""Clocks. Code that waits or measures takes a `Clock`, so that tests can control time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from kuota.steady_time import SHARED, SteadyTime

T = TypeVar("T")


class Clock(Protocol):
    """Wall time for people, monotonic time for measuring, and waiting."""

    def now(self) -> datetime:
        """Return the wall time in UTC. It may jump: record it, but never measure with it."""

    def monotonic(self) -> float:
        """Return seconds since a fixed moment; never decreases."""

    async def sleep(self, seconds: float) -> None:
        """Return after this time. For 0 or less, only yield to other tasks."""


# Prefer the clock that continues during system sleep, because leases expire meanwhile.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    """The system clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.clock_gettime(_STEADY)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class SteadyClock:
    """A clock whose wall time does not jump, made from one whose wall time may.

    For everything that compares stored timestamps with the current time.
    """

    def __init__(self, inner: Clock, time: SteadyTime) -> None:
        self._inner = inner
        self._time = time

    def now(self) -> datetime:
        return datetime.fromtimestamp(self._time.now(), UTC)

    def monotonic(self) -> float:
        return self._inner.monotonic()

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


def steady(clock: Clock | None = None) -> Clock:
    """Return the clock without jumps of its wall time; by default, the one of this process."""
    if isinstance(clock, SteadyClock):
        return clock
    if clock is None or type(clock) is SystemClock:
        return SteadyClock(clock or SystemClock(), SHARED)
    given = clock
    return SteadyClock(given, SteadyTime(lambda: given.now().timestamp(), given.monotonic))


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of `work`. After the timeout, cancel it and raise TimeoutError.

    The cancelled work has ended when this returns, unless it suppresses cancellation.
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
    """Format as Kubernetes' Time: whole seconds and Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(moment: datetime) -> str:
    """Format as Kubernetes' MicroTime: microseconds and Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
