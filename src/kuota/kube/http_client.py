# SPDX-License-Identifier: Apache-2.0
"""The HTTP/1.1 transport to an API server. It keeps connections open between requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, urlencode

from .auth import Credentials, Headers
from .client import Client
from .clock import Clock, SystemClock
from .config import Connection
from .errors import ConfigError, Unreachable, response_error
from .http_connection import HttpConnection
from .http_route import CONNECT_S, Route
from .requests import HttpRequest, HttpResponse

IDLE_S = 15.0
"""How long an idle connection is kept. Servers keep idle connections longer, so a request is
rarely sent on a connection that the server is closing."""
STREAM_INTERVAL_S = 0.02
"""The average interval between chunks of a busy stream. A chunk then contains several watch events.
Processing them together costs much less CPU time than a wakeup for each."""
STREAM_BURST = 32
"""How many chunks of a stream are not delayed, if it was not busy before.

A delay would reorder the changes of different kinds: a Workload could be evaluated before the queue
that was created a moment earlier."""
LARGEST_BODY = 1 << 30
"""The most bytes of a response, except a stream, of a server that is not trusted less."""
_LARGEST_ERROR = 3 << 20
_FAILED, _UNAUTHORIZED = 300, 401
_PATH_SAFE = "/:@!$&'()*+,;=-._~"
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/:._-]*")
"""Paths that need no percent-encoding, which are almost all paths."""
_LINE_BREAK = re.compile(r"[\0\r\n]")


def http_client(
    connection: Connection, *, clock: Clock | None = None, agent: str = "kuota"
) -> Client:
    """Return a client for the server of this connection. Requires a running event loop."""
    return Client(HttpTransport(connection, clock, agent), clock=clock)


class _Answer(NamedTuple):
    """The head of a response. Its body has not been read from the connection yet."""

    line: HttpConnection
    status: int
    headers: dict[str, str]


class HttpTransport:
    """A `Transport` that keeps connections open between requests.

    It does not limit concurrent requests, because watches must never wait. Callers do. A response
    with more than `most_bytes`, except a stream, counts as a broken connection.
    """

    def __init__(
        self,
        connection: Connection,
        clock: Clock | None = None,
        agent: str = "kuota",
        *,
        most_bytes: int = LARGEST_BODY,
    ) -> None:
        self._most_bytes = most_bytes
        self._server = connection.server
        self._credentials = Credentials(connection, clock or SystemClock())
        self._route = Route(connection)
        self._pool = _Pool(self._route, self._credentials)
        # Inside a cluster, compression costs the API server more than it saves.
        constant = {"Host": self._route.host, "User-Agent": agent, "Accept-Encoding": "identity"}
        self._constant = _lines([*constant.items(), *self._route.headers])

    async def send(self, request: HttpRequest) -> HttpResponse:
        answer = await self._answer(request, per_read=False)
        try:
            body = await answer.line.body(self._most(answer))
        except OSError as error:
            raise self._unreachable(request, error) from error
        finally:
            self._pool.give_back(answer.line)
        return HttpResponse(answer.status, answer.headers, body)

    async def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        # The timeout applies to each read, because a watch has no maximum duration.
        answer = await self._answer(request, per_read=True)
        try:
            if answer.status >= _FAILED:
                body = await answer.line.body(self._most(answer))
                raise response_error(answer.status, answer.headers, body)
            loop = asyncio.get_running_loop()
            pace = StreamPace(loop.time())
            while chunk := await answer.line.chunk():
                yield chunk
                delay_s = pace.delay_s(loop.time())
                if delay_s:
                    await asyncio.sleep(delay_s)
        except OSError as error:
            raise self._unreachable(request, error) from error
        finally:
            self._pool.give_back(answer.line)

    async def close(self) -> None:
        await self._pool.close()

    def _most(self, answer: _Answer) -> int:
        failed = answer.status >= _FAILED
        return min(self._most_bytes, _LARGEST_ERROR) if failed else self._most_bytes

    async def _answer(self, request: HttpRequest, *, per_read: bool) -> _Answer:
        """Send the request. After a 401, send it once more if newer credentials are available."""
        for last in (False, True):
            proof = await self._credentials.headers()
            answer = await self._exchange(request, self._message(request, proof), per_read)
            if last or answer.status != _UNAUTHORIZED or not self._credentials.doubt(proof):
                break
            answer.line.abort()
        return answer

    async def _exchange(self, request: HttpRequest, message: bytes, per_read: bool) -> _Answer:
        """Send the request. If it is idempotent and an idle connection was closed, retry it."""
        while True:
            line, fresh = await self._connection(request)
            try:
                line.start(message, request.timeout_s, per_read=per_read)
                return _Answer(line, *await line.head())
            except BaseException as error:
                line.abort()
                if not isinstance(error, OSError):
                    raise
                stale = not (fresh or line.answered or isinstance(error, TimeoutError))
                if not (stale and request.idempotent):
                    raise self._unreachable(request, error) from error

    async def _connection(self, request: HttpRequest) -> tuple[HttpConnection, bool]:
        """Return a connection for the request, and whether it is new."""
        line = self._pool.idle()
        if line is not None:
            return line, False
        try:
            limit_s = min(CONNECT_S, request.timeout_s or CONNECT_S)
            async with asyncio.timeout(limit_s):
                return await self._pool.opened(), True
        except OSError as error:
            raise self._unreachable(request, error, sent=False) from error

    def _message(self, request: HttpRequest, proof: Headers) -> bytes:
        path = request.path
        if not _PLAIN_PATH.fullmatch(path):
            path = quote(path, safe=_PATH_SAFE)
        path = self._route.target + path
        if request.query:
            path += "?" + _encoded(tuple(request.query.items()))
        lines = self._constant + _lines([*request.headers.items(), *proof])
        if request.body:
            lines += f"Content-Length: {len(request.body)}\r\n"
        return f"{request.method} {path} HTTP/1.1\r\n{lines}\r\n".encode() + request.body

    def _unreachable(
        self, request: HttpRequest, error: OSError, *, sent: bool = True
    ) -> Unreachable:
        why = str(error) or type(error).__name__
        return Unreachable(f"{request} at {self._server}: {why}", sent=sent)


class StreamPace:
    """Decides how long to wait after each chunk of a stream. Pure."""

    def __init__(self, now: float) -> None:
        self._due = now - STREAM_BURST * STREAM_INTERVAL_S

    def delay_s(self, now: float) -> float:
        """Return the delay before the next chunk; 0 while the stream is not busy."""
        earliest = now - STREAM_BURST * STREAM_INTERVAL_S
        self._due = max(self._due, earliest) + STREAM_INTERVAL_S
        return max(0.0, self._due - now)


class _Pool:
    """The open connections, both idle and in use."""

    def __init__(self, route: Route, credentials: Credentials) -> None:
        self._route = route
        self._credentials = credentials
        self._loop = asyncio.get_running_loop()
        self._idle: list[HttpConnection] = []
        self._open: dict[HttpConnection, int] = {}
        """Each connection, with the generation of the client certificate that it uses."""
        self._closed = False

    def idle(self) -> HttpConnection | None:
        """Return the most recently used idle connection; None if there is none."""
        while self._idle:
            line = self._idle.pop()
            if self._fit(line):
                return line
            line.abort()
        return None

    async def opened(self) -> HttpConnection:
        """Open a new connection."""
        self._check()
        generation = self._credentials.generation
        line = await self._route.open(self._credentials.context)
        self._open[line] = generation
        line.closed.add_done_callback(lambda _: self._open.pop(line, None))
        try:
            self._check()
        except RuntimeError:
            line.abort()
            raise
        return line

    def _check(self) -> None:
        if self._closed:
            raise RuntimeError("this transport was closed")

    def give_back(self, line: HttpConnection) -> None:
        """Keep the connection for the next request, or close it if it cannot be reused."""
        line.idle_since = self._loop.time()
        if self._closed or not self._fit(line):
            line.abort()
            return
        self._idle.append(line)
        if not self._fit(self._idle[0]):
            self._idle.pop(0).abort()

    async def close(self) -> None:
        self._closed = True
        self._idle.clear()
        lines = list(self._open)
        for line in lines:
            line.abort()
        await asyncio.gather(*(line.closed for line in lines))

    def _fit(self, line: HttpConnection) -> bool:
        return (
            line.reusable
            and self._loop.time() - line.idle_since < IDLE_S
            and self._open.get(line) == self._credentials.generation
        )


@lru_cache(maxsize=64)
def _encoded(query: tuple[tuple[str, str], ...]) -> str:
    """Return the query of a URL. Cached, because the queries of writes repeat."""
    return urlencode(query, quote_via=quote)


def _lines(headers: Iterable[tuple[str, str]]) -> str:
    """Return the headers as they are sent; raises ConfigError if one contains a line break."""
    pairs = [": ".join(each) for each in headers]
    if _LINE_BREAK.search("".join(pairs)):
        names = ", ".join(name for name, _ in headers)
        raise ConfigError(f"a value among the headers {names} contains a line break")
    return "".join(f"{each}\r\n" for each in pairs)
