# SPDX-License-Identifier: Apache-2.0
"""The channels of exec and attach on a WebSocket: `v5.channel.k8s.io` and `v4.channel.k8s.io`.

Each binary message begins with the number of its channel. With version 5, a message on channel 255
closes the channel that it names, which is how a client ends the input of a command.
"""

from __future__ import annotations

import asyncio

import msgspec

from kuota.api.base import Json

from .inbox import CHUNK, Inbox
from .protocols import Link
from .remote_command import V5, CommandOptions, SizeDecoder, TerminalSize

STDIN, ERROR, RESIZE, CLOSE = 0, 3, 4, 255
_MOST_SIZES = 8


class ChannelStreams:
    """The streams of a command on a WebSocket. It is a `CommandStreams`."""

    def __init__(self, link: Link, version: str, options: CommandOptions) -> None:
        self._link = link
        self._closes = version == V5
        self._options = options
        self._stdin = Inbox()
        self._sizes: asyncio.Queue[TerminalSize] = asyncio.Queue(_MOST_SIZES)
        self._decoder = SizeDecoder()

    async def run(self) -> None:
        """Receive messages. Raises Disconnected at the end."""
        try:
            while True:
                await self._received(await self._link.receive())
        finally:
            self._stdin.end()

    async def _received(self, message: bytes) -> None:
        channel, content = message[:1], message[1:]
        if channel == bytes([STDIN]) and self._options.stdin:
            await self._stdin.put(content)
        elif channel == bytes([RESIZE]) and self._options.tty:
            for size in self._decoder.feed(content):
                if self._sizes.full():
                    self._sizes.get_nowait()  # Only the last size matters.
                self._sizes.put_nowait(size)
        elif channel == bytes([CLOSE]) and self._closes and content == bytes([STDIN]):
            self._stdin.end()

    async def read_stdin(self) -> bytes:
        return await self._stdin.read()

    async def read_size(self) -> TerminalSize | None:
        return await self._sizes.get()

    async def write(self, channel: int, content: bytes) -> None:
        for at in range(0, len(content), CHUNK):
            await self._link.send(bytes([channel]) + content[at : at + CHUNK])

    async def conclude(self, status: Json) -> None:
        await self._link.send(bytes([ERROR]) + msgspec.json.encode(status))
