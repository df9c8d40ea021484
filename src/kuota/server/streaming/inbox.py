# SPDX-License-Identifier: Apache-2.0
"""Buffers what a client sends until it is read."""

from __future__ import annotations

import asyncio
from collections import deque

CHUNK = 32 << 10


class Inbox:
    """Bytes that have arrived and were not read yet. Whoever fills it waits for the reader.

    One reader at a time.
    """

    def __init__(self, limit: int = 256 << 10) -> None:
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._limit = limit
        self._ended = False
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()

    async def put(self, content: bytes) -> None:
        """Add bytes, after the reader has made room for them."""
        while not self._room.is_set() and not self._ended:
            await self._room.wait()
        if content and not self._ended:
            self._pieces.append(content)
            self._bytes += len(content)
            self._changed.set()
            if self._bytes >= self._limit:
                self._room.clear()

    def end(self) -> None:
        """Nothing more will arrive."""
        self._ended = True
        self._changed.set()
        self._room.set()

    def abandon(self) -> None:
        """Nobody reads any more: drop what has arrived, and whatever follows."""
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
        self._bytes -= len(piece)
        if self._bytes < self._limit:
            self._room.set()
        return piece
