# SPDX-License-Identifier: Apache-2.0
"""Shares the threads that compute reports, and encode metrics, among users."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import TypeVar
from weakref import WeakValueDictionary

AT_ONCE = 2
"""The number of reports that are computed at the same time, for all users together."""
T = TypeVar("T")


class ReportTurns:
    """Computes one report of each user at a time, and few in total. Others wait."""

    def __init__(self, at_once: int = AT_ONCE) -> None:
        self._all = asyncio.Semaphore(at_once)
        self._own: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def run(self, user: str, work: Callable[[], T]) -> T:
        """Return the result of the work, which runs in a thread when it is the user's turn."""
        return await self.run_prepared(user, lambda: work)

    async def run_prepared(self, user: str, prepare: Callable[[], Callable[[], T]]) -> T:
        """Do the same with the work that `prepare` returns, which is called in the event loop."""
        own = self._own.setdefault(user, asyncio.Lock())
        async with AsyncExitStack() as held:
            await held.enter_async_context(own)
            await held.enter_async_context(self._all)
            running = asyncio.create_task(_finished(held.pop_all(), prepare))
        # A thread cannot be stopped: the turn of a client that has left ends with the work.
        return await asyncio.shield(running)


async def _finished(held: AsyncExitStack, prepare: Callable[[], Callable[[], T]]) -> T:
    async with held:
        return await asyncio.to_thread(prepare())
