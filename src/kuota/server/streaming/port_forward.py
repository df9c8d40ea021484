# SPDX-License-Identifier: Apache-2.0
"""Forwards connections to ports on which a pod listens, over SPDY or over WebSocket channels.

On SPDY, a client opens two streams per connection: one for data and one for errors. They have the
same `requestID` and name the `port`. On a WebSocket without SPDY (`v4.channel.k8s.io`, which the
Python client uses), the query names the ports, and each has two channels.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from .inbox import CHUNK, Inbox, Room
from .protocols import Disconnected, Duplex, Link
from .spdy import SpdyConnection, SpdyStream
from .spdy_command import TYPE

SPDY_VERSION = "portforward.k8s.io"
TUNNEL = f"SPDY/3.1+{SPDY_VERSION}"
MOST_CONNECTIONS = 64
"""The number of connections that one client may have open through one port-forward."""
MOST_PORTS = 32

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Connect = Callable[[int], Awaitable[Connection]]
"""Connects to a port of the pod. Raises ConnectionError with a message for the client."""


async def forward(connect: Connect, port: int, data: Duplex, error: Duplex) -> None:
    """Serve one connection of the client, until either side has ended it."""
    try:
        reader, writer = await connect(port)
    except ConnectionError as refusal:
        await error.write(str(refusal).encode())
    else:
        try:
            await _joined(reader, writer, data)
        finally:
            writer.transport.abort()
    await error.finish()
    await data.finish()


async def _joined(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, data: Duplex) -> None:
    """Copy in both directions until the pod has sent everything, or the client is gone."""
    sending = asyncio.ensure_future(_to_pod(writer, data))
    try:
        with suppress(ConnectionError):
            while piece := await reader.read(CHUNK):
                await data.write(piece)
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)


async def _to_pod(writer: asyncio.StreamWriter, data: Duplex) -> None:
    with suppress(ConnectionError):
        while piece := await data.read():
            writer.write(piece)
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()


async def serve_spdy(connection: SpdyConnection, connect: Connect) -> None:
    """Serve the streams of a client until it is cancelled."""
    waiting: dict[str, dict[str, SpdyStream]] = {}
    tasks = 0

    async def serve(pair: dict[str, SpdyStream]) -> None:
        nonlocal tasks
        tasks += 1
        try:
            await forward(_limited(connect, tasks), _port(pair), pair["data"], pair["error"])
        except Disconnected:
            pass
        finally:
            tasks -= 1
            with suppress(Disconnected):
                for each in pair.values():
                    await each.close()

    async with asyncio.TaskGroup() as group:
        while True:
            stream = await connection.accept()
            request = stream.headers.get("requestid", "")
            pair = waiting.setdefault(request, {})
            pair[stream.headers.get(TYPE, "")] = stream
            if {"data", "error"} <= pair.keys():
                del waiting[request]
                group.create_task(serve(pair))
            elif len(waiting) > MOST_CONNECTIONS:
                for each in waiting.pop(next(iter(waiting))).values():
                    await each.close()


def _limited(connect: Connect, connections: int) -> Connect:
    async def refuse(port: int) -> Connection:
        raise ConnectionError(
            f"this port-forward has {MOST_CONNECTIONS} open connections, which is the limit; "
            "close some of them"
        )

    return connect if connections <= MOST_CONNECTIONS else refuse


def _port(pair: dict[str, SpdyStream]) -> int:
    text = pair["data"].headers.get("port", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 5 else 0


class _Channel:
    """A pair of channels of a WebSocket. It is a `Duplex` for one of them."""

    def __init__(self, link: Link, room: Room, number: int) -> None:
        self.inbox = Inbox(room)
        self._link = link
        self._number = bytes([number])

    async def read(self) -> bytes:
        return await self.inbox.read()

    async def write(self, content: bytes) -> None:
        for at in range(0, len(content), CHUNK):
            await self._link.send(self._number + content[at : at + CHUNK])

    async def finish(self) -> None:
        """Do nothing: this protocol cannot close one channel."""


class WebSocketForward:
    """The ports of one WebSocket: port number `i` has the channels `2i` and `2i + 1`."""

    def __init__(self, link: Link, ports: tuple[int, ...]) -> None:
        self._link = link
        self._ports = ports
        room = Room()
        self._channels = [_Channel(link, room, number) for number in range(2 * len(ports))]

    async def run(self) -> None:
        """Receive messages. Raises Disconnected at the end."""
        try:
            while True:
                message = await self._link.receive()
                # Clients send nothing on the channels for errors, which have odd numbers.
                if message and message[0] % 2 == 0 and message[0] < len(self._channels):
                    await self._channels[message[0]].inbox.put(message[1:])
        finally:
            for each in self._channels:
                each.inbox.end()

    async def serve(self, connect: Connect) -> None:
        """Forward every port until all connections have ended."""
        for index, port in enumerate(self._ports):
            # Kubernetes announces each channel with the number of its port.
            for channel in self._channels[2 * index : 2 * index + 2]:
                await channel.write(port.to_bytes(2, "little"))
        async with asyncio.TaskGroup() as group:
            for index, port in enumerate(self._ports):
                data, error = self._channels[2 * index : 2 * index + 2]
                group.create_task(forward(connect, port, data, error))
