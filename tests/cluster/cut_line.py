# SPDX-License-Identifier: Apache-2.0
"""A network connection to a server that can be cut and mended."""

from __future__ import annotations

import asyncio
from contextlib import suppress

CHUNK = 64 << 10


class Line:
    """Forwards connections to a port of this machine. Listens on `port`, unless it is cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self.port = 0

    async def mend(self) -> None:
        """Accept connections."""
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """Break all connections, and refuse new ones."""
        if self._server is not None:
            self._server.close()
        self._server = None
        for each in list(self._open):
            each.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            there, onward = await asyncio.open_connection("127.0.0.1", self._target)
            self._open.add(onward)
            with suppress(OSError):
                await asyncio.gather(_copied(reader, onward), _copied(there, writer))
            onward.transport.abort()
            self._open.discard(onward)
        except OSError:
            pass
        finally:
            writer.transport.abort()
            self._open.discard(writer)


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    writer.close()
