# SPDX-License-Identifier: Apache-2.0
"""Sockets that HTTP servers listen on, and a server that survives hostile clients.

It limits connections, closes those that do not complete a request in time, and answers malformed
requests with a Status. It closes promptly although its clients keep connections open.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
from aiohttp import web

from kuota.api.status import failure_status
from kuota.connections import AcceptedConnection, Connections
from kuota.failures import report
from kuota.socket_owner import owner

PATIENCE_S = 0.2
"""How long requests under way get to finish when the server closes."""

HANDSHAKE_S = 10.0
"""How long a client may take for the TLS handshake."""
FIRST_REQUEST_S = 10.0
"""How long a client may take from connecting to the end of its first request's headers, or until it
is authenticated, where users sign in."""
KEEP_ALIVE_S = 120.0
"""How long a connection may be idle between requests. API servers and other clients written in Go
close theirs after 90 seconds. If the server were first, it could close a connection at the moment
of a request, which then fails."""
LINGER_S = 2.0
"""How long the rest of a rejected body is read, so that its client reads the response."""
HEADER_BYTES = 32 << 10
_PAUSE_S = 0.1
_AT_ONCE = 32
"""The number of connections that are accepted before other tasks may run."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_PEER = struct.Struct("3i")
_log = logging.getLogger(__name__)

_UNUSABLE = {
    errno.EADDRINUSE: "another process listens there",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "this user may not listen on ports below 1024",
}


class CannotListen(Exception):
    """An address on which this process cannot listen. The message names it and the reason."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        shown = f"[{host}]" if ":" in host else host
        where = f"{shown}:{port}" if host else f"port {port} of all addresses"
        why = _UNUSABLE.get(error.errno or 0, error.strerror or str(error))
        super().__init__(f"cannot listen on {where}: {why}")
        self.host = host
        self.port = port


def bound(host: str, port: int) -> socket.socket:
    """A listening socket. No host means all addresses, IPv4 and IPv6. Raises CannotListen."""
    try:
        return _everywhere(port) if not host else _named(host, port)
    except OSError as error:
        raise CannotListen(host, port, error) from error


def _everywhere(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True)
        except OSError:
            # Either IPv6 is disabled on this machine, or the port is taken, which the next
            # attempt reports as well.
            pass
    return socket.create_server(("", port))


def _named(host: str, port: int) -> socket.socket:
    """Listen on the first address of the host that can be used."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for family, *_, address in found[:-1]:
        with suppress(OSError):
            return socket.create_server(address[:2], family=family)
    family, *_, address = found[-1]
    return socket.create_server(address[:2], family=family)


Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HttpServerConnection(web.RequestHandler):
    """The HTTP protocol on one connection, which is `entry` in `connections`."""

    __slots__ = ("_connections", "_deadline", "entry")

    def __init__(
        self,
        server: web.Server,
        entry: AcceptedConnection,
        connections: Connections,
        **options: Any,
    ) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self.entry = entry
        self._connections = connections
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._deadline = self._loop.call_later(FIRST_REQUEST_S, self.force_close)
        self.entry.abort = self.abort
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._end_deadline()
        self._connections.closed(self.entry)
        super().connection_lost(exc)

    def received_request(self) -> None:
        """Keep the connection open: its client sends requests, and this server knows no users."""
        self._end_deadline()

    def authenticated(self, user: str) -> bool:
        """Record the user of a request. False if the user has too many connections."""
        self._end_deadline()
        return self._connections.authenticated(self.entry, user)

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def abort(self) -> None:
        """Close the connection without sending what is buffered."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer a request that is not HTTP, and close the connection. Clients cause no log."""
        if status >= 500:
            report("HTTP server", exc or RuntimeError(message), "a request failed")
        if request.writer.output_size > 0:
            raise ConnectionError("the response was sent already")
        code, reason = (500, "InternalError") if status >= 500 else (status, "BadRequest")
        words = (message or "the request is malformed").strip().splitlines()[0][:200]
        response = web.Response(
            status=code,
            body=msgspec.json.encode(failure_status(code, reason, words)),
            content_type="application/json",
        )
        response.force_close()
        return response


