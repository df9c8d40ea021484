# SPDX-License-Identifier: Apache-2.0
"""The pending workloads of one ClusterQueue: who goes next, who is parked, who is in flight.

Whether the queue is active, and which LocalQueues feed it, is left to `kuota.engine.queues`. No
operation costs more because more workloads wait: classes are parked and flushed as a whole
(`kuota.engine.buckets`), and only workloads that may not come back with the next flush, because of
back-off, are kept one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from heapq import heappop, heappush

from kuota.api.base import Key
from kuota.api.gates import Gate

from .assignment import Bookmark
from .buckets import Ladder, Lane, Pending, Rank
from .entry import Head
from .model import Instant, Workload
from .need import Needs, Reach, Stuck
from .policy import Policy
from .ranking import backoff_over, queue_timestamp, relevant_change
from .reasons import Requeue, WaitReason

LocalUse = Callable[[Key], float]
"""How much a LocalQueue has used so far."""

_AT_ONCE = frozenset(
    {
        Requeue.FAILED_AFTER_NOMINATION,
        Requeue.PENDING_PREEMPTION,
        Requeue.PENDING_MIGRATION,
        Requeue.PREEMPTION_FAILED,
    }
)
_PREEMPTING = frozenset({Requeue.PENDING_PREEMPTION, Requeue.PENDING_MIGRATION})
_PARKED_IF_STRICT = frozenset({Requeue.NAMESPACE_MISMATCH, Requeue.INTERNAL_ERROR})
_CLASS_FAILED = frozenset({Requeue.NO_FIT, Requeue.NO_CANDIDATES})


class Place(StrEnum):
    """Where a pending workload is; always in exactly one place."""

    HEAP = "heap"
    PARKED = "parked"
    IN_FLIGHT = "in flight"


class PendingQueue:
    """One ClusterQueue's pending workloads.

    `local_use` puts the LocalQueue that used least first (admission fair sharing). It is asked anew
    at every pop, so that its answers may change at any time. `variants_only` keeps parents out:
    their variants wait in their place.
    """

    def __init__(
        self,
        name: str,
        policy: Policy | None = None,
        *,
        strict: bool = False,
        local_use: LocalUse | None = None,
    ) -> None:
        self.name = name
        self.strict = strict
        self.variants_only = False
        self._policy = policy or Policy()
        self._local_use = local_use
        self._pending: dict[Key, Pending] = {}
        self._in_flight: dict[Key, Pending] = {}
        self._lanes: dict[Key, Lane] = {}
        self._ladder: Ladder[Lane] = Ladder()
        self._by_class: dict[str, dict[Key, Lane]] = {}
        self._held: dict[Key, Pending] = {}
        self._set_back: dict[Key, Pending] = {}
        self._due: list[tuple[Instant, Key]] = []
        self._failed: dict[str, WaitReason] = {}
        self._stuck = Stuck()
        self._flushes = 0
        self._slot: tuple[Key, int] | None = None
        self._waiting = 0

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, key: Key) -> bool:
        return key in self._pending

    @property
    def waiting(self) -> int:
        """How many are in the heap."""
        return self._waiting

    @property
    def active_count(self) -> int:
        """How many are in the heap or in flight: those whose turn may come without a flush."""
        return self._waiting + len(self._in_flight)

    @property
    def parked_count(self) -> int:
        return len(self._pending) - self.active_count

    def place(self, key: Key) -> Place | None:
        pending = self._pending.get(key)
        if pending is None:
            return None
        if key in self._in_flight:
            return Place.IN_FLIGHT
        return Place.HEAP if pending.in_heap else Place.PARKED

    def ordered(self) -> list[Workload]:
        """Everyone who waits, parked and in flight too, in the order of the queue."""
        everyone = sorted(self._pending.values(), key=self._order)
        return [pending.newest or pending.workload for pending in everyone]

    def is_preemptor(self, workload: Workload) -> bool:
        """Whether evictions were made for this very workload, unchanged since."""
        return self._slot == (workload.key, workload.generation)

    def is_sticky(self, key: Key) -> bool:
        """Whether the workload goes before all others of equal usage."""
        return not self.strict and self._slot is not None and self._slot[0] == key

    def class_reason(self, class_id: str) -> WaitReason | None:
        """Why workloads of the class were last found not to fit; None once that may be outdated."""
        return self._failed.get(class_id) or self._stuck.reason(class_id)

    def parked_reason(self, key: Key) -> WaitReason | None:
        """Why a parked workload need not be tried: another of its class did not fit."""
        if self.place(key) is not Place.PARKED:
            return None
        return self.class_reason(self._pending[key].workload.class_id)

    def put(self, workload: Workload, now: Instant) -> None:
        """Add a workload, or take note that it changed."""
        pending = self._pending.get(workload.key)
        if pending is None:
            pending = self._pending[workload.key] = self._new(workload)
            self._enter(pending, now)
        elif workload.key in self._in_flight:
            pending.newest = workload
        else:
            self._update(pending, workload, now)

    def _update(self, pending: Pending, workload: Workload, now: Instant) -> None:
        if not self._policy.on(Gate.FlavorFungibilityPreserveScanProgress):
            pending.bookmark = None
        if pending.in_heap:
            self._replace(pending, workload)
            self._to_heap(pending, now)
        else:
            changed = pending.evaluated not in (None, workload.generation) or relevant_change(
                pending.workload, workload
            )
            self._replace(pending, workload)
            (self._enter if changed else self._park)(pending, now)

    def drop(self, key: Key) -> bool:
        """Forget a workload wherever it is; False if it is not here."""
        pending = self._pending.pop(key, None)
        if pending is None:
            return False
        self._in_flight.pop(key, None)
        self._detach(pending)
        if pending.workload.class_id not in self._by_class:
            self._stuck.drop(pending.workload.class_id)
        if self._slot is not None and self._slot[0] == key:
            self._slot = None
        return True

    def pop(self, key: Key | None = None) -> Pending | None:
        """The workload whose turn it is, or that one if it may be tried; now it is in flight."""
        pending = self._best() if key is None else self._pending.get(key)
        if pending is None or not pending.in_heap:
            return None
        self._detach(pending)
        self._in_flight[pending.key] = pending
        pending.evaluated = pending.workload.generation
        pending.flushes = self._flushes
        pending.preemptor = self.is_preemptor(pending.workload)
        return pending

    def would_repeat(self, head: Head) -> bool:
        """Whether the next `pop` gives the same head, which has been put back, as it was before."""
        pending = self._best()
        if pending is None or pending.workload is not head.workload:
            return False
        if pending.bookmark is not None and pending.bookmark.pending:
            return False
        return self.is_preemptor(pending.workload) == head.preemptor

    def requeue(
        self,
        workload: Workload,
        reason: Requeue,
        now: Instant,
        bookmark: Bookmark | None = None,
        wait_reason: WaitReason | None = None,
        needs: Needs | None = None,
    ) -> bool:
        """Put back a workload that was not admitted; False if it is in its place already.

        `bookmark` replaces the one it had. `wait_reason` is remembered for its class when the
        class is parked with it. An update that came while it was in flight wins over `workload`,
        and one that matters gives the workload another try, whatever the reason says.
        """
        key = workload.key
        pending = self._pending.get(key) or self._new(workload, evaluated=workload.generation)
        if pending.in_heap:
            return False
        parked = key in self._pending and key not in self._in_flight
        flushed = key in self._in_flight and pending.flushes != self._flushes
        tried, newest = pending.workload, pending.newest or workload
        changed = pending.newest is not None and relevant_change(tried, newest)
        self._in_flight.pop(key, None)
        self._pending[key] = pending
        pending.bookmark = bookmark
        self._replace(pending, newest)
        if reason in _PREEMPTING:
            self._slot = (key, tried.generation)
        again = self._at_once(reason) or flushed or (bookmark is not None and bookmark.pending)
        if again and backoff_over(newest, now):
            self._to_heap(pending, now)
            return True
        if reason in _CLASS_FAILED:
            self._fail(tried.class_id, wait_reason or WaitReason.PENDING_EVALUATION, needs, now)
        (self._enter if changed else self._park)(pending, now)
        return not parked

    def flush(
        self, now: Instant, namespace_matches: Callable[[str], bool], reach: Reach | None = None
    ) -> int:
        """Bring back what is parked and may be tried again; answers how many came back.

        With `reach`, when only quota was released, those stay that need more than can be had.
        """
        self._flushes += 1
        self._failed.clear()
        for class_id in self._stuck.clear() if reach is None else self._stuck.freed(reach):
            for lane in self._by_class.get(class_id, {}).values():
                lane.unstick(class_id)
        self._unhold(now)
        moved = 0
        for lane in self._lanes.values():
            if lane.parked.count and namespace_matches(lane.key.namespace):
                moved += lane.release()
                best = lane.best()
                if best is not None:
                    self._ladder.note(lane, best.rank)
        self._waiting += moved
        return moved

    def _order(self, pending: Pending) -> tuple[float, bool, Rank]:
        use = self._local_use(pending.workload.local_queue) if self._local_use else 0.0
        return use, not self.is_sticky(pending.key), pending.rank

    def _best(self) -> Pending | None:
        sticky = self._pending.get(self._slot[0]) if self._slot and not self.strict else None
        if sticky is not None and not sticky.in_heap:
            sticky = None
        if self._local_use is None:
            return sticky or self._ladder.best()
        return self._least_used(self._local_use, sticky)

    def _least_used(self, local_use: LocalUse, sticky: Pending | None) -> Pending | None:
        """The first of those whose LocalQueue used least."""
        uses = [(local_use(key), lane) for key, lane in self._lanes.items() if lane.active.count]
        if not uses:
            return None
        least = min(use for use, _ in uses)
        if sticky is not None and local_use(sticky.workload.local_queue) <= least:
            return sticky
        heads = [lane.best() for use, lane in uses if use == least]
        return min((head for head in heads if head is not None), key=lambda head: head.rank)

    def _at_once(self, reason: Requeue) -> bool:
        """Whether the reason alone sends a workload back to the heap."""
        if self.strict:
            return reason not in _PARKED_IF_STRICT
        return reason in _AT_ONCE

    def _new(self, workload: Workload, evaluated: int | None = None) -> Pending:
        pending = Pending(workload, self.name, self._rank(workload))
        pending.evaluated = evaluated
        return pending

    def _rank(self, workload: Workload) -> Rank:
        timestamp = queue_timestamp(workload, self._policy)
        return -workload.priority, timestamp, workload.uid, workload.key

    def _replace(self, pending: Pending, workload: Workload) -> None:
        """Take a pending workload out of its place and let it be the newer one."""
        self._detach(pending)
        pending.newest = None
        pending.workload = workload
        pending.rank = self._rank(workload)

    def _enter(self, pending: Pending, now: Instant) -> None:
        """Give a workload its first place, or a new one after it changed."""
        failed = self.class_reason(pending.workload.class_id) is not None
        if failed or not backoff_over(pending.workload, now):
            self._park(pending, now)
        else:
            self._to_heap(pending, now)

    def _to_heap(self, pending: Pending, now: Instant) -> None:
        lane = self._lane(pending.workload)
        if backoff_over(pending.workload, now):
            lane.active.add(pending)
            self._index(lane, pending.workload)
        else:
            # Set back while in the heap: it may be tried, but once parked no flush may free it.
            lane.active.add(pending, alone=True)
            self._set_back[pending.key] = pending
        self._ladder.note(lane, pending.rank)
        self._waiting += 1

    def _park(self, pending: Pending, now: Instant) -> None:
        workload = pending.workload
        if backoff_over(workload, now):
            lane = self._lane(workload)
            side = lane.stuck if workload.class_id in self._stuck else lane.parked
            side.add(pending)
            self._index(lane, workload)
            return
        self._held[workload.key] = pending
        if workload.requeued is not False and workload.requeue_at is not None:
            heappush(self._due, (workload.requeue_at, workload.key))

    def _lane(self, workload: Workload) -> Lane:
        """The lane the workload belongs to."""
        key = workload.local_queue if self._local_use else Key(workload.key.namespace, "")
        return self._lanes.get(key) or self._lanes.setdefault(key, Lane(key))

    def _index(self, lane: Lane, workload: Workload) -> None:
        """Remember that the lane holds a bucket of the workload's class."""
        if workload.class_id:
            self._by_class.setdefault(workload.class_id, {})[lane.key] = lane

    def _detach(self, pending: Pending) -> None:
        """Take a workload out of the heap or the parking, if it is in one."""
        bucket = pending.bucket
        if bucket is None:
            self._held.pop(pending.key, None)
            return
        self._set_back.pop(pending.key, None)
        lane, name = bucket.side.lane, bucket.name
        self._waiting -= pending.in_heap
        bucket.side.remove(pending)
        if isinstance(name, str) and not lane.holds(name):
            lanes = self._by_class[name]
            del lanes[lane.key]
            if not lanes:
                del self._by_class[name]
        if lane.empty:
            del self._lanes[lane.key]

    def _fail(self, class_id: str, reason: WaitReason, needs: Needs | None, now: Instant) -> None:
        """Remember that a class does not fit, and park whoever is of it."""
        if self.strict or not class_id:
            return
        if needs is None:
            self._failed[class_id] = reason
        else:
            self._stuck.put(class_id, needs, reason)
        for lane in self._by_class.get(class_id, {}).values():
            self._waiting -= lane.park(class_id, stuck=needs is not None)
        for pending in list(self._set_back.values()):
            if pending.workload.class_id == class_id:
                self._detach(pending)
                self._park(pending, now)

    def _unhold(self, now: Instant) -> None:
        """Park those whose back-off is over like everyone else, for the flush to find them."""
        while self._due and self._due[0][0] <= now:
            _, key = heappop(self._due)
            pending = self._held.get(key)
            if pending is not None and backoff_over(pending.workload, now):
                del self._held[key]
                self._park(pending, now)
