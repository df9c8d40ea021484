# SPDX-License-Identifier: Apache-2.0
"""Changes of the store, and watches that receive each of them once, in the order of the log.

A watch that keeps up receives changes as they are committed. A watch that falls behind, by number
or by bytes, is no longer notified, which bounds its memory: it reads from the log when it gets
there, and gets Gone if the log was compacted in the meantime.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol
from weakref import WeakSet

import msgspec

from kuota.api.base import Json, Key

ChangeType = Literal["ADDED", "MODIFIED", "DELETED"]

QUEUE = 1024
"""The number of changes that a watch buffers before it counts as behind."""

STRIDE = 256
"""The number of changes that are read from the log at once."""

MOST_BYTES = 1 << 20
"""The size of the changes that a watch buffers or reads at once. One larger change is possible."""


def decoded(body: bytes) -> Json:
    """The decoded object, which the caller may change."""
    obj: Json = msgspec.json.decode(body)
    return obj


class Change(msgspec.Struct, frozen=True, gc=False):
    """One entry of the log, shared by all watches.

    `body` is the object after the change; for DELETED, its last state at the revision of the
    deletion. `replaced` is the previous state, None for ADDED.
    """

    revision: int
    type: ChangeType
    resource: str
    key: Key
    body: bytes
    replaced: bytes | None = None

    @property
    def size(self) -> int:
        """The bytes of both states."""
        return len(self.body) + len(self.replaced or b"")

    @property
    def object(self) -> Json:
        """The object, decoded at each access. The caller may change it."""
        return decoded(self.body)

    @property
    def previous(self) -> Json | None:
        """The previous object, decoded at each access; None for ADDED."""
        return None if self.replaced is None else decoded(self.replaced)


class History(Protocol):
    """The log that a watch reads when it is behind."""

    @property
    def revision(self) -> int: ...

    def changes(
        self,
        since: int,
        resource: str | None,
        namespace: str | None,
        limit: int | None,
        most_bytes: int | None,
    ) -> Sequence[Change]: ...


class Watch(AsyncIterator[Change]):
    """Changes after a revision, for one reader. Ends when it or the store is closed.

    Raises Gone if the log no longer contains what this watch must read next.
    """

    def __init__(
        self, history: History, resource: str | None, namespace: str | None, since: int
    ) -> None:
        self._history = history
        self._resource = resource
        self._namespace = namespace
        self._read = since  # while behind: up to here it was handed out, or is queued
        self._behind = since < history.revision
        self._queue: deque[Change] = deque()
        self.buffered_bytes = 0
        self._waiter: asyncio.Future[None] | None = None
        self.closed = False

    @property
    def revision(self) -> int:
        """All relevant changes up to this revision have been delivered."""
        if self._queue:
            return self._queue[0].revision - 1
        return self._read if self._behind else self._history.revision

    def pending(self) -> list[Change]:
        """The changes that are available without waiting."""
        self._fill()
        changes = list(self._queue)
        self._clear()
        return changes

    async def batch(self) -> list[Change]:
        """The next changes, as soon as there are any; empty at the end."""
        while not (changes := self.pending()) and not self.closed:
            await self._wait()
        return changes

    async def __anext__(self) -> Change:
        self._fill()
        while not self._queue:
            if self.closed:
                raise StopAsyncIteration
            await self._wait()
            self._fill()
        change = self._queue.popleft()
        self.buffered_bytes -= change.size
        return change

    def close(self) -> None:
        """Close this watch. Its reader receives queued changes, then the end."""
        self.closed = True
        self._behind = False
        self._wake()

    def offer(self, change: Change) -> None:
        """Receive a committed change. Called by the feed."""
        if self._namespace not in (None, change.key.namespace):
            return
        full = len(self._queue) >= QUEUE or self.buffered_bytes >= MOST_BYTES
        if not self._behind and full:
            self._read = self._queue[0].revision - 1
            self._clear()
            self._behind = True
        if not self._behind:
            self._queue.append(change)
            self.buffered_bytes += change.size
        self._wake()

    def _clear(self) -> None:
        self._queue.clear()
        self.buffered_bytes = 0

    def _fill(self) -> None:
        if self._queue or not self._behind:
            return
        found = self._history.changes(
            self._read, self._resource, self._namespace, STRIDE, MOST_BYTES
        )
        self._queue.extend(found)
        self.buffered_bytes = sum(change.size for change in found)
        self._behind = len(found) == STRIDE or self.buffered_bytes >= MOST_BYTES
        if self._behind:
            self._read = found[-1].revision

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class ChangeFeed:
    """The watches of a store. A watch without references need not be closed."""

    def __init__(self) -> None:
        self._watches: dict[str | None, WeakSet[Watch]] = {None: WeakSet()}

    @property
    def watchers(self) -> int:
        return sum(not each.closed for some in self._watches.values() for each in some)

    @property
    def buffered_bytes(self) -> int:
        return sum(each.buffered_bytes for some in self._watches.values() for each in some)

    def join(self, resource: str | None, watch: Watch) -> None:
        self._watches.setdefault(resource, WeakSet()).add(watch)

    def publish(self, change: Change) -> None:
        """Deliver a committed change to the watches that it concerns."""
        for resource in (change.resource, None):
            for watch in self._watches.get(resource, ()):
                if not watch.closed:
                    watch.offer(change)

    def close(self) -> None:
        for watches in self._watches.values():
            for watch in list(watches):
                watch.close()
