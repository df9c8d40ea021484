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


class _Visit:
    """A second pass that is due at `due`, or in progress if that is None."""

    __slots__ = ("attempt", "due", "workload")

    def __init__(self, workload: Workload, due: Instant) -> None:
        self.workload = workload
        self.attempt = 1
        self.due: Instant | None = due


class SecondPass:
    """The queue of second passes. Each workload is in it at most once."""

    def __init__(self) -> None:
        self._visits: dict[Key, _Visit] = {}
        self._heap: list[tuple[Instant, str, Key]] = []

    def __len__(self) -> int:
        return len(self._visits)

    def __contains__(self, key: Key) -> bool:
        return key in self._visits

    def queue(self, workload: Workload, now: Instant) -> bool:
        """Schedule a second pass if the workload needs one. Returns whether it does."""
        if not needs_second_pass(workload):
            return False
        visit = self._visits.get(workload.key)
        if visit is None:
            visit = self._visits[workload.key] = _Visit(workload, now)
            self._delay(visit, now)
        visit.workload = workload
        return True

    def requeue(self, key: Key, now: Instant) -> bool:
        """Schedule the next attempt after a failed one. Returns False if it is no longer needed."""
        visit = self._visits.get(key)
        if visit is None or visit.due is not None:
            return False
        visit.attempt += 1
        self._delay(visit, now)
        return True

    def note(self, workload: Workload) -> None:
        """Store the newest state of a workload, and drop it if it needs no second pass."""
        if workload.key in self._visits:
            if needs_second_pass(workload):
                self._visits[workload.key].workload = workload
            else:
                del self._visits[workload.key]

    def drop(self, key: Key) -> None:
        self._visits.pop(key, None)

    def due(self, now: Instant) -> list[Workload]:
        """Return the workloads that are due, oldest first. They are in progress until requeued."""
        found: list[Workload] = []
        while self._first() and self._heap[0][0] <= now:
            visit = self._visits[heappop(self._heap)[2]]
            visit.due = None
            found.append(visit.workload)
        return found

    def next_wakeup(self) -> Instant | None:
        """Return when the next second pass is due; None if there is none."""
        return self._heap[0][0] if self._first() else None

    def _delay(self, visit: _Visit, now: Instant) -> None:
        visit.due = now + delay_s(visit.attempt)
        heappush(self._heap, (visit.due, visit.workload.uid, visit.workload.key))

    def _first(self) -> bool:
        """Remove outdated entries from the top of the heap. Returns whether any entry is left."""
        while self._heap:
            at, _, key = self._heap[0]
            visit = self._visits.get(key)
            if visit is not None and visit.due == at:
                return True
            heappop(self._heap)
        return False
