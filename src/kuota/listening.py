# SPDX-License-Identifier: Apache-2.0
"""Sockets that HTTP servers listen on, and a server that closes promptly.

A server closes although its clients keep connections open.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from aiohttp import web

from kuota.failures import report

PATIENCE_S = 0.2
"""How long requests under way get to finish when the server closes."""

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


class Listeners:
    """Passes requests from any of its sockets to `answer`. `options` are aiohttp's."""

    def __init__(self, answer: Answer, **options: Any) -> None:
        self._server = web.Server(partial(_answered, answer), access_log=None, **options)
        self._listeners: list[asyncio.AbstractServer] = []

    async def open(self, at: socket.socket, tls: ssl.SSLContext | None = None) -> int:
        """Serve a listening socket until closed; returns its port."""
        loop = asyncio.get_running_loop()
        listener = await loop.create_server(self._server, sock=at, ssl=tls)
        self._listeners.append(listener)
        return int(listener.sockets[0].getsockname()[1])

    async def open_unix(self, path: os.PathLike[str]) -> None:
        """Serve a Unix socket until closed."""
        loop = asyncio.get_running_loop()
        self._listeners.append(await loop.create_unix_server(self._server, path))

    async def close(self) -> None:
        """End all connections; requests under way get a moment to finish."""
        for each in self._listeners:
            each.close()
        transports = [each.transport for each in self._server.connections]
        await self._server.shutdown(PATIENCE_S)
        for transport in transports:
            # Peers that keep a connection open would be waited for, to say goodbye in TLS.
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
        await asyncio.sleep(0)


async def _answered(answer: Answer, request: web.BaseRequest) -> web.StreamResponse:
    """The answer, or a bare 500 for a request that no code could answer."""
    try:
        return await answer(request)
    except (web.HTTPException, ConnectionError):
        raise
    except Exception as error:
        report("HTTP server", error, f"{request.method} {request.path} failed")
        return web.Response(status=500, text="an error on the server\n")
