# SPDX-License-Identifier: Apache-2.0
"""The pending workloads by LocalQueue: the oldest one, and what they request in total.

Only workloads that changed since the last reading are looked up, so a reading costs as much as the
changes before it, plus the number of queues.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

import msgspec

from kuota.api.base import Key
from kuota.engine.amounts import Requests
from kuota.engine.engine import Engine
from kuota.engine.model import Workload

_SLACK = 64


class _Pending(msgspec.Struct, frozen=True):
    """A pending workload: its LocalQueue, since when it waits, and what it requests."""

    local_queue: Key
    since: float
    requests: Requests


class _LocalQueue:
    """The pending workloads of one LocalQueue. The heap may contain workloads that have left."""

    def __init__(self) -> None:
        self.requests: Requests = {}
        self._since: dict[Key, float] = {}
        self._heap: list[tuple[float, str, str]] = []

    def __len__(self) -> int:
        return len(self._since)

    def add(self, key: Key, entry: _Pending) -> None:
        self._since[key] = entry.since
        heappush(self._heap, (entry.since, key.namespace, key.name))
        self._count(entry.requests, 1)
        if len(self._heap) > 2 * len(self._since) + _SLACK:
            self._heap = [(at, each.namespace, each.name) for each, at in self._since.items()]
            heapify(self._heap)

    def remove(self, key: Key, entry: _Pending) -> None:
        del self._since[key]
        self._count(entry.requests, -1)

    def oldest(self) -> float | None:
        """Return since when the oldest workload waits; None if there is none."""
        while self._heap:
            at, namespace, name = self._heap[0]
            if self._since.get(Key(namespace, name)) == at:
                return at
            heappop(self._heap)
        return None

    def _count(self, requests: Requests, sign: int) -> None:
        for resource, amount in requests.items():
            self.requests[resource] = self.requests.get(resource, 0) + sign * amount


class PendingIndex:
    """All pending workloads that belong to a LocalQueue. Variants count with their parent."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._entries: dict[Key, _Pending] = {}
        self._queues: dict[Key, _LocalQueue] = {}
        self._changed: set[Key] = set()

    def touch(self, key: Key) -> None:
        """Look the workload up at the next reading."""
        self._changed.add(key)

    def refresh(self) -> None:
        """Look up all workloads that changed."""
        waiting, self._changed = self._changed, set()
        for key in waiting:
            if self._engine.state.is_assumed(key):
                # It is pending until the API server has stored its reservation.
                self._changed.add(key)
                continue
            self._put(key, _entry(self._engine.queues.workload(key)))

    def of(self, local_queue: Key) -> tuple[float | None, Requests]:
        """Return since when the oldest workload of a LocalQueue waits, and all requests."""
        found = self._queues.get(local_queue)
        return (found.oldest(), found.requests) if found is not None else (None, {})

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries)

    def _put(self, key: Key, entry: _Pending | None) -> None:
        before = self._entries.pop(key, None)
        if before is not None:
            queue = self._queues[before.local_queue]
            queue.remove(key, before)
            if not queue:
                del self._queues[before.local_queue]
        if entry is not None:
            self._entries[key] = entry
            self._queues.setdefault(entry.local_queue, _LocalQueue()).add(key, entry)


def _entry(workload: Workload | None) -> _Pending | None:
    if workload is None or workload.parent_uid:
        return None
    evicted = workload.evicted
    since = max(workload.created, evicted.at) if evicted is not None else workload.created
    requests: Requests = {}
    for pod_set in workload.pod_sets:
        for resource, amount in pod_set.requests.items():
            requests[resource] = requests.get(resource, 0) + amount
    return _Pending(workload.local_queue, since, requests)
