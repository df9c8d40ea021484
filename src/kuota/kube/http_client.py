# SPDX-License-Identifier: Apache-2.0
"""Moves requests to an API server over HTTP/1.1, TLS or a Unix socket, by aiohttp."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from yarl import URL

from .auth import Credentials
from .client import Client
from .clock import Clock, SystemClock
from .config import Connection
from .errors import Unreachable, response_error
from .requests import HttpRequest, HttpResponse

CONNECT_S = 10.0
_UNAUTHORIZED = 401
_PATH_SAFE = "/:@!$&'()*+,;=-._~"
_NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
_KEEPALIVE = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    # A peer that vanished without a word is noticed within a minute, not within a watch.
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 20),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3),
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
)


def http_client(connection: Connection, *, clock: Clock | None = None) -> Client:
    """A client of the server behind the connection. Make it inside a running event loop."""
    return Client(HttpTransport(connection, clock), clock=clock)


class HttpTransport:
    """A `Transport` that keeps connections open between requests."""

    def __init__(
        self, connection: Connection, clock: Clock | None = None, agent: str = "kuota"
    ) -> None:
        self._connection = connection
        self._credentials = Credentials(connection, clock or SystemClock())
        self._agent = agent
        unix = connection.server.startswith("unix://")
        self._base = "http://localhost" if unix else connection.server
        self._proxy = None if unix else proxy_for(connection)
        self._pool: _Pool | None = None
        self._generation = 0
        self._closed = False

    async def send(self, request: HttpRequest) -> HttpResponse:
        timeout = aiohttp.ClientTimeout(total=request.timeout_s, sock_connect=CONNECT_S)
        async with self._answer(request, timeout) as response:
            body = await response.read()
            return HttpResponse(response.status, _lower(response), body)

    async def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        # No total: a watch may go on for as long as it is alive.
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_S, sock_read=request.timeout_s
        )
        async with self._answer(request, timeout) as response:
            if response.status >= 300:
                body = await response.read()
                raise response_error(response.status, _lower(response), body)
            with _hung_up(response):
                # Not by line: aiohttp's readline gives up past 512 KiB, and objects may be larger.
                async for chunk in response.content.iter_any():
                    yield chunk

    async def close(self) -> None:
        self._closed = True
        pool, self._pool = self._pool, None
        if pool is not None:
            await pool.session.close()

    @asynccontextmanager
    async def _answer(
        self, request: HttpRequest, timeout: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The answer's head, with the body still to come. Asks again once with fresher proof."""
        with _unreachable(self._base, request):
            for last in (False, True):
                proof = await self._credentials.headers()
                pool = await self._current_pool()
                async with (
                    pool.use(),
                    pool.session.request(
                        request.method,
                        self._url(request),
                        data=request.body or None,
                        headers=[*request.headers.items(), *proof],
                        timeout=timeout,
                        allow_redirects=False,
                        proxy=self._proxy,
                        server_hostname=self._connection.tls_server_name or None,
                    ) as response,
                ):
                    refused = response.status == _UNAUTHORIZED and not last
                    if refused and self._credentials.doubt(proof):
                        continue
                    yield response
                    return

    def _url(self, request: HttpRequest) -> URL:
        text = self._base + quote(request.path, safe=_PATH_SAFE)
        query = urlencode(request.query, quote_via=quote)
        return URL(f"{text}?{query}" if query else text, encoded=True)

    async def _current_pool(self) -> _Pool:
        if self._closed:
            raise RuntimeError("this transport was closed")
        if self._pool is None or self._generation != self._credentials.generation:
            if self._pool is not None:
                await self._pool.retire()
            self._generation = self._credentials.generation
            self._pool = _Pool(self._session())
        return self._pool

    def _session(self) -> aiohttp.ClientSession:
        server = self._connection.server
        # How many requests run at a time is the client's affair; watches must never wait.
        connector: aiohttp.BaseConnector
        if server.startswith("unix://"):
            connector = aiohttp.UnixConnector(server.removeprefix("unix://"), limit=0)
        else:
            context = self._credentials.context
            connector = aiohttp.TCPConnector(
                limit=0, ssl=context or True, socket_factory=_alive_socket
            )
        return aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            # Compression would cost the API server more than it saves inside a cluster.
            headers={"User-Agent": self._agent, "Accept-Encoding": "identity"},
        )


class _Pool:
    """A session and how many use it, so that a retired one closes when the last has left."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self.session = session
        self._users = 0
        self._retired = False

    @asynccontextmanager
    async def use(self) -> AsyncIterator[None]:
        self._users += 1
        try:
            yield
        finally:
            self._users -= 1
            if self._retired and not self._users:
                await self.session.close()

    async def retire(self) -> None:
        self._retired = True
        if not self._users:
            await self.session.close()


@contextmanager
def _hung_up(response: aiohttp.ClientResponse) -> Iterator[None]:
    """Cuts the line of a stream that is left before its end: a goodbye in TLS would need the other
    side's answer, which nobody waits for, and the socket would stay open until then.
    """
    line = response.connection
    transport = line.transport if line is not None else None
    try:
        yield
    finally:
        if transport is not None and not response.content.at_eof():
            transport.abort()


@contextmanager
def _unreachable(base: str, request: HttpRequest) -> Iterator[None]:
    """Every way in which no answer comes, as one error."""
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        why = str(error) or type(error).__name__
        sent = not isinstance(error, _NEVER_SENT)
        raise Unreachable(f"{request} at {base}: {why}", sent=sent) from error


def proxy_for(connection: Connection) -> str | None:
    """The proxy to go through: the connection's own, else the environment's; None for none.

    As in Go, the environment's never stands between us and this machine.
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


def _alive_socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    for level, option, value in _KEEPALIVE:
        with suppress(OSError):
            made.setsockopt(level, option, value)
    return made


def _lower(response: aiohttp.ClientResponse) -> dict[str, str]:
    """The headers by lower-case name; what is sent more than once is joined, as HTTP allows."""
    headers: dict[str, str] = {}
    for name, value in response.headers.items():
        known = headers.get(name.lower())
        headers[name.lower()] = value if known is None else f"{known}, {value}"
    return headers
