# SPDX-License-Identifier: Apache-2.0
"""Buffers what a client sends until it is read. All streams of a connection share one limit."""

from __future__ import annotations

import asyncio
from collections import deque

CHUNK = 32 << 10
MOST_BUFFERED = 256 << 10


class Room:
    """Counts the bytes in the inboxes of one connection."""

    def __init__(self, limit: int = MOST_BUFFERED) -> None:
        self._limit = limit
        self._bytes = 0
        self._available = asyncio.Event()
        self._available.set()

    async def wait(self) -> None:
        """Wait until there is room."""
        await self._available.wait()

    def take(self, count: int) -> None:
        self._bytes += count
        if self._bytes >= self._limit:
            self._available.clear()

    def free(self, count: int) -> None:
        self._bytes -= count
        if self._bytes < self._limit:
            self._available.set()


class Inbox:
    """Bytes that have arrived and were not read yet. Whoever fills it waits for room.

    One reader at a time.
    """

    def __init__(self, room: Room | None = None) -> None:
        self._room = room or Room()
        self._pieces: deque[bytes] = deque()
        self._ended = False
        self._changed = asyncio.Event()

    async def put(self, content: bytes) -> None:
        """Add bytes, after the readers of the connection have made room for them."""
        await self._room.wait()
        if content and not self._ended:
            self._pieces.append(content)
            self._room.take(len(content))
            self._changed.set()

    def end(self) -> None:
        """Nothing more will arrive."""
        self._ended = True
        self._changed.set()

    def abandon(self) -> None:
        """Nobody reads any more: drop what has arrived, and whatever follows."""
        self._room.free(sum(map(len, self._pieces)))
        self._pieces.clear()
        self.end()

    async def read(self) -> bytes:
        """The next bytes; b"" at the end."""
        while not self._pieces:
            if self._ended:
                return b""
            self._changed.clear()
            await self._changed.wait()
        piece = self._pieces.popleft()
        self._room.free(len(piece))
        return piece
