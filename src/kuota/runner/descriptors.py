# SPDX-License-Identifier: Apache-2.0
"""Reads and writes pipes, terminals and sockets without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

CHUNK = 32 << 10


class Descriptor:
    """A descriptor that this process owns. One reader and one writer at a time."""

    def __init__(self, fd: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self._loop = asyncio.get_running_loop()
        self._closed = False
        self._waiters: set[asyncio.Future[None]] = set()

    async def read(self) -> bytes:
        """The next bytes; b"" at the end, which a terminal reports as an error."""
        while not self._closed:
            try:
                return os.read(self.fd, CHUNK)
            except BlockingIOError:
                await self._ready(self._loop.add_reader, self._loop.remove_reader)
            except OSError:
                return b""
        return b""

    async def write(self, content: bytes) -> None:
        """Write everything. What nobody reads any more is dropped."""
        view = memoryview(content)
        while view and not self._closed:
            try:
                view = view[os.write(self.fd, view) :]
            except BlockingIOError:
                await self._ready(self._loop.add_writer, self._loop.remove_writer)
            except OSError:
                return

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            for each in self._waiters:
                _settle(each)
            self._loop.remove_reader(self.fd)
            self._loop.remove_writer(self.fd)
            os.close(self.fd)

    async def _ready(self, add: Callable[..., object], remove: Callable[[int], object]) -> None:
        ready: asyncio.Future[None] = self._loop.create_future()
        add(self.fd, _settle, ready)
        self._waiters.add(ready)
        try:
            await ready
        finally:
            self._waiters.discard(ready)
            if not self._closed:
                remove(self.fd)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
