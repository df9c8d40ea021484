# SPDX-License-Identifier: Apache-2.0
"""A small HTTP server that ends when it is told to, whatever its callers keep open."""

from __future__ import annotations

import asyncio
import ssl
from abc import abstractmethod

from aiohttp import web

from .address import Address, listener

PATIENCE_S = 0.2
"""How long requests under way get to finish when the server closes."""


class Listening:
    """Answers at as many addresses as it is told to listen at, until it is closed."""

    def __init__(self) -> None:
        self._server = web.Server(self.answer, access_log=None)
        self._listeners: list[asyncio.AbstractServer] = []

    @abstractmethod
    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """What to say to one request."""

    async def listen(self, at: Address, tls: ssl.SSLContext | None = None) -> int:
        """Answer there from now on; returns the port. Raises OSError."""
        found = await asyncio.get_running_loop().create_server(
            self._server, sock=listener(at), ssl=tls
        )
        self._listeners.append(found)
        return int(found.sockets[0].getsockname()[1])

    async def close(self) -> None:
        for each in self._listeners:
            each.close()
        transports = [each.transport for each in self._server.connections]
        await self._server.shutdown(PATIENCE_S)
        for transport in transports:
            # Peers that keep a connection open would be waited for, to say goodbye in TLS.
            if isinstance(transport, asyncio.WriteTransport):
                transport.abort()
        await asyncio.sleep(0)
