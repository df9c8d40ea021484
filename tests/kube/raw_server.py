# SPDX-License-Identifier: Apache-2.0
"""A TCP server with a byte-by-byte script, for behavior that HTTP servers do not have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def talking(talk: Talk) -> AsyncGenerator[int, None]:
    """Let `talk` handle every connection; gives the port. It may end by a lost connection."""

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handled, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


async def request(reader: asyncio.StreamReader) -> bytes:
    """The head of the next request, and its body as far as it says how long that is."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return head + await reader.readexactly(int(line.partition(b":")[2]))
    return head


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    """A response with a length."""
    lines = [b"HTTP/1.1 " + status, b"Content-Length: %d" % len(body), *headers]
    return b"\r\n".join((*lines, b"", body))
