# SPDX-License-Identifier: Apache-2.0
"""Where one HTTP server answers, and how it ends when told to, whatever its callers keep open."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from aiohttp import web

from kuota.failures import report

PATIENCE_S = 0.2
"""How long requests under way get to finish when the server closes."""

Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Listeners:
    """Sends what comes in at any of its addresses to `answer`. `options` are aiohttp's."""

    def __init__(self, answer: Answer, **options: Any) -> None:
        self._server = web.Server(partial(_answered, answer), access_log=None, **options)
        self._listeners: list[asyncio.AbstractServer] = []

    async def open(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Answer there from now on; returns the port. No host means every address. Raises
        OSError.
        """
        loop = asyncio.get_running_loop()
        return self._added(await loop.create_server(self._server, host or None, port, ssl=tls))

    async def open_socket(self, bound: socket.socket) -> int:
        """Answer at a socket that is bound already; returns the port."""
        loop = asyncio.get_running_loop()
        return self._added(await loop.create_server(self._server, sock=bound))

    async def open_unix(self, path: os.PathLike[str]) -> None:
        """Answer at a Unix socket."""
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

    def _added(self, listener: asyncio.Server) -> int:
        self._listeners.append(listener)
        return int(listener.sockets[0].getsockname()[1])


async def _answered(answer: Answer, request: web.BaseRequest) -> web.StreamResponse:
    """The answer, or a bare 500 for a request that no code could answer."""
    try:
        return await answer(request)
    except (web.HTTPException, ConnectionError):
        raise
    except Exception as error:
        report("HTTP server", error, f"{request.method} {request.path} failed")
        return web.Response(status=500, text="an error on the server\n")
