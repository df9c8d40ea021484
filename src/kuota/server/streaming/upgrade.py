# SPDX-License-Identifier: Apache-2.0
"""Upgrades an HTTP connection to WebSocket or SPDY/3.1, and serves a session on it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping

from aiohttp import WSMsgType, web

from kuota.api.status import bad_request

from .protocols import Disconnected, Link, StreamSession
from .sessions import Active, SessionLimits

SPDY = "SPDY/3.1"
LARGEST_MESSAGE = 1 << 20
_VERSION = "X-Stream-Protocol-Version"
_MOST_BUFFERED = 256 << 10
_CLOSE_S = 2.0


def is_upgrade(headers: Mapping[str, str]) -> bool:
    """Whether the request, whose header names are in lower case, asks for an upgrade."""
    wanted = headers.get("connection", "").lower().split(",")
    return "upgrade" in (each.strip() for each in wanted) and bool(headers.get("upgrade"))


async def upgraded(
    incoming: web.BaseRequest,
    session: StreamSession,
    limits: SessionLimits,
    may_go_on: Callable[[], bool],
) -> web.StreamResponse:
    """Upgrade the connection and serve the session. Returns after its end. Raises StatusError.

    The session ends when `may_go_on` returns False, because the client's token was revoked.
    """

    def active(link: Link) -> Active:
        return Active(link, limits, may_go_on)

    with limits.held(session.user):
        kind = incoming.headers.get("Upgrade", "").lower()
        if kind == "websocket":
            return await _on_websocket(incoming, session, active)
        if kind == SPDY.lower():
            return await _on_spdy(incoming, session, active)
    raise bad_request(f"unable to upgrade: {kind[:40]!r} is neither websocket nor {SPDY}")


def _chosen(incoming: web.BaseRequest, header: str, supported: tuple[str, ...]) -> str:
    """The first supported protocol that the client offers. Raises StatusError."""
    lines = incoming.headers.getall(header, [])
    offered = [each.strip() for line in lines for each in line.split(",") if each.strip()]
    for each in supported:
        if each in offered:
            return each
    said = ", ".join(offered)[:200] or "none"
    raise bad_request(
        f"unable to upgrade: unsupported protocol {said}; the server supports "
        + ", ".join(supported)
    )


async def _on_websocket(
    incoming: web.BaseRequest, session: StreamSession, active: Callable[[Link], Active]
) -> web.StreamResponse:
    chosen = _chosen(incoming, "Sec-WebSocket-Protocol", session.websocket_protocols)
    socket = web.WebSocketResponse(
        protocols=(chosen,), max_msg_size=LARGEST_MESSAGE, compress=False, timeout=_CLOSE_S
    )
    try:
        await socket.prepare(incoming)
    except web.HTTPBadRequest as error:
        raise bad_request(f"unable to upgrade: {(error.text or '')[:200]}") from None
    link = active(_WebSocketLink(socket))
    await link.attended(session.over_websocket(link, chosen))
    await socket.close()
    return socket


class _WebSocketLink:
    """The binary messages of a WebSocket. Each message is also a piece of a byte stream."""

    def __init__(self, socket: web.WebSocketResponse) -> None:
        self._socket = socket

    async def receive(self) -> bytes:
        message = await self._socket.receive()
        if message.type is WSMsgType.BINARY:
            return bytes(message.data)
        if message.type is WSMsgType.TEXT:
            return str(message.data).encode()
        raise Disconnected

    async def send(self, content: bytes) -> None:
        try:
            await self._socket.send_bytes(content)
        except (ConnectionError, RuntimeError):
            raise Disconnected from None


async def _on_spdy(
    incoming: web.BaseRequest, session: StreamSession, active: Callable[[Link], Active]
) -> web.StreamResponse:
    chosen = _chosen(incoming, _VERSION, session.spdy_protocols)
    headers = {"Connection": "Upgrade", "Upgrade": SPDY, _VERSION: chosen}
    response = web.StreamResponse(status=101, headers=headers)
    response.force_close()
    raw = _RawLink(incoming, response)
    await response.prepare(incoming)
    link = active(raw)
    await link.attended(session.over_spdy(link))
    return response


class _RawLink:
    """The bytes of an upgraded connection, taken from the HTTP server in place of requests."""

    def __init__(self, incoming: web.BaseRequest, response: web.StreamResponse) -> None:
        self._response = response
        self._transport = incoming.transport
        self._pieces: deque[bytes] = deque()
        self._bytes = 0
        self._ended = False
        self._changed = asyncio.Event()
        # aiohttp passes all further bytes to this parser, as it does for its own WebSockets.
        incoming.protocol.set_parser(self)  # type: ignore[arg-type]

    def feed_data(self, content: bytes) -> tuple[bool, bytes]:
        self._pieces.append(content)
        self._bytes += len(content)
        if self._bytes > _MOST_BUFFERED and self._transport is not None:
            self._transport.pause_reading()
        self._changed.set()
        return False, b""

    def feed_eof(self) -> None:
        self._ended = True
        self._changed.set()

    async def receive(self) -> bytes:
        while not self._pieces:
            if self._ended:
                raise Disconnected
            self._changed.clear()
            await self._changed.wait()
        content = b"".join(self._pieces)
        self._pieces.clear()
        if self._bytes > _MOST_BUFFERED and self._transport is not None:
            self._transport.resume_reading()
        self._bytes = 0
        return content

    async def send(self, content: bytes) -> None:
        try:
            await self._response.write(content)
        except (ConnectionError, RuntimeError):
            raise Disconnected from None
