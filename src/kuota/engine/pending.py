# SPDX-License-Identifier: Apache-2.0
"""The pending workloads of one ClusterQueue: the heap, inadmissible ones, and those in flight.

`kuota.engine.queues` decides whether the queue is active and which LocalQueues belong to it. The
cost of an operation does not grow with the number of pending workloads: classes become inadmissible
and are flushed as a whole (`kuota.engine.buckets`). Only workloads in backoff are kept one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import StrEnum
from itertools import chain

from kuota.api.base import Key
from kuota.api.gates import Gate

from .assignment import ScanProgress
from .backoff import Backoffs
from .buckets import FlushGroup, LazyHeap, Pending, Rank
from .entry import Head
from .model import Instant, Workload
from .policy import Policy
from .ranking import backoff_over, queue_timestamp, relevant_change
from .reasons import RequeueReason, WaitReason
from .unsatisfiable import Attainable, ClassRejection, Needs, UnsatisfiableClasses, UpperBound

LocalQueueUsage = Callable[[Key], float]
"""Returns the usage of a LocalQueue."""


class PendingState(StrEnum):
    """The state of a pending workload."""

    HEAP = "heap"
    INADMISSIBLE = "inadmissible"
    IN_FLIGHT = "in flight"


class PendingQueue:
    """The pending workloads of one ClusterQueue.

    With `local_queue_usage`, workloads are ordered by the usage of their LocalQueue, lowest first
    (admission fair sharing). It is evaluated at every pop, so its results may change at any time.
    `variants_only` excludes parents, because their variants are queued instead.
    """

    def __init__(
        self,
        name: str,
        policy: Policy | None = None,
        *,
        strict: bool = False,
        local_queue_usage: LocalQueueUsage | None = None,
    ) -> None:
        self.name = name
        self.strict = strict
        self.variants_only = False
        self._policy = policy or Policy()
        self._local_queue_usage = local_queue_usage
        self._pending: dict[Key, Pending] = {}
        self._in_flight: dict[Key, Pending] = {}
        self._groups: dict[Key, FlushGroup] = {}
        self._heap: LazyHeap[FlushGroup] = LazyHeap()
        self._by_class: dict[str, dict[Key, FlushGroup]] = {}
        self._backoffs = Backoffs()
        self._backing_off_in_heap: dict[Key, Pending] = {}
        self._rejected_classes: dict[str, WaitReason] = {}
        self._unsatisfiable = UnsatisfiableClasses()
        self._flush_count = 0
        self._preemptor: tuple[Key, int] | None = None
        self._heap_size = 0

    def __len__(self) -> int:
        return len(self._pending)

    def __contains__(self, key: Key) -> bool:
        return key in self._pending

    @property
    def heap_size(self) -> int:
        """The number of workloads in the heap."""
        return self._heap_size

    @property
    def remembers_rejections(self) -> bool:
        """Whether `skip_rejected` may find a class that was rejected and may be tried again."""
        return self._unsatisfiable.any_satisfiable

    def state(self, key: Key) -> PendingState | None:
        pending = self._pending.get(key)
        if pending is None:
            return None
        if key in self._in_flight:
            return PendingState.IN_FLIGHT
        return PendingState.HEAP if pending.in_heap else PendingState.INADMISSIBLE

    def ordered(self, scheduling_hash: str = "") -> list[Workload]:
        """Return all pending workloads, or those of a class, in any state, in queue order."""
        found = self._members(scheduling_hash) if scheduling_hash else self._pending.values()
        return [pending.current for pending in sorted(found, key=self._order)]

    def _members(self, scheduling_hash: str) -> Iterator[Pending]:
        """Yield the workloads of a class: those in its buckets, and those that are in no bucket."""
        for group in self._by_class.get(scheduling_hash, {}).values():
            yield from group.members(scheduling_hash)
        singles = (self._in_flight.values(), self._backing_off_in_heap.values(), self._backoffs)
        for pending in chain.from_iterable(singles):
            if pending.current.scheduling_hash == scheduling_hash:
                yield pending

    def is_preemptor(self, workload: Workload) -> bool:
        """Whether evictions were issued for this workload in its current generation."""
        return self._preemptor == (workload.key, workload.generation)

    def is_sticky(self, key: Key) -> bool:
        """Whether a preemptor keeps its place: it goes before all others of equal usage."""
        return not self.strict and self._preemptor is not None and self._preemptor[0] == key

    def class_reason(self, scheduling_hash: str) -> WaitReason | None:
        """Return why the class was last rejected; None if that may be outdated."""
        reason = self._rejected_classes.get(scheduling_hash)
        return reason or self._unsatisfiable.reason(scheduling_hash)

    def inadmissible_reason(self, key: Key) -> WaitReason | None:
        """Return why an inadmissible workload is not tried: its class was rejected."""
        if self.state(key) is not PendingState.INADMISSIBLE:
            return None
        return self.class_reason(self._pending[key].workload.scheduling_hash)

    def put(self, workload: Workload, now: Instant) -> None:
        """Add or update a workload."""
        pending = self._pending.get(workload.key)
        if pending is None:
            pending = self._pending[workload.key] = self._new(workload)
            self._enqueue(pending, now)
        elif workload.key in self._in_flight:
            pending.newest = workload
        else:
            self._update(pending, workload, now)

    def _update(self, pending: Pending, workload: Workload, now: Instant) -> None:
        if not self._policy.on(Gate.FlavorFungibilityPreserveScanProgress):
            pending.progress = None
        if pending.in_heap:
            self._replace(pending, workload)
            self._add_to_heap(pending, now)
        else:
            changed = pending.evaluated not in (None, workload.generation) or relevant_change(
                pending.workload, workload
            )
            self._replace(pending, workload)
            (self._enqueue if changed else self._make_inadmissible)(pending, now)

    def drop(self, key: Key) -> bool:
        """Remove a workload. Returns False if it is not in this queue."""
        pending = self._pending.pop(key, None)
        if pending is None:
            return False
        self._in_flight.pop(key, None)
        self._detach(pending)
        if pending.workload.scheduling_hash not in self._by_class:
            self._unsatisfiable.drop(pending.workload.scheduling_hash)
        if self._preemptor is not None and self._preemptor[0] == key:
            self._preemptor = None
        return True

    def pop(self, key: Key | None = None) -> Pending | None:
        """Pop the first workload, or this one if it is in the heap. It is then in flight."""
        pending = self._best() if key is None else self._pending.get(key)
        if pending is None or not pending.in_heap:
            return None
        self._detach(pending)
        self._in_flight[pending.key] = pending
        pending.evaluated = pending.workload.generation
        pending.flush_count = self._flush_count
        pending.preemptor = self.is_preemptor(pending.workload)
        return pending

    def skip_rejected(self, attainable: Attainable, now: Instant) -> Iterator[Key]:
        """Make every best workload inadmissible whose class would be rejected again.

        A preemptor, and a workload whose flavor scan is in progress, must be tried.
        """
        while (best := self._best()) is not None:
            scheduling_hash = best.workload.scheduling_hash
            rejection = self._unsatisfiable.rejected_again(scheduling_hash, attainable)
            in_scan = best.progress is not None and best.progress.pending
            if rejection is None or in_scan or self.is_preemptor(best.workload):
                return
            self._reject_class(scheduling_hash, rejection.reason, rejection.needs, now)
            yield best.key

    def would_repeat(self, head: Head) -> bool:
        """Whether the next `pop` returns the same head in the same state, after it was requeued."""
        pending = self._best()
        if pending is None or pending.workload is not head.workload:
            return False
        if pending.progress is not None and pending.progress.pending:
            return False
        return self.is_preemptor(pending.workload) == head.preemptor

    def requeue(
        self,
        workload: Workload,
        reason: RequeueReason,
        now: Instant,
        progress: ScanProgress | None = None,
        wait_reason: WaitReason | None = None,
        needs: Needs | None = None,
    ) -> bool:
        """Requeue a workload that was not admitted. Returns False if it is already queued.

        `progress` replaces the earlier scan progress. `wait_reason` is stored for the class if the
        class becomes inadmissible. An update received while the workload was in flight takes
        precedence over `workload`, and a relevant update causes a retry regardless of the reason.
        """
        key = workload.key
        pending = self._pending.get(key) or self._new(workload, evaluated=workload.generation)
        if pending.in_heap:
            return False
        inadmissible = key in self._pending and key not in self._in_flight
        flushed = key in self._in_flight and pending.flush_count != self._flush_count
        evaluated, newest = pending.workload, pending.newest or workload
        changed = pending.newest is not None and relevant_change(evaluated, newest)
        self._in_flight.pop(key, None)
        self._pending[key] = pending
        pending.progress = progress
        self._replace(pending, newest)
        if reason.preempting:
            self._preemptor = (key, evaluated.generation)
        in_scan = progress is not None and progress.pending
        retry_now = reason.retries_at_once(strict=self.strict) or flushed or in_scan
        if retry_now and backoff_over(newest, now):
            self._add_to_heap(pending, now)
            return True
        if reason.rejects_class:
            class_reason = wait_reason or WaitReason.PENDING_EVALUATION
            self._reject_class(evaluated.scheduling_hash, class_reason, needs, now)
        (self._enqueue if changed else self._make_inadmissible)(pending, now)
        return not inadmissible

    def flush(
        self,
        now: Instant,
        namespace_matches: Callable[[str], bool],
        upper_bound: UpperBound | None = None,
    ) -> int:
        """Move inadmissible workloads back to the heap and return their number.

        With `upper_bound`, because only quota was released, unsatisfiable workloads stay.
        """
        self._flush_count += 1
        self._rejected_classes.clear()
        unsatisfiable = self._unsatisfiable
        if upper_bound is None:
            satisfiable = unsatisfiable.clear()
        else:
            satisfiable = unsatisfiable.take_attainable(upper_bound)
        for scheduling_hash in satisfiable:
            for group in self._by_class.get(scheduling_hash, {}).values():
                group.make_satisfiable(scheduling_hash)
        for pending in self._backoffs.expired(now):
            self._make_inadmissible(pending, now)
        moved = 0
        for group in self._groups.values():
            if group.inadmissible.count and namespace_matches(group.key.namespace):
                moved += group.make_active()
                best = group.best()
                if best is not None:
                    self._heap.push(group, best.rank)
        self._heap_size += moved
        return moved

    def _order(self, pending: Pending) -> tuple[float, bool, Rank]:
        usage_of = self._local_queue_usage
        usage = usage_of(pending.workload.local_queue) if usage_of is not None else 0.0
        return usage, not self.is_sticky(pending.key), pending.rank

    def _best(self) -> Pending | None:
        sticky = None
        if self._preemptor and not self.strict:
            sticky = self._pending.get(self._preemptor[0])
        if sticky is not None and not sticky.in_heap:
            sticky = None
        if self._local_queue_usage is None:
            return sticky or self._heap.best()
        return self._least_used(self._local_queue_usage, sticky)

    def _least_used(self, usage_of: LocalQueueUsage, sticky: Pending | None) -> Pending | None:
        """Return the first workload of the LocalQueues with the lowest usage."""
        usages = [(usage_of(key), each) for key, each in self._groups.items() if each.active.count]
        if not usages:
            return None
        least = min(usage for usage, _ in usages)
        if sticky is not None and usage_of(sticky.workload.local_queue) <= least:
            return sticky
        heads = [group.best() for usage, group in usages if usage == least]
        return min((head for head in heads if head is not None), key=lambda head: head.rank)

    def _new(self, workload: Workload, evaluated: int | None = None) -> Pending:
        pending = Pending(workload, self.name, self._rank(workload))
        pending.evaluated = evaluated
        return pending

    def _rank(self, workload: Workload) -> Rank:
        timestamp = queue_timestamp(workload, self._policy)
        return -workload.priority, timestamp, workload.uid, workload.key

    def _replace(self, pending: Pending, workload: Workload) -> None:
        """Detach a pending workload and replace it with its newer version."""
        self._detach(pending)
        pending.newest = None
        pending.workload = workload
        pending.rank = self._rank(workload)

    def _enqueue(self, pending: Pending, now: Instant) -> None:
        """Queue a new workload, or one that changed."""
        rejected = self.class_reason(pending.workload.scheduling_hash) is not None
        if rejected or not backoff_over(pending.workload, now):
            self._make_inadmissible(pending, now)
        else:
            self._add_to_heap(pending, now)

    def _add_to_heap(self, pending: Pending, now: Instant) -> None:
        group = self._group(pending.workload)
        if backoff_over(pending.workload, now):
            group.active.add(pending)
            self._index(group, pending.workload)
        else:
            # In backoff: the workload may be tried now, but no flush may retry it afterwards.
            group.active.add(pending, separate=True)
            self._backing_off_in_heap[pending.key] = pending
        self._heap.push(group, pending.rank)
        self._heap_size += 1

    def _make_inadmissible(self, pending: Pending, now: Instant) -> None:
        workload = pending.workload
        if backoff_over(workload, now):
            group = self._group(workload)
            unsatisfiable = workload.scheduling_hash in self._unsatisfiable
            (group.unsatisfiable if unsatisfiable else group.inadmissible).add(pending)
            self._index(group, workload)
            return
        self._backoffs.add(pending)

    def _group(self, workload: Workload) -> FlushGroup:
        """Return the flush group of the workload, and create it if necessary."""
        key = workload.local_queue if self._local_queue_usage else Key(workload.key.namespace, "")
        return self._groups.get(key) or self._groups.setdefault(key, FlushGroup(key))

    def _index(self, group: FlushGroup, workload: Workload) -> None:
        """Record that the group contains a bucket of the workload's class."""
        if workload.scheduling_hash:
            self._by_class.setdefault(workload.scheduling_hash, {})[group.key] = group

    def _detach(self, pending: Pending) -> None:
        """Remove a workload from the heap or from the inadmissible ones, if it is there."""
        bucket = pending.bucket
        if bucket is None:
            self._backoffs.drop(pending.key)
            return
        self._backing_off_in_heap.pop(pending.key, None)
        group, name = bucket.partition.group, bucket.class_key
        self._heap_size -= pending.in_heap
        bucket.partition.remove(pending)
        if isinstance(name, str) and not group.has_class(name):
            groups = self._by_class[name]
            del groups[group.key]
            if not groups:
                del self._by_class[name]
        if group.empty:
            del self._groups[group.key]

    def _reject_class(
        self, scheduling_hash: str, reason: WaitReason, needs: Needs | None, now: Instant
    ) -> None:
        """Record that a class was rejected, and make its workloads inadmissible."""
        if self.strict or not scheduling_hash:
            return
        if needs is None:
            self._rejected_classes[scheduling_hash] = reason
        else:
            self._unsatisfiable.put(scheduling_hash, ClassRejection(reason, needs))
        unsatisfiable = needs is not None
        for group in self._by_class.get(scheduling_hash, {}).values():
            self._heap_size -= group.make_inadmissible(scheduling_hash, unsatisfiable=unsatisfiable)
        for pending in list(self._backing_off_in_heap.values()):
            if pending.workload.scheduling_hash == scheduling_hash:
                self._detach(pending)
                self._make_inadmissible(pending, now)
