# SPDX-License-Identifier: Apache-2.0
"""Who may write about a Workload now: one at a time, so that nobody's write is refused.

Several controllers react to the same change. Taking turns, each makes its write from what the one
before it left; otherwise all but the first would conflict and have to read and think again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType

from kuota.api.base import Key


class Turns:
    """One turn a Workload. Nothing is kept of Workloads that nobody wants to write about."""

    def __init__(self) -> None:
        self._waiting: dict[Key, tuple[asyncio.Lock, int]] = {}

    def of(self, *keys: Key) -> Turn:
        """The turn with all of them, to wait for by `async with`."""
        return Turn(self, keys)

    async def take(self, key: Key) -> None:
        lock, users = self._waiting.get(key) or (asyncio.Lock(), 0)
        self._waiting[key] = lock, users + 1
        try:
            await lock.acquire()
        except BaseException:
            self._leave(key)
            raise

    def give_back(self, key: Key) -> None:
        self._waiting[key][0].release()
        self._leave(key)

    def _leave(self, key: Key) -> None:
        lock, users = self._waiting[key]
        if users == 1:
            del self._waiting[key]
        else:
            self._waiting[key] = lock, users - 1


class Turn:
    """Some Workloads, all at once. Whoever has a turn must not ask for another."""

    def __init__(self, turns: Turns, keys: Iterable[Key]) -> None:
        self._turns = turns
        # Always in the same order, so that no two wait for each other.
        self._keys = sorted(set(keys))
        self._taken: list[Key] = []

    async def __aenter__(self) -> None:
        try:
            for key in self._keys:
                await self._turns.take(key)
                self._taken.append(key)
        except BaseException:
            self._release()
            raise

    async def __aexit__(
        self,
        type_: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._release()

    def _release(self) -> None:
        while self._taken:
            self._turns.give_back(self._taken.pop())
