# SPDX-License-Identifier: Apache-2.0
"""A work queue of names: each at most once in the queue, and in at most one worker at a time.

A name added while it is queued is not added twice. A name added while it is being processed is
queued again afterwards. So no two workers process the same name, and no change is missed. Names may
be added with a delay; the earliest time wins. A failing name backs off exponentially without
delaying others.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from kuota.api.backoff import Backoff
from kuota.failures import report

from .clock import Clock, SystemClock
from .errors import Conflict, KubeError, WritesSuspended

N = TypeVar("N", bound=Hashable)

Reconcile = Callable[[N], Awaitable[float | None]]
Stuck = Callable[[N, Exception], None]

RETRY = Backoff(base=5, cap=60_000)
"""Backoff after consecutive failures of one name, in milliseconds."""

REPEATED = 3
"""After this many consecutive unexpected failures, a name is reported as stuck."""

_SPARE_ALARMS = 64

_log = logging.getLogger(__name__)


class Closed(Exception):
    """The queue is closed."""


class RetryLater(Exception):
    """A reconciliation could not finish yet and has to be retried."""


class WorkQueue(Generic[N]):
    """A FIFO queue of names, with optional delays."""

    def __init__(self, clock: Clock | None = None, retry: Backoff = RETRY) -> None:
        self._clock = clock or SystemClock()
        self._retry = retry
        self._order: deque[N] = deque()
        self._ready: set[N] = set()
        self._working: set[N] = set()
        self._again: set[N] = set()
        self._failures: dict[N, int] = {}
        self._due: dict[N, tuple[float, int]] = {}
        self._alarms: list[tuple[float, int, N]] = []
        self._count = 0
        self._timer: asyncio.Task[None] | None = None
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._closed = False
        self._fault: BaseException | None = None

    def __len__(self) -> int:
        """Return the number of names that are ready; delayed ones do not count."""
        return len(self._ready)

    @property
    def idle(self) -> bool:
        """Whether no name is ready or being processed. Delayed names may exist."""
        return not self._ready and not self._working

    def scheduled(self, name: N) -> bool:
        """Whether the name is ready or delayed."""
        return name in self._due or name in self._ready

    def add(self, name: N) -> None:
        """Queue the name. After `close` this does nothing."""
        if self._closed:
            return
        self._due.pop(name, None)
        if name in self._working:
            self._again.add(name)
        elif name not in self._ready:
            self._ready.add(name)
            self._order.append(name)
            self._wake_one()

    def add_after(self, name: N, delay_s: float) -> None:
        """Queue the name after this delay, unless it is queued earlier."""
        if delay_s <= 0:
            return self.add(name)
        due = self._clock.monotonic() + delay_s
        sooner = name in self._due and self._due[name][0] <= due
        if not (self._closed or sooner or name in self._ready):
            self._push(due, name)
        return None

    def reschedule(self, name: N, delay_s: float | None) -> None:
        """Replace the delay of the name; None means that it is not due any more.

        A name that is ready or being processed stays so. The failures of one that is not due are
        reset.
        """
        self._due.pop(name, None)
        if delay_s is None:
            self.forget(name)
        else:
            self.add_after(name, delay_s)

    def retry(self, name: N) -> None:
        """Queue the name after a failure, with exponential backoff."""
        self._failures[name] = self._failures.get(name, 0) + 1
        self.add_after(name, self._retry.wait(self._failures[name]) / 1000)

    def failures(self, name: N) -> int:
        """Return the number of consecutive failures of the name."""
        return self._failures.get(name, 0)

    def forget(self, name: N) -> None:
        """Reset the failures of the name."""
        self._failures.pop(name, None)

    async def get(self) -> N:
        """Return the next name, which the caller owns until `done`. Raises Closed."""
        while True:
            if self._closed:
                raise Closed
            if self._fault is not None:
                raise RuntimeError("the timer of a work queue failed") from self._fault
            if self._ready:
                break
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            try:
                await waiter
            except asyncio.CancelledError:
                self._pass_on(waiter)
                raise
        name = self._order.popleft()
        self._ready.discard(name)
        self._working.add(name)
        return name

    def done(self, name: N) -> None:
        """Mark the name as processed, successfully or not."""
        self._working.discard(name)
        if name in self._again:
            self._again.discard(name)
            self.add(name)

    def close(self) -> None:
        """Close the queue. Waiting workers get Closed."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._wake_all()

    def _wake_one(self) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

    def _wake_all(self) -> None:
        while self._waiters:
            self._wake_one()

    def _pass_on(self, waiter: asyncio.Future[None]) -> None:
        """Handle a cancelled worker: if a name was already assigned to it, wake another worker."""
        if waiter.done() and not waiter.cancelled():
            self._wake_one()
        elif waiter in self._waiters:
            self._waiters.remove(waiter)

    def _push(self, due: float, name: N) -> None:
        if len(self._alarms) > 2 * len(self._due) + _SPARE_ALARMS:
            # Remove obsolete timers of names that were queued earlier, which would accumulate.
            self._alarms = [each for each in self._alarms if self._due.get(each[2]) == each[:2]]
            heapq.heapify(self._alarms)
        self._count += 1
        self._due[name] = (due, self._count)
        heapq.heappush(self._alarms, (due, self._count, name))
        if self._alarms[0][1] == self._count:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().create_task(self._keep_time())
        self._timer.add_done_callback(self._timer_ended)

    def _timer_ended(self, timer: asyncio.Task[None]) -> None:
        """Raise the timer's failure in the workers: without it delayed names would be lost."""
        if not timer.cancelled() and timer.exception() is not None:
            self._fault = timer.exception()
            self._wake_all()

    async def _keep_time(self) -> None:
        """Queue each delayed name when it is due."""
        while self._alarms:
            due, serial, name = self._alarms[0]
            wait_s = due - self._clock.monotonic()
            if wait_s > 0:
                await self._clock.sleep(wait_s)
                continue
            heapq.heappop(self._alarms)
            if self._due.get(name) == (due, serial):
                self.add(name)


async def serve(
    queue: WorkQueue[N], reconcile: Reconcile[N], workers: int = 1, stuck: Stuck[N] | None = None
) -> None:
    """Reconcile names until the queue is closed, with this many workers.

    `reconcile` returns None, or the seconds after which to reconcile again. An exception is logged
    and the name is retried with backoff. `stuck` is called for each unexpected exception after
    several consecutive failures.
    """
    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(_work(queue, reconcile, stuck))


async def _work(queue: WorkQueue[N], reconcile: Reconcile[N], stuck: Stuck[N] | None) -> None:
    while True:
        try:
            name = await queue.get()
        except Closed:
            return
        try:
            requeue_after_s = await reconcile(name)
        except Exception as error:
            queue.retry(name)
            if _unexpected(name, error) and stuck and queue.failures(name) >= REPEATED:
                stuck(name, error)
        else:
            queue.forget(name)
            if requeue_after_s is not None:
                queue.add_after(name, requeue_after_s)
        finally:
            queue.done(name)
        # A reconciliation that never awaits must not starve the others.
        await asyncio.sleep(0)


def _unexpected(name: object, error: Exception) -> bool:
    """Log why a reconciliation failed, and return whether that is a bug.

    Conflicts and suspended writes are not reported. Rejections by the server, missing inputs, and
    unexpected exceptions are.
    """
    if isinstance(error, Conflict | WritesSuspended):
        _log.debug("reconciling %s: %s", name, error)
    elif isinstance(error, KubeError | RetryLater):
        _log.warning("reconciling %s failed: %s", name, error)
    else:
        report("reconcile", error, f"reconciling {name} failed")
        return True
    return False
