# SPDX-License-Identifier: Apache-2.0
"""Shares the server among users, as API Priority and Fairness does in Kubernetes.

`FairQueue` decides whose request is executed next: that of the user who has used the least time of
the event loop, so that a user with few requests never waits for the queue of another. `Slots`
limits the requests and the streams that one user may have in progress.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from kuota.api.status import StatusError
from kuota.connections import decrement

SLICE_S = 0.005
"""The time of the event loop that requests get before other tasks may run."""
RETRY_AFTER_S = 1
SYSTEM_SHARE = 4.0
"""The share of the controllers in this process, relative to one user."""


class RequestLimits(msgspec.Struct, frozen=True):
    """Limits per user: requests in progress, requests that wait, and open streams."""

    executing: int = 32
    waiting: int = 128
    streams: int = 128


def too_many(message: str) -> StatusError:
    """The rejection of a request that may succeed later."""
    details = {"retryAfterSeconds": RETRY_AFTER_S}
    return StatusError(429, "TooManyRequests", message, details)


class _Flow:
    """The requests of one user. `used_s` is the user's time, divided by the user's share."""

    __slots__ = ("cost_s", "queue", "share", "used_s")

    def __init__(self, share: float) -> None:
        self.share = share
        self.used_s = 0.0
        self.cost_s = SLICE_S / 4  # The expected time of one request.
        self.queue: deque[asyncio.Future[None]] = deque()


class FairQueue:
    """Grants turns on the event loop. A turn does not await anything but `pause`.

    Up to `SLICE_S`, turns are granted at once. After that, requests queue per user, and the user
    with the least used time is next. `shares` names users with another share than 1.
    """

    def __init__(
        self,
        shares: dict[str, float] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._shares = shares or {}
        self._clock = clock
        self._flows: dict[str, _Flow] = {}
        self._queued: dict[str, _Flow] = {}
        self._left_s = SLICE_S
        self._ticking = False
        self._floor_s = 0.0  # The used time of the flow that was served last.

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a turn."""
        return sum(len(flow.queue) for flow in self._queued.values())

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[RequestTurn]:
        """Wait for a turn of the user, and end it when the block ends."""
        turn = RequestTurn(self, user)
        await turn.begin()
        try:
            yield turn
        finally:
            turn.end()

    async def granted(self, user: str) -> _Flow:
        """Wait for a turn; the caller passes the flow to `finished`."""
        flow = self._flow(user)
        if self._left_s > 0 and not self._queued:
            return flow
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        flow.queue.append(future)
        self._queued[user] = flow
        self._tick_soon()
        try:
            await future
        except asyncio.CancelledError:
            if not future.done() or future.cancelled():
                self._withdraw(user, flow, future)
            raise
        return flow

    def finished(self, flow: _Flow, took_s: float) -> None:
        """Account for the time of a turn."""
        flow.used_s += took_s / flow.share
        flow.cost_s = 0.7 * flow.cost_s + 0.3 * took_s
        self._left_s -= took_s
        self._tick_soon()

    def now(self) -> float:
        return self._clock()

    def _flow(self, user: str) -> _Flow:
        flow = self._flows.get(user)
        if flow is None:
            if len(self._flows) >= 1000:
                self._forget_idle()
            flow = self._flows[user] = _Flow(self._shares.get(user, 1.0))
        if not flow.queue:
            # Idle time is not saved up.
            flow.used_s = max(flow.used_s, self._floor_s)
        return flow

    def _forget_idle(self) -> None:
        self._flows = {user: flow for user, flow in self._flows.items() if flow.queue}

    def _withdraw(self, user: str, flow: _Flow, future: asyncio.Future[None]) -> None:
        if future in flow.queue:
            flow.queue.remove(future)
        if not flow.queue:
            self._queued.pop(user, None)

    def _tick_soon(self) -> None:
        if not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        """Begin a new slice, and grant turns of it to those who wait."""
        self._ticking = False
        self._left_s = SLICE_S
        expected_s = 0.0
        planned: Counter[str] = Counter()
        while self._queued and expected_s < SLICE_S:
            user, flow = min(self._queued.items(), key=lambda each: _due(each[1], planned[each[0]]))
            future = flow.queue.popleft()
            if not flow.queue:
                del self._queued[user]
            if future.done():
                continue
            self._floor_s = max(self._floor_s, flow.used_s)
            planned[user] += 1
            expected_s += max(flow.cost_s, 0.0001)
            future.set_result(None)
        if self._queued:
            self._left_s = 0.0
            self._tick_soon()


def _due(flow: _Flow, planned: int) -> float:
    """The user's time when the turns that were just granted have ended."""
    return flow.used_s + planned * flow.cost_s / flow.share


class RequestTurn:
    """One turn of a request. `pause` lets others run in the middle of a long request."""

    __slots__ = ("_began", "_fair_queue", "_flow", "_user")

    def __init__(self, fair_queue: FairQueue, user: str) -> None:
        self._fair_queue = fair_queue
        self._user = user
        self._flow: _Flow | None = None
        self._began = 0.0

    async def begin(self) -> None:
        self._flow = await self._fair_queue.granted(self._user)
        self._began = self._fair_queue.now()

    def end(self) -> None:
        """End the turn. Does nothing if it has ended."""
        if self._flow is not None:
            self._fair_queue.finished(self._flow, self._fair_queue.now() - self._began)
            self._flow = None

    async def pause(self) -> None:
        """Give others a turn if this one has lasted long enough."""
        if self._flow is not None and self._fair_queue.now() - self._began >= SLICE_S:
            self.end()
            await self.begin()


class Slots:
    """Limits what one user has in progress. A user who exceeds the limits gets status 429."""

    def __init__(self, limits: RequestLimits | None = None) -> None:
        self.limits = limits or RequestLimits()
        self.rejected: Counter[str] = Counter()
        """Rejected requests since the start, by reason."""
        self._executing: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}

    @property
    def executing(self) -> int:
        return self._executing.total()

    @property
    def streams(self) -> int:
        return self._streams.total()

    @asynccontextmanager
    async def request(self, user: str) -> AsyncIterator[None]:
        """Wait until the user may have one more request in progress. Raises StatusError."""
        await self._enter(user)
        try:
            yield
        finally:
            self._leave(user)

    @asynccontextmanager
    async def stream(self, user: str) -> AsyncIterator[None]:
        """Count a watch, a log or a similar stream of the user. Raises StatusError."""
        if self._streams[user] >= self.limits.streams:
            self.rejected["streams"] += 1
            raise too_many(f"{self.limits.streams} watches and logs are open; close some first")
        self._streams[user] += 1
        try:
            yield
        finally:
            decrement(self._streams, user)

    async def _enter(self, user: str) -> None:
        if self._executing[user] < self.limits.executing:
            self._executing[user] += 1
            return
        queue = self._queues.setdefault(user, deque())
        if len(queue) >= self.limits.waiting:
            self.rejected["queue"] += 1
            raise too_many("too many requests of this user are waiting; please try again later")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(future)
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._leave(user)  # The slot was granted and is not used.
            elif future in queue:
                queue.remove(future)
            raise

    def _leave(self, user: str) -> None:
        """Pass the slot to the next request of the user, if one waits."""
        queue = self._queues.get(user, deque())
        while queue:
            future = queue.popleft()
            if not future.done():
                future.set_result(None)
                return
        self._queues.pop(user, None)
        decrement(self._executing, user)
