# SPDX-License-Identifier: Apache-2.0
"""Locks by object key: one writer at a time for each Workload.

Several controllers react to the same change. With a lock, each of them computes its write from the
object that the previous one left. Without it, all but the first would get a Conflict and retry.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import TracebackType

from kuota.api.base import Key


class KeyedLocks:
    """One lock for each key. A lock exists only while a task holds it or waits for it."""

    def __init__(self) -> None:
        self._by_key: dict[Key, tuple[asyncio.Lock, int]] = {}

    def hold(self, *keys: Key) -> LockSet:
        """Return a context manager that holds the locks of all these keys (`async with`)."""
        return LockSet(self, keys)

    async def acquire(self, key: Key) -> None:
        lock, users = self._by_key.get(key) or (asyncio.Lock(), 0)
        self._by_key[key] = lock, users + 1
        try:
            await lock.acquire()
        except BaseException:
            self._forget_user(key)
            raise

    def release(self, key: Key) -> None:
        self._by_key[key][0].release()
        self._forget_user(key)

    def _forget_user(self, key: Key) -> None:
        lock, users = self._by_key[key]
        if users == 1:
            del self._by_key[key]
        else:
            self._by_key[key] = lock, users - 1


class LockSet:
    """The locks of several keys. A task that holds a LockSet must not ask for another."""

    def __init__(self, locks: KeyedLocks, keys: Iterable[Key]) -> None:
        self._locks = locks
        # Acquire in a fixed order, so that two tasks cannot deadlock.
        self._keys = sorted(set(keys))
        self._taken: list[Key] = []

    async def __aenter__(self) -> None:
        try:
            for key in self._keys:
                await self._locks.acquire(key)
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
            self._locks.release(self._taken.pop())