class Listeners:
    """Passes requests from any of its sockets to `answer`. `options` are aiohttp's.

    With `authenticates`, `answer` calls `HttpServerConnection.authenticated`, and connections
    without a user are closed after FIRST_REQUEST_S.
    """

    def __init__(
        self,
        answer: Answer,
        connections: Connections | None = None,
        *,
        authenticates: bool = False,
        **options: Any,
    ) -> None:
        # Without open connections, it is false.
        self.connections = connections if connections is not None else Connections()
        handling = ("request_factory", "handler_cancellation")
        given = {name: options.pop(name) for name in handling if name in options}
        self._server = web.Server(partial(_answered, answer, authenticates), **given)
        self._options: dict[str, Any] = {
            "access_log": None,
            "keepalive_timeout": KEEP_ALIVE_S,
            "lingering_time": LINGER_S,
            "max_line_size": HEADER_BYTES,
        } | options
        self._accepting: list[socket.socket] = []
        self._opening: set[asyncio.Task[None]] = set()

    async def open(self, at: socket.socket, tls: ssl.SSLContext | None = None) -> int:
        """Serve a listening socket until closed; returns its port."""
        at.setblocking(False)
        self._accepting.append(at)
        asyncio.get_running_loop().add_reader(at, self._accept, at, tls)
        return int(at.getsockname()[1]) if at.family != socket.AF_UNIX else 0

    async def open_unix(self, path: os.PathLike[str]) -> None:
        """Serve a Unix socket until closed."""
        at = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            at.bind(os.fspath(path))
            at.listen(100)
        except BaseException:
            at.close()
            raise
        await self.open(at)

    async def close(self) -> None:
        """End all connections; requests under way get a moment to finish."""
        for at in self._accepting:
            asyncio.get_running_loop().remove_reader(at)
            at.close()
        self._accepting.clear()
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)
        transports = [each.transport for each in self._server.connections]
        await self._server.shutdown(PATIENCE_S)
        for transport in transports:
            # Peers that keep a connection open would be waited for, to say goodbye in TLS.
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
        await asyncio.sleep(0)

    def _accept(self, at: socket.socket, tls: ssl.SSLContext | None) -> None:
        """Accept the connections that wait."""
        for _ in range(_AT_ONCE):
            try:
                peer, _ = at.accept()
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._pause(at, tls, error)
                    return
                continue  # The client was gone before it was accepted.
            self._admit(peer, tls)

    def _pause(self, at: socket.socket, tls: ssl.SSLContext | None, error: OSError) -> None:
        """Stop accepting for a moment, because descriptors or memory have run out."""
        loop = asyncio.get_running_loop()
        _log.warning("cannot accept a connection: %s", error.strerror)
        self.connections.make_room()
        loop.remove_reader(at)

        def resume() -> None:
            if at in self._accepting:
                loop.add_reader(at, self._accept, at, tls)

        loop.call_later(_PAUSE_S, resume)

    def _admit(self, peer: socket.socket, tls: ssl.SSLContext | None) -> None:
        entry = AcceptedConnection(peer_name(peer))
        if not self.connections.admit(entry):
            peer.close()
            return
        peer.setblocking(False)
        task = asyncio.create_task(self._serve(peer, tls, entry))
        entry.abort = task.cancel
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)
        # A task that is cancelled before it starts does not close its socket.
        task.add_done_callback(lambda done: peer.close() if done.cancelled() else None)

    async def _serve(
        self, peer: socket.socket, tls: ssl.SSLContext | None, entry: AcceptedConnection
    ) -> None:
        """Start HTTP on an accepted connection, after the TLS handshake."""
        loop = asyncio.get_running_loop()
        timeout_s = HANDSHAKE_S if tls is not None else None

        def protocol() -> HttpServerConnection:
            return HttpServerConnection(self._server, entry, self.connections, **self._options)

        try:
            await loop.connect_accepted_socket(
                protocol, peer, ssl=tls, ssl_handshake_timeout=timeout_s
            )
        except BaseException as error:
            self.connections.closed(entry)
            peer.close()
            # The client disconnected, sent something else, or did not complete the handshake.
            if not isinstance(error, OSError):
                raise


def peer_uid(peer: socket.socket) -> int | None:
    """The uid of the peer of a Unix socket; None for other connections."""
    if peer.family != socket.AF_UNIX:
        return None
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(credentials)[1])


def peer_name(peer: socket.socket) -> str:
    """Identify the peer for limits: a local one by its uid, others by their address."""
    try:
        uid = peer_uid(peer)
        if uid is None:
            uid = owner(peer)
        return str(peer.getpeername()[0]) if uid is None else f"uid {uid}"
    except OSError:
        return ""


async def _answered(
    answer: Answer, authenticates: bool, request: web.BaseRequest
) -> web.StreamResponse:
    """The answer, or a bare 500 for a request that no code could answer."""
    if not authenticates and isinstance(request.protocol, HttpServerConnection):
        request.protocol.received_request()
    try:
        return await answer(request)
    except (web.HTTPException, ConnectionError):
        raise
    except Exception as error:
        report("HTTP server", error, f"{request.method} {request.path} failed")
        return web.Response(status=500, text="an error on the server\n")
