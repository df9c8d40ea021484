# SPDX-License-Identifier: Apache-2.0
"""A SPDY/3.1 connection: accepts the streams that a client opens on a link."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from . import spdy_frames as frames
from .inbox import CHUNK, Inbox, Room
from .protocols import Disconnected, Link

MOST_STREAMS = 256
"""The number of streams that a client may have open on one connection."""


class SpdyStream:
    """A stream that the client has opened. It is a `Duplex`."""

    def __init__(self, connection: SpdyConnection, id: int, headers: Mapping[str, str]) -> None:
        self.id = id
        self.headers = headers
        self.inbox = Inbox(connection.room)
        self._connection = connection
        self._finished = False

    async def read(self) -> bytes:
        return await self.inbox.read()

    async def write(self, content: bytes) -> None:
        for at in range(0, len(content), CHUNK):
            await self._connection.send(frames.data(self.id, content[at : at + CHUNK]))

    async def finish(self) -> None:
        if not self._finished:
            self._finished = True
            await self._connection.send(frames.data(self.id, b"", finished=True))

    async def close(self) -> None:
        """Finish the stream, and drop what the client may still send on it."""
        self.inbox.abandon()
        self._connection.forget(self)
        await self.finish()


class SpdyConnection:
    """Serves one link. `run` receives frames until the client disconnects."""

    def __init__(self, link: Link) -> None:
        self.room = Room()
        self._link = link
        self._encoder = frames.Encoder()
        self._decoder = frames.Decoder()
        self._streams: dict[int, SpdyStream] = {}
        self._opened: asyncio.Queue[SpdyStream] = asyncio.Queue()
        self._last = 0
        self._turn = asyncio.Lock()

    async def accept(self) -> SpdyStream:
        """The next stream that the client opens."""
        return await self._opened.get()

    async def run(self) -> None:
        """Receive frames. Raises Disconnected or SpdyError at the end."""
        try:
            while True:
                for frame in self._decoder.feed(await self._link.receive()):
                    await self._received(frame)
        finally:
            for stream in self._streams.values():
                stream.inbox.end()

    async def send(self, content: bytes) -> None:
        # Compressed headers must arrive in the order in which they were compressed.
        async with self._turn:
            await self._link.send(content)

    def forget(self, stream: SpdyStream) -> None:
        """Free the id of a stream that the server has closed."""
        self._streams.pop(stream.id, None)

    async def _received(self, frame: frames.Frame) -> None:
        match frame:
            case frames.Opened():
                await self._open(frame)
            case frames.Received():
                stream = self._streams.get(frame.stream)
                if stream is not None:
                    await stream.inbox.put(frame.content)
                    if frame.finished:
                        stream.inbox.end()
            case frames.Reset():
                stream = self._streams.pop(frame.stream, None)
                if stream is not None:
                    stream.inbox.abandon()
            case frames.Pinged():
                # Pings with even ids would answer ours, and we send none.
                if frame.id % 2:
                    await self.send(frames.ping(frame.id))
            case frames.GoneAway():
                if not self._streams:
                    raise Disconnected

    async def _open(self, frame: frames.Opened) -> None:
        if frame.stream <= self._last or frame.stream % 2 == 0:
            raise frames.SpdyError(f"stream {frame.stream} is not a new stream of a client")
        self._last = frame.stream
        # A stream that was reset still waits to be accepted.
        if max(len(self._streams), self._opened.qsize()) >= MOST_STREAMS:
            await self.send(frames.reset(frame.stream, frames.REFUSED_STREAM))
            return
        stream = SpdyStream(self, frame.stream, frame.headers)
        if frame.finished:
            stream.inbox.end()
        self._streams[frame.stream] = stream
        async with self._turn:
            await self._link.send(self._encoder.accepted(frame.stream))
        self._opened.put_nowait(stream)
