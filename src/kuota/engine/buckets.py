# SPDX-License-Identifier: Apache-2.0
"""Pending workloads grouped by scheduling hash, so that a whole class moves in one step.

A `Bucket` is a heap of the workloads with one scheduling hash. A `Partition` is a heap of buckets.
A `FlushGroup` has three partitions: workloads that the next cycle may try (active), workloads that
wait for a flush (inadmissible), and workloads that need more quota than a flush could find
(unsatisfiable). Making a class inadmissible moves one bucket between partitions, and a flush swaps
two partitions. Neither operation visits single workloads.

Heaps are lazy (`LazyHeap`). An item that leaves or gets a worse rank keeps its old heap entry until
that entry reaches the top. An item that gets a better rank is pushed again. A heap entry is current
only while its item refers to it, so an entry never ranks below its item, and the top of the heap is
correct once it has been checked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

from kuota.api.base import Key

from .assignment import ScanProgress
from .entry import Head
from .model import Instant, Workload

Rank = tuple[int, Instant, str, Key]
"""Negated priority, queue timestamp, UID, key. The smallest rank goes first; ranks are unique."""

_MIN_CAPACITY = 64


class HeapItem(ABC):
    """Something with a best workload that is in at most one heap."""

    __slots__ = ("entry",)

    def __init__(self) -> None:
        self.entry: tuple[Rank, HeapItem] | None = None

    @abstractmethod
    def best(self) -> Pending | None:
        """Return the workload with the smallest rank, or None if there is none."""

    def __lt__(self, other: HeapItem) -> bool:
        # Heap entries compare items only if their ranks are equal. That happens only between a
        # current and an outdated entry, so any order is correct.
        return False


class Pending(HeapItem):
    """A pending workload and its scheduling history in this queue.

    `evaluated` is the generation that a cycle last evaluated, or None. `flush_count` is the queue's
    flush count when the workload was popped. `newest` is an update received while it was in flight.
    `preemptor` and `second_pass` are set on pop and are meaningless while the workload is queued.
    """

    __slots__ = (
        "bucket",
        "cluster_queue",
        "evaluated",
        "flush_count",
        "key",
        "newest",
        "preemptor",
        "progress",
        "rank",
        "second_pass",
        "workload",
    )

    def __init__(self, workload: Workload, cluster_queue: str, rank: Rank) -> None:
        super().__init__()
        self.workload = workload
        self.key = workload.key
        self.cluster_queue = cluster_queue
        self.rank = rank
        self.bucket: Bucket | None = None
        self.progress: ScanProgress | None = None
        self.evaluated: int | None = None
        self.flush_count = 0
        self.newest: Workload | None = None
        self.preemptor = False
        self.second_pass = False

    @property
    def current(self) -> Workload:
        """The workload with the update that it received while it was in flight, if any."""
        return self.newest or self.workload

    @property
    def in_heap(self) -> bool:
        bucket = self.bucket
        return bucket is not None and bucket.partition is bucket.partition.group.active

    def best(self) -> Pending | None:
        return self

    def head(self) -> Head:
        """The workload as a cycle sees it, once it has been popped."""
        return Head(
            workload=self.workload,
            cluster_queue=self.cluster_queue,
            progress=self.progress,
            preemptor=self.preemptor,
            second_pass=self.second_pass,
        )

    def __repr__(self) -> str:
        return f"Pending({self.key} in {self.cluster_queue})"


Item = TypeVar("Item", bound=HeapItem)


class LazyHeap(HeapItem, Generic[Item]):
    """Items ordered by the rank of their best workload."""

    __slots__ = ("_capacity", "_heap")

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[Rank, Item]] = []
        self._capacity = _MIN_CAPACITY

    @property
    def length(self) -> int:
        """The number of heap entries, including outdated ones."""
        return len(self._heap)

    def push(self, item: Item, rank: Rank) -> None:
        """Add an item with this rank. Callers must push it again whenever its best changes."""
        if item.entry is not None and item.entry[0] <= rank:
            return
        entry = (rank, item)
        item.entry = entry
        heappush(self._heap, entry)
        if len(self._heap) > self._capacity:
            self._heap = [each for each in self._heap if each[1].entry is each]
            heapify(self._heap)
            self._capacity = max(_MIN_CAPACITY, 2 * len(self._heap))

    def best(self) -> Pending | None:
        """Return the first workload without removing it, or None if the heap is empty."""
        heap = self._heap
        while heap:
            entry = heap[0]
            item = entry[1]
            if item.entry is not entry:
                heappop(heap)
                continue
            found = item.best()
            if found is not None and found.rank == entry[0]:
                return found
            if found is None:
                item.entry = None
                heappop(heap)
            else:
                entry = (found.rank, item)
                item.entry = entry
                heapreplace(heap, entry)
        return None

    def items(self) -> list[Item]:
        """Return all items, in no particular order."""
        return [entry[1] for entry in self._heap if entry[1].entry is entry]

    def clear(self) -> None:
        self._heap.clear()
        self._capacity = _MIN_CAPACITY


ClassKey = str | Key
"""A scheduling hash, or the key of a workload that shares its hash with no other."""


class Bucket(LazyHeap[Pending]):
    """The workloads of one class in one partition."""

    __slots__ = ("class_key", "count", "partition")

    def __init__(self, class_key: ClassKey, partition: Partition) -> None:
        super().__init__()
        self.class_key = class_key
        self.partition = partition
        self.count = 0

    def add(self, pending: Pending) -> None:
        pending.bucket = self
        pending.entry = None
        self.push(pending, pending.rank)
        self.count += 1

    def remove(self, pending: Pending) -> None:
        pending.bucket = None
        pending.entry = None
        self.count -= 1

    def absorb(self, other: Bucket) -> None:
        """Add the workloads of another bucket, which must not be used any more."""
        for pending in other.items():
            self.add(pending)


class Partition(LazyHeap[Bucket]):
    """One partition of a flush group: buckets by class, and the number of workloads in them."""

    __slots__ = ("buckets", "count", "group")

    def __init__(self, group: FlushGroup) -> None:
        super().__init__()
        self.group = group
        self.buckets: dict[ClassKey, Bucket] = {}
        self.count = 0

    def add(self, pending: Pending, *, separate: bool = False) -> None:
        """Add a workload to the bucket of its class, or to a bucket of its own if `separate`."""
        class_key: ClassKey = pending.key
        if not separate:
            class_key = pending.workload.scheduling_hash or pending.key
        bucket = self.buckets.get(class_key)
        if bucket is None:
            bucket = self.buckets[class_key] = Bucket(class_key, self)
        bucket.add(pending)
        self.count += 1
        self.push(bucket, pending.rank)

    def remove(self, pending: Pending) -> None:
        bucket = pending.bucket
        assert bucket is not None
        bucket.remove(pending)
        self.count -= 1
        if not bucket.count:
            del self.buckets[bucket.class_key]
            bucket.entry = None

    def take_bucket(self, class_key: ClassKey) -> Bucket | None:
        """Remove and return the bucket of a class, if there is one."""
        bucket = self.buckets.pop(class_key, None)
        if bucket is not None:
            self.count -= bucket.count
            bucket.entry = None
        return bucket

    def put_bucket(self, bucket: Bucket) -> None:
        """Add a bucket taken from another partition. The smaller bucket joins the larger one."""
        mine = self.take_bucket(bucket.class_key)
        if mine is not None:
            if mine.count > bucket.count:
                mine, bucket = bucket, mine
            bucket.absorb(mine)
        bucket.partition = self
        self.buckets[bucket.class_key] = bucket
        self.count += bucket.count
        best = bucket.best()
        assert best is not None
        self.push(bucket, best.rank)


class FlushGroup(HeapItem):
    """Workloads that are flushed together: those of one namespace or of one LocalQueue."""

    __slots__ = ("active", "inadmissible", "key", "unsatisfiable")

    def __init__(self, key: Key) -> None:
        super().__init__()
        self.key = key
        self.active = Partition(self)
        self.inadmissible = Partition(self)
        self.unsatisfiable = Partition(self)

    @property
    def empty(self) -> bool:
        return not (self.active.count or self.inadmissible.count or self.unsatisfiable.count)

    def best(self) -> Pending | None:
        return self.active.best()

    def make_inadmissible(self, class_key: ClassKey, *, unsatisfiable: bool = False) -> int:
        """Move the active workloads of a class out of the heap and return their number."""
        target = self.unsatisfiable if unsatisfiable else self.inadmissible
        return _move(class_key, self.active, target)

    def make_satisfiable(self, class_key: ClassKey) -> None:
        """Let the next flush retry the unsatisfiable workloads of a class."""
        _move(class_key, self.unsatisfiable, self.inadmissible)

    def make_active(self) -> int:
        """Make every inadmissible workload active and return their number."""
        moved = self.inadmissible.count
        few, many = self.inadmissible, self.active
        if len(few.buckets) > len(many.buckets):
            few, many = many, few
        for class_key in list(few.buckets):
            bucket = few.take_bucket(class_key)
            assert bucket is not None
            many.put_bucket(bucket)
        few.clear()
        self.active, self.inadmissible = many, few
        return moved

    def has_class(self, class_key: ClassKey) -> bool:
        return any(class_key in partition.buckets for partition in self._partitions())

    def members(self, class_key: ClassKey) -> Iterator[Pending]:
        """Yield the workloads of a class, in no particular order."""
        for partition in self._partitions():
            bucket = partition.buckets.get(class_key)
            if bucket is not None:
                yield from bucket.items()

    def _partitions(self) -> tuple[Partition, ...]:
        return self.active, self.inadmissible, self.unsatisfiable


def _move(class_key: ClassKey, source: Partition, target: Partition) -> int:
    bucket = source.take_bucket(class_key)
    if bucket is None:
        return 0
    moved = bucket.count
    target.put_bucket(bucket)
    return moved
