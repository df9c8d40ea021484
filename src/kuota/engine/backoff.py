# SPDX-License-Identifier: Apache-2.0
"""Pending workloads in backoff: they are not tried before a certain time, or until they change."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from kuota.api.base import Key

from .buckets import Pending
from .model import Instant
from .ranking import backoff_over


class Backoffs:
    """The workloads of one queue that are in backoff."""

    def __init__(self) -> None:
        self._pending: dict[Key, Pending] = {}
        self._ends: list[tuple[Instant, Key]] = []

    def __iter__(self) -> Iterator[Pending]:
        return iter(self._pending.values())

    def add(self, pending: Pending) -> None:
        workload = pending.workload
        self._pending[workload.key] = pending
        if workload.requeued is not False and workload.requeue_at is not None:
            heappush(self._ends, (workload.requeue_at, workload.key))

    def drop(self, key: Key) -> None:
        """Forget a workload, if it is known."""
        self._pending.pop(key, None)

    def expired(self, now: Instant) -> Iterator[Pending]:
        """Remove and yield the workloads whose backoff is over."""
        while self._ends and self._ends[0][0] <= now:
            _, key = heappop(self._ends)
            pending = self._pending.get(key)
            if pending is not None and backoff_over(pending.workload, now):
                del self._pending[key]
                yield pending
