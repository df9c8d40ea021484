# SPDX-License-Identifier: Apache-2.0
"""Sends requests with rate limiting and retries.

A 429 guarantees that the request was not processed, so every verb is retried. After a 5xx or a
broken connection the result is unknown, so only idempotent requests are retried. The server's
Retry-After is honored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from math import ceil

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
"""Delays between attempts, in milliseconds."""
ATTEMPTS = 6
LONGEST_WAIT_S = 60.0
"""A server that requests a longer delay than this has failed the request."""
BATCH_S = 0.1
"""The interval at which delayed requests are sent. Sending several at once, and processing their
responses together, costs much less CPU time than one wakeup of the process for each of them."""
AT_ONCE = 32
"""The maximum number of concurrent requests for one resource; streams do not count."""
_NOT_IMPLEMENTED = 501


class Rate:
    """A token bucket with `burst` tokens that refills at `qps` per second.

    Tokens are granted in order. A cancelled caller has used its token.
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
            due = now - self._permits / self._qps
            await self._clock.sleep(ceil(due / BATCH_S) * BATCH_S - now)


class Rates:
    """A token bucket for each resource, as in clients of controller-runtime.

    Requests for Workloads, on which admissions depend, never wait for Events or queue statuses.
    """

    def __init__(self, clock: Clock, qps: float, burst: int) -> None:
        self._clock = clock
        self._qps = qps
        self._burst = burst
        self._buckets = {"": Rate(clock, qps, burst)}

    async def take(self, resource: str) -> None:
        """Return when one more request for this resource may be sent."""
        bucket = self._buckets.get(resource)
        if bucket is None:
            bucket = self._buckets[resource] = Rate(self._clock, self._qps, self._burst)
        await bucket.take()


class RetryingSender:
    """Sends through one transport, limited by `rates`, and writes only while `may_write`."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        rates: Rates | None,
        may_write: Callable[[], bool] | None,
    ) -> None:
        self.transport = transport
        self._clock = clock
        self._rates = rates
        self._may_write = may_write
        # If the server is slow, writes of queue statuses must not wait for those of all Workloads.
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._writing = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    async def permitted(self, request: HttpRequest) -> None:
        """Return when the rate of its resource allows the request."""
        if self._rates is not None:
            await self._rates.take(request.resource)

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Return the successful response; raises ApiError, Unreachable or WritesSuspended."""
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
        """Return when no write is in flight."""
        await self._quiet.wait()

    async def _sent(self, request: HttpRequest) -> HttpResponse:
        # A request that waits for its rate must not take a turn from others.
        await self.permitted(request)
        turns = self._turns.get(request.resource)
        if turns is None:
            turns = self._turns[request.resource] = asyncio.Semaphore(AT_ONCE)
        async with turns:
            if request.writes and self._may_write is not None and not self._may_write():
                raise WritesSuspended(f"not sent: {request}: this process may not write now")
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
    """Return the delay before the next attempt; None if there must be none."""
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
        case Unreachable(final=True):
            return False
        case Unreachable(sent=sent):
            return request.idempotent or not sent
        case _:
            return False
