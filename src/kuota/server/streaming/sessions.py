# SPDX-License-Identifier: Apache-2.0
"""What happens on an upgraded connection: a command (exec, attach), or a port-forward.

A session is created for an authorized request and served once the connection is upgraded. The
number of sessions is limited, in total and per user, and a session without traffic ends.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from kuota.api.status import StatusError, too_many
from kuota.connections import decrement

from .channels import ChannelStreams
from .port_forward import SPDY_VERSION, TUNNEL, Connect, WebSocketForward, serve_spdy
from .protocols import Disconnected, Link
from .remote_command import (
    V4,
    V5,
    CommandFailed,
    CommandOptions,
    CommandStreams,
    RemoteProcess,
    failure,
    serve_command,
)
from .spdy import SpdyConnection
from .spdy_command import opened_streams
from .spdy_frames import SpdyError

MOST_SESSIONS = 256
MOST_PER_USER = 32
IDLE_S = 4 * 3600.0
"""How long a session may last without any traffic, as on a kubelet."""

RECHECK_S = 2.0
"""How often the credentials of the client are checked while its session lasts."""

Start = Callable[[], Awaitable[RemoteProcess]]
"""Starts the process, or attaches to it. Raises CommandFailed."""


class CommandSession:
    """A session that runs a command or attaches to one."""

    websocket_protocols: tuple[str, ...] = (V5, V4)
    spdy_protocols: tuple[str, ...] = (V5, V4)

    def __init__(self, user: str, options: CommandOptions, start: Start) -> None:
        self.user = user
        self._options = options
        self._start = start

    async def over_websocket(self, link: Link, protocol: str) -> None:
        streams = ChannelStreams(link, protocol, self._options)
        await _until_disconnected(streams.run(), self._serve(streams))

    async def over_spdy(self, link: Link) -> None:
        connection = SpdyConnection(link)

        async def serve() -> None:
            await self._serve(await opened_streams(connection, self._options))

        await _until_disconnected(connection.run(), serve())

    async def _serve(self, streams: CommandStreams) -> None:
        try:
            process = await self._start()
        except CommandFailed as error:
            await streams.conclude(failure(str(error)))
        else:
            await serve_command(streams, process, self._options)


class ForwardSession:
    """A session that forwards connections to ports of a pod."""

    spdy_protocols: tuple[str, ...] = (SPDY_VERSION,)

    def __init__(self, user: str, connect: Connect, ports: tuple[int, ...]) -> None:
        self.user = user
        self.websocket_protocols: tuple[str, ...] = (TUNNEL, *((V4,) if ports else ()))
        self._connect = connect
        self._ports = ports

    async def over_websocket(self, link: Link, protocol: str) -> None:
        if protocol == TUNNEL:
            await self.over_spdy(link)
        else:
            channels = WebSocketForward(link, self._ports)
            await _until_disconnected(channels.run(), channels.serve(self._connect))

    async def over_spdy(self, link: Link) -> None:
        connection = SpdyConnection(link)
        await _until_disconnected(connection.run(), serve_spdy(connection, self._connect))


async def _until_disconnected(
    receiving: Coroutine[Any, Any, None], serving: Coroutine[Any, Any, None]
) -> None:
    """Serve until the work is done or the client is gone, and stop both."""
    tasks = [asyncio.ensure_future(each) for each in (receiving, serving)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in tasks:
            each.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for error in ended:
        if isinstance(error, Exception) and not _is_end(error):
            raise error


def _is_end(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return all(_is_end(each) for each in error.exceptions)
    return isinstance(error, Disconnected | SpdyError | asyncio.CancelledError)


class SessionLimits(msgspec.Struct):
    """Counts the open sessions of a server."""

    most: int = MOST_SESSIONS
    most_per_user: int = MOST_PER_USER
    idle_s: float = IDLE_S
    recheck_s: float = RECHECK_S
    open: Counter[str] = msgspec.field(default_factory=Counter)

    @contextmanager
    def held(self, user: str) -> Iterator[None]:
        """Count one session. Raises StatusError if there are too many."""
        if self.open[user] >= self.most_per_user:
            raise _too_many(f'user "{user}" has {self.open[user]} open sessions')
        if self.open.total() >= self.most:
            raise _too_many(f"the server has {self.open.total()} open sessions")
        self.open[user] += 1
        try:
            yield
        finally:
            decrement(self.open, user)


def _too_many(what: str) -> StatusError:
    message = f"{what} of exec, attach and port-forward, which is the limit; close some of them"
    return too_many(message)


class Active:
    """A link that ends its session after a time without traffic in either direction.

    The session also ends when `may_go_on`, which is called every `recheck_s`, returns False.
    """

    def __init__(self, link: Link, limits: SessionLimits, may_go_on: Callable[[], bool]) -> None:
        self._link = link
        self._limits = limits
        self._may_go_on = may_go_on
        self._limit = asyncio.timeout(limits.idle_s)

    async def receive(self) -> bytes:
        content = await self._link.receive()
        self._touch()
        return content

    async def send(self, content: bytes) -> None:
        await self._link.send(content)
        self._touch()

    async def attended(self, serving: Coroutine[Any, Any, None]) -> None:
        """Run the work until it is done, nothing has happened for too long, or access ends."""
        work = asyncio.ensure_future(serving)
        try:
            async with self._limit:
                while self._may_go_on() and not work.done():
                    await asyncio.wait([work], timeout=self._limits.recheck_s)
        except TimeoutError:
            pass
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work

    def _touch(self) -> None:
        self._limit.reschedule(asyncio.get_running_loop().time() + self._limits.idle_s)
