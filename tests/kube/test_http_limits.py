# SPDX-License-Identifier: Apache-2.0
"""Responses of the HTTP transport that never end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from hang import HANG_S
from kube.raw_server import request, talking
from kuota.kube.config import Connection
from kuota.kube.errors import Unreachable
from kuota.kube.http_client import HttpTransport
from kuota.kube.requests import fetching

GET = fetching("/x")


class Endless:
    """A server whose answer begins like this and never ends. Counts what it could send."""

    def __init__(self, begin: bytes, piece: bytes) -> None:
        self._begin, self._piece = begin, piece
        self.sent = 0

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(self._begin)
        while self.sent < 64 << 20:
            writer.write(self._piece)
            await writer.drain()
            self.sent += len(self._piece)


OK, KIB = b"HTTP/1.1 200 OK\r\n", b"x" * 1024
HEADS = {
    "headers": (OK, b"a: " + KIB + b"\r\n"),
    "one header": (OK + b"a: ", KIB),
    "interim responses": (b"", b"HTTP/1.1 103 Early Hints\r\na: " + KIB + b"\r\n\r\n"),
    "body of an error": (b"HTTP/1.1 500 Oops\r\n\r\n", KIB),
}
BODIES = {
    "body": (OK + b"\r\n", KIB),
    "chunks": (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"400\r\n" + KIB + b"\r\n"),
}


def sent_until_given_up(begin: bytes, piece: bytes, read: Callable[..., Awaitable[None]]) -> int:
    async def main() -> int:
        server = Endless(begin, piece)
        async with talking(server.talk) as port:
            connection = Connection(server=f"http://127.0.0.1:{port}")
            transport = HttpTransport(connection, most_bytes=4 << 20)
            with pytest.raises(Unreachable, match="more than"):
                async with asyncio.timeout(HANG_S):
                    await read(transport)
            await transport.close()
        return server.sent

    return asyncio.run(main())


@pytest.mark.parametrize("name", [*HEADS, *BODIES])
def test_an_answer_without_end_does_not_fill_memory(name: str) -> None:
    async def read(transport: HttpTransport) -> None:
        await transport.send(GET)

    assert sent_until_given_up(*(HEADS | BODIES)[name], read) < 16 << 20


@pytest.mark.parametrize("name", HEADS)
def test_a_stream_that_never_begins_does_not_fill_memory(name: str) -> None:
    async def read(transport: HttpTransport) -> None:
        async for _ in transport.stream(GET):
            pytest.fail("it has begun")

    assert sent_until_given_up(*HEADS[name], read) < 16 << 20
