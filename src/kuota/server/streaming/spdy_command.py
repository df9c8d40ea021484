# SPDX-License-Identifier: Apache-2.0
"""The streams of exec and attach on a SPDY connection, for clients without WebSockets.

The client opens one stream for each purpose and names it in the header `streamType`.
"""

from __future__ import annotations

import asyncio

import msgspec

from kuota.api.base import Json

from .protocols import Disconnected
from .remote_command import STDERR, STDOUT, CommandOptions, SizeDecoder, TerminalSize
from .spdy import SpdyConnection, SpdyStream

TYPE = "streamtype"
_CREATION_S = 30.0
_NAMES = {STDOUT: "stdout", STDERR: "stderr"}


class SpdyCommandStreams:
    """The streams of a command on a SPDY connection. It is a `CommandStreams`."""

    def __init__(self, streams: dict[str, SpdyStream]) -> None:
        self._streams = streams
        self._decoder = SizeDecoder()
        self._sizes: list[TerminalSize] = []

    async def read_stdin(self) -> bytes:
        return await self._streams["stdin"].read()

    async def read_size(self) -> TerminalSize | None:
        while not self._sizes:
            content = await self._streams["resize"].read()
            if not content:
                return None
            self._sizes = self._decoder.feed(content)
        return self._sizes.pop(0)

    async def write(self, channel: int, content: bytes) -> None:
        await self._streams[_NAMES[channel]].write(content)

    async def conclude(self, status: Json) -> None:
        await self._streams["error"].write(msgspec.json.encode(status))
        for each in self._streams.values():
            await each.finish()


async def opened_streams(connection: SpdyConnection, options: CommandOptions) -> SpdyCommandStreams:
    """The streams of the client, once it has opened all that its options call for.

    Raises Disconnected if it does not.
    """
    wanted = {"error"} | {name for name in _NAMES.values() if getattr(options, name)}
    wanted |= {"stdin"} if options.stdin else set()
    wanted |= {"resize"} if options.tty else set()
    found: dict[str, SpdyStream] = {}
    try:
        async with asyncio.timeout(_CREATION_S):
            while wanted - found.keys():
                stream = await connection.accept()
                found[stream.headers.get(TYPE, "")] = stream
    except TimeoutError:
        raise Disconnected(f"the client opened no streams for {wanted - found.keys()}") from None
    return SpdyCommandStreams(found)
