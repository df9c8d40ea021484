# SPDX-License-Identifier: Apache-2.0
"""One HTTP/1.1 client connection, which carries one request and response at a time.

`httptools` parses responses. This module does not depend on pools, credentials or Kubernetes.
"""

from __future__ import annotations

import asyncio
from typing import cast

from httptools import HttpParserError, HttpResponseParser

MAX_BUFFERED = 1 << 20
"""The number of buffered body bytes above which reading from the socket pauses."""
LONGEST_HEAD = 1 << 20
"""The most bytes of a response before its body, including interim responses."""
_SWITCHING, _OK = 101, 200


class ResponseTooLarge(ConnectionError):
    """The server sends more than a response may have."""

    def __init__(self, what: str, most: int) -> None:
        super().__init__(f"the {what} of the response has more than {most >> 20} MiB")


class HttpConnection(asyncio.Protocol):
    """An open connection. Errors are OSErrors, including TimeoutError.

    Call `start`, then `head`, then `chunk` until it returns nothing. An error, or `abort`, closes
    the connection. Call `abort` to abandon an exchange before its end.
    """

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.closed: asyncio.Future[None] = self._loop.create_future()
        """Done when the socket is closed."""
        self.idle_since = 0.0
        self.answered = False
        """Whether any byte of the response to the latest request has arrived."""
        self._parser = HttpResponseParser(self)
        self._complete = True
        self._failure: OSError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._paused = False
        self._reset(0.0, None, per_read=False)

    def _reset(self, now: float, timeout_s: float | None, *, per_read: bool) -> None:
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_size = 0
        self._received: list[bytes] = []
        self._size = 0
        self._heard_at = now
        self._timeout_s = timeout_s
        self._per_read = per_read

    @property
    def reusable(self) -> bool:
        """Whether another request may be sent."""
        return self._complete and self._failure is None and not self.closed.done()

    def start(self, request: bytes, timeout_s: float | None, *, per_read: bool = False) -> None:
        """Send a request. `timeout_s` limits the whole exchange or, if `per_read`, each read."""
        self._reset(self._loop.time(), timeout_s, per_read=per_read)
        self._complete = self.answered = False
        if timeout_s is not None:
            self._timer = self._loop.call_later(timeout_s, self._check_time)
        self.transport.write(request)

    async def head(self) -> tuple[int, dict[str, str]]:
        """Return the status and the headers by lower-case name. Repeated headers are joined."""
        while not self._status:
            await self._news()
        headers: dict[str, str] = {}
        for raw_name, raw_value in self._headers:
            name, value = raw_name.decode("latin-1").lower(), raw_value.decode(errors="replace")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return self._status, headers

    async def chunk(self) -> bytes:
        """Return the body bytes received since the last call; empty at the end of the body."""
        while not self._received:
            if self._complete:
                return b""
            await self._news()
        received = self._received
        self._received, self._size = [], 0
        if self._paused:
            self._paused = False
            self.transport.resume_reading()
        return received[0] if len(received) == 1 else b"".join(received)

    async def body(self, most: int) -> bytes:
        """Return the whole body. Raises ResponseTooLarge if it has more bytes than `most`."""
        parts, size = [], 0
        while part := await self.chunk():
            parts.append(part)
            size += len(part)
            if size > most:
                self._fail(ResponseTooLarge("body", most))
                await self._news()
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def abort(self) -> None:
        """Close at once, without a TLS shutdown, which would have to wait for the peer."""
        self._fail(ConnectionAbortedError("the connection was given up"))

    async def _news(self) -> None:
        if self._failure is not None:
            raise self._failure
        self._waiter = self._loop.create_future()
        await self._waiter

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _fail(self, error: OSError) -> None:
        if self._failure is None:
            self._failure = error
        self._stop_timer()
        self.transport.abort()
        self._wake()

    def _check_time(self) -> None:
        assert self._timeout_s is not None
        left_s = self._heard_at + self._timeout_s - self._loop.time()
        if left_s <= 0:
            self._fail(TimeoutError(f"no answer within {self._timeout_s:g} s"))
        else:
            self._timer = self._loop.call_later(left_s, self._check_time)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # Transports of uvloop are not subclasses of asyncio.Transport, but have its methods.
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._complete:
            # Unsolicited data could be mistaken for the response to the next request.
            return self.abort()
        self.answered = True
        if self._per_read:
            self._heard_at = self._loop.time()
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self._fail(ConnectionError(f"the response is not valid HTTP: {error}"))
        if not self._status:
            self._head_size += len(data)
            if self._head_size > LONGEST_HEAD:
                self._fail(ResponseTooLarge("head", LONGEST_HEAD))
        return None

    def connection_lost(self, error: Exception | None) -> None:
        if not self._complete and self._status and self._ends_with_connection():
            self._complete = True
        elif self._failure is None:
            known = error if isinstance(error, OSError) else None
            self._failure = known or ConnectionResetError("the server closed the connection")
        self._stop_timer()
        self._wake()
        if not self.closed.done():
            self.closed.set_result(None)

    def _ends_with_connection(self) -> bool:
        """Whether the end of the connection is the end of the body."""
        names = {name.lower() for name, _ in self._headers}
        return names.isdisjoint((b"content-length", b"transfer-encoding"))

    # Called by the parser, which stops at the first exception.

    def on_message_begin(self) -> None:
        if self._complete:
            raise ConnectionError("the server sent more than one answer")

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= _OK or status == _SWITCHING:
            self._status = status
            self._wake()

    def on_body(self, body: bytes) -> None:
        self._received.append(body)
        self._size += len(body)
        if self._size > MAX_BUFFERED and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        if not self._status:
            # The final response follows an informational one (1xx).
            self._headers.clear()
            return
        self._complete = True
        self._stop_timer()
        if not self._parser.should_keep_alive():
            self._failure = ConnectionResetError("the server closes the connection")
            self.transport.abort()
        self._wake()
