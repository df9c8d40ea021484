# SPDX-License-Identifier: Apache-2.0
"""Sends a request until it is answered for good, and decides how fast and what may be sent again.

429 is a promise that nothing was done, so every verb is repeated. After a 5xx or a broken line
nobody knows, so only what is idempotent is repeated. A wait that the server names is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kuota.api.backoff import Backoff

from .clock import Clock
from .errors import (
    ApiError,
    ServerError,
    TooManyRequests,
    Unreachable,
    WritesSuspended,
    response_error,
)
from .requests import HttpRequest, HttpResponse, Transport

RETRY = Backoff(base=100, cap=5_000)
"""Waits between attempts, in milliseconds."""
ATTEMPTS = 6
LONGEST_WAIT_S = 60.0
"""A server that asks for more patience than this has failed the request."""
AT_ONCE = 32
"""Requests under way at a time, and so connections held; streams are not counted."""
_NOT_IMPLEMENTED = 501


class Rate:
    """A bucket of `burst` permits that refills at `qps` a second.

    Grants permits in the order asked for. A caller that gives up still used its permit.
    """

    def __init__(self, clock: Clock, qps: float, burst: int) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError("a rate needs qps above 0 and a burst of at least 1")
        self._clock = clock
        self._qps = qps
        self._burst = burst
        self._permits = float(burst)
        self._at = clock.monotonic()

    async def take(self) -> None:
        """Return when one more request may be sent."""
        now = self._clock.monotonic()
        refilled = self._permits + (now - self._at) * self._qps
        self._permits = min(float(self._burst), refilled) - 1
        self._at = now
        if self._permits < 0:
            await self._clock.sleep(-self._permits / self._qps)


class Sender:
    """Sends through one transport, no faster than `rate`, and writes only while `may_write`."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        rate: Rate | None,
        may_write: Callable[[], bool] | None,
    ) -> None:
        self.transport = transport
        self._clock = clock
        self._rate = rate
        self._may_write = may_write
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._writing = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def permitted(self, request: HttpRequest) -> None:
        """Return when the request may leave; raises NotWriting when it must not at all."""
        if self._rate is not None:
            await self._rate.take()
        if request.writes and self._may_write is not None and not self._may_write():
            raise WritesSuspended(f"not sent: {request}: this process may not write at present")

    async def send(self, request: HttpRequest) -> HttpResponse:
        """The successful answer; raises ApiError, Unreachable or NotWriting."""
        attempt = 0
        while True:
            attempt += 1
            try:
                return await self._sent(request)
            except (ApiError, Unreachable) as error:
                wait_s = retry_wait_s(request, error, attempt)
                if wait_s is None:
                    raise
            await self._clock.sleep(wait_s)

    async def quiet(self) -> None:
        """Return when no write is under way."""
        await self._quiet.wait()

    async def _sent(self, request: HttpRequest) -> HttpResponse:
        async with self._turns:
            await self.permitted(request)
            self._writing += request.writes
            if request.writes:
                self._quiet.clear()
            try:
                response = await self.transport.send(request)
            finally:
                self._writing -= request.writes
                if not self._writing:
                    self._quiet.set()
        if response.status >= 300:
            raise response_error(response.status, response.headers, response.body)
        return response


def retry_wait_s(request: HttpRequest, error: ApiError | Unreachable, attempt: int) -> float | None:
    """How long to wait before sending it again; None when it must not be."""
    if attempt >= ATTEMPTS or not _repeatable(request, error):
        return None
    wait_s = RETRY.wait(attempt) / 1000
    named_s = error.retry_after_s if isinstance(error, ApiError) else None
    if named_s is not None and named_s > LONGEST_WAIT_S:
        return None
    return max(wait_s, named_s or 0.0)


def _repeatable(request: HttpRequest, error: ApiError | Unreachable) -> bool:
    match error:
        case TooManyRequests():
            return True
        case ServerError(status=status):
            return request.idempotent and status != _NOT_IMPLEMENTED
        case Unreachable(sent=sent):
            return request.idempotent or not sent
        case _:
            return False
