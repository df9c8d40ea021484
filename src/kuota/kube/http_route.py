# SPDX-License-Identifier: Apache-2.0
"""Opens connections to an API server over TCP, TLS or a Unix socket, directly or via a proxy."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import urllib.request
from contextlib import suppress
from typing import Any
from urllib.parse import unquote, urlsplit

import aiohappyeyeballs

from .config import Connection
from .errors import ConfigError
from .http_connection import HttpConnection

CONNECT_S = 10.0
"""The timeout for opening a connection."""
_NEXT_ADDRESS_S = 0.25
"""The delay before the next address of a host is tried in parallel (Happy Eyeballs)."""
_OK = 200
_PORTS = {"http": 80, "https": 443}
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    # Detect a peer that disappeared silently within a minute, instead of at the end of a watch.
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


class Route:
    """The route to the server of a connection.

    `host` is the value of the Host header. Requests must prefix their path with `target` and add
    `headers`, because a proxy for plain HTTP requires the full URL and its own credentials.
    """

    def __init__(self, connection: Connection) -> None:
        self._unix = connection.server.removeprefix("unix://")
        self._local = self._unix != connection.server
        self._server = _Address("http://localhost" if self._local else connection.server)
        proxy = None if self._local else proxy_for(connection)
        self._proxy = _Address(proxy) if proxy is not None else None
        self._tls_name = connection.tls_server_name or self._server.host
        self.host = self._server.netloc
        self.target = self._server.path
        self.headers: list[tuple[str, str]] = []
        if self._proxy is not None and not self._server.tls:
            self.target = f"http://{self.host}{self.target}"
            self.headers = self._proxy.authorization("Proxy-Authorization")

    async def open(self, context: ssl.SSLContext | None) -> HttpConnection:
        """Open a connection; raises OSError. The caller must apply a timeout."""
        if self._local:
            loop = asyncio.get_running_loop()
            return (await loop.create_unix_connection(HttpConnection, self._unix))[1]
        if self._proxy is None:
            return await _connected(self._server, context, self._tls_name)
        near = await _connected(self._proxy, context, self._proxy.host)
        return await self._tunnel(self._proxy, near, context) if context is not None else near

    async def _tunnel(
        self, proxy: _Address, near: HttpConnection, context: ssl.SSLContext
    ) -> HttpConnection:
        """Open a TLS tunnel to the server through the proxy."""
        try:
            there = f"{self._server.bracketed}:{self._server.port}"
            lines = [f"CONNECT {there} HTTP/1.1", f"Host: {there}"]
            lines += [": ".join(each) for each in proxy.authorization("Proxy-Authorization")]
            near.start("\r\n".join((*lines, "", "")).encode(), None)
            status, _ = await near.head()
            if status != _OK:
                raise ConnectionRefusedError(f"the proxy {proxy.netloc} answered {status}")
            far = HttpConnection()
            transport = await asyncio.get_running_loop().start_tls(
                near.transport, far, context, server_hostname=self._tls_name
            )
        except BaseException:
            near.abort()
            raise
        assert transport is not None
        far.connection_made(transport)
        return far


class _Address:
    """The parts of a URL that are needed to connect."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        if parts.scheme not in _PORTS or not parts.hostname:
            raise ConfigError(f"{parts.scheme}://{parts.hostname or ''} is not an HTTP address")
        self.tls = parts.scheme == "https"
        self.host = parts.hostname
        self.bracketed = f"[{self.host}]" if ":" in self.host else self.host
        self.port = parts.port or _PORTS[parts.scheme]
        self.netloc = parts.netloc.rpartition("@")[2]
        self.path = parts.path.rstrip("/")
        self._user, self._password = unquote(parts.username or ""), unquote(parts.password or "")

    def authorization(self, header: str) -> list[tuple[str, str]]:
        """Return the header with the user and password of the URL; empty if it has none."""
        if not self._user:
            return []
        pair = base64.b64encode(f"{self._user}:{self._password}".encode()).decode()
        return [(header, f"Basic {pair}")]


async def _connected(
    address: _Address, context: ssl.SSLContext | None, tls_name: str
) -> HttpConnection:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    line = await aiohappyeyeballs.start_connection(
        found,
        happy_eyeballs_delay=_NEXT_ADDRESS_S,
        interleave=1,
        loop=loop,
        socket_factory=_alive_socket,
    )
    if not address.tls:
        return (await loop.create_connection(HttpConnection, sock=line))[1]
    # A proxy may require TLS although the server behind it does not.
    context = context or ssl.create_default_context()
    made = loop.create_connection(HttpConnection, sock=line, ssl=context, server_hostname=tls_name)
    return (await made)[1]


def _alive_socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    for level, option, value in _KEEPALIVE:
        with suppress(OSError):
            made.setsockopt(level, option, value)
    return made


def proxy_for(connection: Connection) -> str | None:
    """Return the connection's proxy, or else the environment's; None if neither applies.

    As in Go, a proxy from the environment is never used for loopback addresses.
    """
    if connection.proxy:
        return connection.proxy
    url = urlsplit(connection.server)
    host = url.hostname or ""
    if host in ("localhost", "::1") or host.startswith("127."):
        return None
    if urllib.request.proxy_bypass(url.netloc):
        return None
    return urllib.request.getproxies().get(url.scheme)
