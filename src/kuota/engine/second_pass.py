# SPDX-License-Identifier: Apache-2.0
"""Second passes: workloads that keep their quota but have to be scheduled again."""

from __future__ import annotations

from heapq import heappop, heappush

from kuota.api.base import Key
from kuota.api.topology_codec import on_node
from kuota.api.workload import PodSetAssignment

from .model import Instant, Reservation, Workload

_LONGEST_DELAY_S = 30.0


def needs_second_pass(workload: Workload) -> bool:
    """Whether pods of a workload with quota still have to be placed, or placed again."""
    reservation = workload.reservation
    if reservation is None or workload.finished or workload.evicted or workload.on_hold:
        return False
    if workload.admitted:
        return placed_on_failed_node(workload)
    ready = workload.checks and all(state == "Ready" for state in workload.checks.values())
    return bool(ready) and any(each.topology_pending for each in reservation.pod_sets)


def placed_on_failed_node(workload: Workload) -> bool:
    """Whether pods of an admitted workload are assigned to a node that failed."""
    held = workload.reservation if workload.admitted else None
    return held is not None and any(_placed_on(held, node) for node in workload.unhealthy_nodes)


def _placed_on(reservation: Reservation, node: str) -> bool:
    return any(
        on_node(PodSetAssignment(topology_assignment=each.topology), node)
        for each in reservation.pod_sets
    )


def delay_s(attempt: int) -> float:
    """Return the delay before this attempt, counted from 1."""
    # Cap the exponent, because the power of two would eventually overflow.
    return _LONGEST_DELAY_S if attempt > 5 else float(2 ** (attempt - 1))


class _ScheduledPass:
    """A second pass that is due at `due`, or in progress if that is None."""

    __slots__ = ("attempt", "due", "workload")

    def __init__(self, workload: Workload, due: Instant) -> None:
        self.workload = workload
        self.attempt = 1
        self.due: Instant | None = due


class SecondPass:
    """The queue of second passes. Each workload is in it at most once."""

    def __init__(self) -> None:
        self._scheduled: dict[Key, _ScheduledPass] = {}
        self._heap: list[tuple[Instant, str, Key]] = []

    def __len__(self) -> int:
        return len(self._scheduled)

    def __contains__(self, key: Key) -> bool:
        return key in self._scheduled

    def queue(self, workload: Workload, now: Instant) -> bool:
        """Schedule a second pass if the workload needs one. Returns whether it does."""
        if not needs_second_pass(workload):
            return False
        scheduled = self._scheduled.get(workload.key)
        if scheduled is None:
            scheduled = self._scheduled[workload.key] = _ScheduledPass(workload, now)
            self._delay(scheduled, now)
        scheduled.workload = workload
        return True

    def requeue(self, key: Key, now: Instant) -> bool:
        """Schedule the next attempt after a failed one. Returns False if it is no longer needed."""
        scheduled = self._scheduled.get(key)
        if scheduled is None or scheduled.due is not None:
            return False
        scheduled.attempt += 1
        self._delay(scheduled, now)
        return True

    def update(self, workload: Workload) -> None:
        """Store the newest state of a workload, and drop it if it needs no second pass."""
        if workload.key in self._scheduled:
            if needs_second_pass(workload):
                self._scheduled[workload.key].workload = workload
            else:
                del self._scheduled[workload.key]

    def drop(self, key: Key) -> None:
        self._scheduled.pop(key, None)

    def due(self, now: Instant) -> list[Workload]:
        """Return the workloads that are due, oldest first. They are in progress until requeued."""
        found: list[Workload] = []
        while self._skip_outdated() and self._heap[0][0] <= now:
            scheduled = self._scheduled[heappop(self._heap)[2]]
            scheduled.due = None
            found.append(scheduled.workload)
        return found

    def next_wakeup(self) -> Instant | None:
        """Return when the next second pass is due; None if there is none."""
        return self._heap[0][0] if self._skip_outdated() else None

    def _delay(self, scheduled: _ScheduledPass, now: Instant) -> None:
        scheduled.due = now + delay_s(scheduled.attempt)
        heappush(self._heap, (scheduled.due, scheduled.workload.uid, scheduled.workload.key))

    def _skip_outdated(self) -> bool:
        """Remove outdated entries from the top of the heap. Returns whether any entry is left."""
        while self._heap:
            at, _, key = self._heap[0]
            scheduled = self._scheduled.get(key)
            if scheduled is not None and scheduled.due == at:
                return True
            heappop(self._heap)
        return False
