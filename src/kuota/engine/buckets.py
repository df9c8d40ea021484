# SPDX-License-Identifier: Apache-2.0
"""Pending workloads by class, so that a whole class is parked or brought back in one step.

Everything is a ladder: a heap whose rungs are pending workloads, or ladders themselves. A bucket
is a ladder of workloads of one scheduling class, a side is a ladder of buckets, and a lane holds
three sides: what may be tried (active), what waits for a flush (parked), and what waits for more
room than a flush would find (stuck). Parking a class moves one bucket from side to side; a flush of
a lane swaps the first two. Neither looks at single workloads.

Heaps are lazy. What leaves, or gets worse, keeps its old entry until that comes to the top; what
gets better is entered again. An entry counts only while its rung says it is `listed` there, so
entries never promise less than the rung holds, and the top is right once it has been checked.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush, heapreplace
from typing import Generic, TypeVar

from kuota.api.base import Key

from .assignment import Bookmark
from .model import Instant, Workload

Rank = tuple[int, Instant, str, Key]
"""Negated priority, queue timestamp, UID, key: smaller goes first, and no two are equal."""

_ROOMY = 64


class Rung:
    """Something that has a best workload and stands in at most one ladder."""

    __slots__ = ("listed",)

    def __init__(self) -> None:
        self.listed: tuple[Rank, Rung] | None = None

    def best(self) -> Pending | None:
        raise NotImplementedError

    def __lt__(self, other: Rung) -> bool:
        # Ranks are equal only between a current entry and an outdated one: either order will do.
        return False


class Pending(Rung):
    """A workload that waits, with what the queue knows of its past.

    `evaluated` is the generation last looked at by a cycle, None if never. `flushes` tells whether
    the queue was flushed since it was popped. `newest` is an update that came while in flight.
    `preemptor` and `second_pass` describe the head it is, and mean nothing while it waits.
    """

    __slots__ = (
        "bookmark",
        "bucket",
        "cluster_queue",
        "evaluated",
        "flushes",
        "newest",
        "preemptor",
        "rank",
        "second_pass",
        "workload",
    )

    def __init__(self, workload: Workload, cluster_queue: str, rank: Rank) -> None:
        super().__init__()
        self.workload = workload
        self.cluster_queue = cluster_queue
        self.rank = rank
        self.bucket: Bucket | None = None
        self.bookmark: Bookmark | None = None
        self.evaluated: int | None = None
        self.flushes = 0
        self.newest: Workload | None = None
        self.preemptor = False
        self.second_pass = False

    @property
    def key(self) -> Key:
        return self.workload.key

    @property
    def in_heap(self) -> bool:
        bucket = self.bucket
        return bucket is not None and bucket.side is bucket.side.lane.active

    def best(self) -> Pending | None:
        return self

    def __repr__(self) -> str:
        return f"Pending({self.key} in {self.cluster_queue})"


R = TypeVar("R", bound=Rung)


class Ladder(Rung, Generic[R]):
    """Rungs by the rank of their best workload."""

    __slots__ = ("_heap", "_room")

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[Rank, R]] = []
        self._room = _ROOMY

    @property
    def length(self) -> int:
        """How many entries there are, outdated ones included."""
        return len(self._heap)

    def note(self, rung: R, rank: Rank) -> None:
        """Say that the rung holds something of this rank. Must be said of every new best."""
        if rung.listed is not None and rung.listed[0] <= rank:
            return
        entry = (rank, rung)
        rung.listed = entry
        heappush(self._heap, entry)
        if len(self._heap) > self._room:
            self._heap = [each for each in self._heap if each[1].listed is each]
            heapify(self._heap)
            self._room = max(_ROOMY, 2 * len(self._heap))

    def best(self) -> Pending | None:
        """The workload that goes first, None when there is none. Nothing is taken out."""
        heap = self._heap
        while heap:
            entry = heap[0]
            rung = entry[1]
            if rung.listed is not entry:
                heappop(heap)
                continue
            found = rung.best()
            if found is not None and found.rank == entry[0]:
                return found
            if found is None:
                rung.listed = None
                heappop(heap)
            else:
                entry = (found.rank, rung)
                rung.listed = entry
                heapreplace(heap, entry)
        return None

    def rungs(self) -> list[R]:
        return [entry[1] for entry in self._heap if entry[1].listed is entry]

    def clear(self) -> None:
        self._heap.clear()
        self._room = _ROOMY


ClassKey = str | Key
"""A class id, or the key of a workload that is alike to none."""


class Bucket(Ladder[Pending]):
    """Workloads of one class, of one lane, on one side."""

    __slots__ = ("count", "name", "side")

    def __init__(self, name: ClassKey, side: Side) -> None:
        super().__init__()
        self.name = name
        self.side = side
        self.count = 0

    def add(self, pending: Pending) -> None:
        pending.bucket = self
        pending.listed = None
        self.note(pending, pending.rank)
        self.count += 1

    def remove(self, pending: Pending) -> None:
        pending.bucket = None
        pending.listed = None
        self.count -= 1

    def absorb(self, other: Bucket) -> None:
        for pending in other.rungs():
            self.add(pending)


class Side(Ladder[Bucket]):
    """One side of a lane: its buckets by class, and how many workloads they hold."""

    __slots__ = ("buckets", "count", "lane")

    def __init__(self, lane: Lane) -> None:
        super().__init__()
        self.lane = lane
        self.buckets: dict[ClassKey, Bucket] = {}
        self.count = 0

    def add(self, pending: Pending, *, alone: bool = False) -> None:
        """Add a workload to the bucket of its class, or to one of its own."""
        name = pending.key if alone else pending.workload.class_id or pending.key
        bucket = self.buckets.get(name)
        if bucket is None:
            bucket = self.buckets[name] = Bucket(name, self)
        bucket.add(pending)
        self.count += 1
        self.note(bucket, pending.rank)

    def remove(self, pending: Pending) -> None:
        bucket = pending.bucket
        assert bucket is not None
        bucket.remove(pending)
        self.count -= 1
        if not bucket.count:
            del self.buckets[bucket.name]
            bucket.listed = None

    def take(self, name: ClassKey) -> Bucket | None:
        """Take the whole bucket of a class out."""
        bucket = self.buckets.pop(name, None)
        if bucket is not None:
            self.count -= bucket.count
            bucket.listed = None
        return bucket

    def give(self, bucket: Bucket) -> None:
        """Add a bucket that was taken from the other side. The smaller joins the larger."""
        mine = self.take(bucket.name)
        if mine is not None:
            if mine.count > bucket.count:
                mine, bucket = bucket, mine
            bucket.absorb(mine)
        bucket.side = self
        self.buckets[bucket.name] = bucket
        self.count += bucket.count
        best = bucket.best()
        assert best is not None
        self.note(bucket, best.rank)


class Lane(Rung):
    """Workloads that are flushed together: those of one namespace, or of one LocalQueue."""

    __slots__ = ("active", "key", "parked", "stuck")

    def __init__(self, key: Key) -> None:
        super().__init__()
        self.key = key
        self.active = Side(self)
        self.parked = Side(self)
        self.stuck = Side(self)

    @property
    def empty(self) -> bool:
        return not (self.active.count or self.parked.count or self.stuck.count)

    def best(self) -> Pending | None:
        return self.active.best()

    def park(self, name: ClassKey, *, stuck: bool = False) -> int:
        """Park what is active of a class; answers how many."""
        return _move(name, self.active, self.stuck if stuck else self.parked)

    def unstick(self, name: ClassKey) -> None:
        """Let the next flush find what is stuck of a class."""
        _move(name, self.stuck, self.parked)

    def release(self) -> int:
        """Make everything parked active; answers how many."""
        moved = self.parked.count
        few, many = self.parked, self.active
        if len(few.buckets) > len(many.buckets):
            few, many = many, few
        for name in list(few.buckets):
            bucket = few.take(name)
            assert bucket is not None
            many.give(bucket)
        few.clear()
        self.active, self.parked = many, few
        return moved

    def holds(self, name: ClassKey) -> bool:
        return any(name in side.buckets for side in (self.active, self.parked, self.stuck))


def _move(name: ClassKey, source: Side, target: Side) -> int:
    bucket = source.take(name)
    if bucket is None:
        return 0
    moved = bucket.count
    target.give(bucket)
    return moved
