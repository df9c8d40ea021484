# SPDX-License-Identifier: Apache-2.0
"""Writes that are only informative and yield to all other writes.

Under load, publishing why every Workload waits would delay admissions. So these writes are sent
while nothing else is being written, and otherwise at most once a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable

from kuota.api.backoff import Backoff
from kuota.failures import report
from kuota.kube.clock import Clock
from kuota.kube.errors import KubeError, ServerError, Unreachable, WritesSuspended

INTERVAL_S = 0.05
"""Between two writes while no other write is in flight."""
BUSY_INTERVAL_S = 1.0
"""Between two writes while other writes are in flight."""
MAX_ATTEMPTS = 5
RETRY = Backoff(base=100, cap=30_000)
"""Delays after consecutive failures, in milliseconds."""

_OUTAGE = (Unreachable, ServerError, WritesSuspended)

Write = Callable[[], Awaitable[None]]

_log = logging.getLogger(__name__)


class DeferredWrites:
    """Deferred writes by name, oldest first. `run` sends them until it is cancelled.

    A write computes its content when it is sent, so one entry per name is enough. A failed write is
    retried after the others. It is dropped after MAX_ATTEMPTS, not counting those in an outage.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._pending: OrderedDict[Hashable, Write] = OrderedDict()
        self._attempts: dict[Hashable, int] = {}
        self._wake = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._pending)

    def defer(self, name: Hashable, write: Write) -> None:
        """Send the write when there is time. It replaces an earlier one with the same name."""
        if not self._closed:
            self._pending[name] = write
            self._wake.set()

    def cancel(self, name: Hashable) -> None:
        """Drop the write."""
        self._pending.pop(name, None)
        self._attempts.pop(name, None)

    def close(self) -> None:
        """Drop all writes and accept no more."""
        self._closed = True
        self._pending.clear()
        self._attempts.clear()

    async def run(self, busy: Callable[[], bool]) -> None:
        """Send until cancelled. `busy` returns whether other writes are in flight."""
        failures = 0
        while True:
            self._wake.clear()
            while self._pending:
                await self._until_quiet(busy)
                failures = 0 if await self._send_oldest() else failures + 1
                if failures:
                    await self._clock.sleep(RETRY.wait(failures) / 1000)
            await self._wake.wait()

    async def _until_quiet(self, busy: Callable[[], bool]) -> None:
        deadline = self._clock.monotonic() + BUSY_INTERVAL_S
        await self._clock.sleep(INTERVAL_S)
        while busy() and self._clock.monotonic() < deadline:
            await self._clock.sleep(INTERVAL_S)

    async def _send_oldest(self) -> bool:
        """Send the oldest write, if any. Returns False if it failed."""
        if not self._pending:
            return True
        name, write = self._pending.popitem(last=False)
        try:
            await write()
        except Exception as error:
            self._retry(name, write, error)
            return False
        self._attempts.pop(name, None)
        return True

    def _retry(self, name: Hashable, write: Write, error: Exception) -> None:
        # An outage says nothing about the write.
        attempts = self._attempts.pop(name, 0) + (not isinstance(error, _OUTAGE))
        if not isinstance(error, KubeError):
            report("deferred write", error, f"deferred write {name} failed")
        if attempts >= MAX_ATTEMPTS:
            _log.warning("giving up deferred write %s after %d attempts: %s", name, attempts, error)
            return
        _log.debug("deferred write %s failed and will be retried: %s", name, error)
        self._attempts[name] = attempts
        if not self._closed:
            self._pending.setdefault(name, write)
