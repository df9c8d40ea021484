# SPDX-License-Identifier: Apache-2.0
"""The pending queue behaves like a plain list of workloads after any operations."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kuota.api.base import Key
from kuota.engine.buckets import Pending
from kuota.engine.model import Workload
from kuota.engine.pending import PendingQueue, PendingState
from kuota.engine.ranking import backoff_over, relevant_change
from kuota.engine.reasons import RequeueReason

KEYS = [Key(namespace, name) for namespace in ("x", "y") for name in ("a", "b", "c", "d")]
AT_ONCE = {
    RequeueReason.FAILED_AFTER_NOMINATION,
    RequeueReason.PENDING_PREEMPTION,
    RequeueReason.PENDING_MIGRATION,
    RequeueReason.PREEMPTION_FAILED,
}

workloads = st.builds(
    Workload,
    key=st.sampled_from(KEYS),
    uid=st.sampled_from(["", "u", "v"]),
    generation=st.integers(1, 2),
    queue=st.sampled_from(["lq1", "lq2"]),
    priority=st.integers(0, 2),
    created=st.integers(0, 2).map(float),
    scheduling_hash=st.sampled_from(["", "c1", "c2"]),
    requeued=st.sampled_from([None, None, None, None, None, None, True, False]),
    requeue_at=st.sampled_from([None, None, None, None, None, None, 5.0, 20.0]),
    pods_ready=st.booleans(),
)


@dataclass
class Waiting:
    workload: Workload
    place: PendingState
    evaluated: int | None = None
    flushed: bool = False


class AgainstAList(RuleBasedStateMachine):
    """`self.known` is the list: every rule is written out for single workloads."""

    @initialize(
        strict=st.sampled_from([False, False, True]),
        by_usage=st.booleans(),
        first=st.lists(workloads, min_size=4, max_size=12),
    )
    def start(self, strict: bool, by_usage: bool, first: list[Workload]) -> None:
        self.use = {"lq1": 0.0, "lq2": 0.0}
        self.strict, self.by_usage = strict, by_usage
        self.queue = PendingQueue(
            "cq", strict=strict, local_queue_usage=self.usage if by_usage else None
        )
        self.known: dict[Key, Waiting] = {}
        self.heads: dict[Key, Pending] = {}
        self.failed: set[str] = set()
        self.sticky: Key | None = None
        self.now = 0.0
        for each in first:
            self.put(each)

    def usage(self, local_queue: Key) -> float:
        return self.use[local_queue.name]

    def order(self, key: Key) -> tuple[object, ...]:
        each = self.known[key].workload
        first = self.usage(each.local_queue) if self.by_usage else 0.0
        sticky = key == self.sticky and not self.strict
        return first, not sticky, -each.priority, each.created, each.uid, key

    def enter(self, each: Waiting) -> None:
        failed = not self.strict and each.workload.scheduling_hash in self.failed
        free = backoff_over(each.workload, self.now) and not failed
        each.place = PendingState.HEAP if free else PendingState.INADMISSIBLE

    @rule(workload=workloads)
    def put(self, workload: Workload) -> None:
        self.queue.put(workload, self.now)
        each = self.known.get(workload.key)
        if each is None:
            each = self.known[workload.key] = Waiting(workload, PendingState.HEAP)
            self.enter(each)
            return
        old, each.workload = each.workload, workload
        if each.place is PendingState.INADMISSIBLE and (
            each.evaluated not in (None, workload.generation) or relevant_change(old, workload)
        ):
            self.enter(each)

    @rule(key=st.sampled_from(KEYS))
    def drop(self, key: Key) -> None:
        assert (self.known.pop(key, None) is not None) == self.queue.drop(key)
        self.heads.pop(key, None)
        if self.sticky == key:
            self.sticky = None

    @rule()
    def pop(self) -> None:
        heap = [key for key, each in self.known.items() if each.place is PendingState.HEAP]
        expected = min(heap, key=self.order, default=None)
        head = self.queue.pop()
        assert (head.key if head else None) == expected
        if head is not None:
            each = self.known[head.key]
            each.place, each.evaluated, each.flushed = (
                PendingState.IN_FLIGHT,
                each.workload.generation,
                False,
            )
            self.heads[head.key] = head

    @rule(reason=st.sampled_from(list(RequeueReason)))
    def cycle(self, reason: RequeueReason) -> None:
        self.pop()
        if self.heads:
            self.put_back(max(self.heads), reason)

    @rule(reason=st.sampled_from([RequeueReason.NO_FIT, RequeueReason.GENERIC]))
    def sweep(self, reason: RequeueReason) -> None:
        """Try everyone once, and find that nobody fits."""
        for _ in KEYS:
            self.cycle(reason)

    @rule(reason=st.sampled_from(list(RequeueReason)))
    def requeue(self, reason: RequeueReason) -> None:
        if self.heads:
            self.put_back(min(self.heads), reason)

    def put_back(self, key: Key, reason: RequeueReason) -> None:
        head = self.heads.pop(key)
        tried = head.workload
        each = self.known[head.key]
        assert self.queue.requeue(tried, reason, self.now)
        if reason in (RequeueReason.PENDING_PREEMPTION, RequeueReason.PENDING_MIGRATION):
            self.sticky = head.key
        inadmissible = (RequeueReason.NAMESPACE_MISMATCH, RequeueReason.INTERNAL_ERROR)
        again = reason in AT_ONCE or (self.strict and reason not in inadmissible)
        if (again or each.flushed) and backoff_over(each.workload, self.now):
            each.place = PendingState.HEAP
            return
        if reason in (RequeueReason.NO_FIT, RequeueReason.NO_CANDIDATES):
            self.fail(tried.scheduling_hash)
        each.place = PendingState.INADMISSIBLE
        if relevant_change(tried, each.workload):
            self.enter(each)

    def fail(self, scheduling_hash: str) -> None:
        if self.strict or not scheduling_hash:
            return
        self.failed.add(scheduling_hash)
        for each in self.known.values():
            if each.place is PendingState.HEAP and each.workload.scheduling_hash == scheduling_hash:
                each.place = PendingState.INADMISSIBLE

    @rule(matching=st.sets(st.sampled_from(["x", "y"])))
    def flush(self, matching: set[str]) -> None:
        self.failed.clear()
        moved = 0
        for key, each in self.known.items():
            each.flushed = True
            free = key.namespace in matching and backoff_over(each.workload, self.now)
            if each.place is PendingState.INADMISSIBLE and free:
                each.place = PendingState.HEAP
                moved += 1
        assert self.queue.flush(self.now, matching.__contains__) == moved

    @rule(seconds=st.sampled_from([1.0, 7.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds

    @rule(name=st.sampled_from(["lq1", "lq2"]), use=st.integers(0, 2).map(float))
    def use_up(self, name: str, use: float) -> None:
        self.use[name] = use

    @invariant()
    def everyone_is_in_the_one_place_where_the_list_has_them(self) -> None:
        places = {key: each.place for key, each in self.known.items()}
        assert places == {key: self.queue.state(key) for key in self.known}
        assert len(self.queue) == len(places)
        counted = list(places.values())
        assert self.queue.heap_size == counted.count(PendingState.HEAP)

    @invariant()
    def what_the_queue_lists_is_the_newest_of_everyone(self) -> None:
        entry = self.queue.ordered()
        assert {each.key: each for each in entry} == {
            key: each.workload for key, each in self.known.items()
        }
        heap_size = [each.key for each in entry if each.key not in self.heads]
        assert heap_size == sorted(heap_size, key=self.order)

    @invariant()
    def a_class_lists_its_members_in_the_order_of_the_whole_queue(self) -> None:
        entry = self.queue.ordered()
        for scheduling_hash in ("c1", "c2"):
            members = [each for each in entry if each.scheduling_hash == scheduling_hash]
            assert members == self.queue.ordered(scheduling_hash)


AgainstAList.TestCase.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
TestAgainstAList = pytest.mark.slow(AgainstAList.TestCase)
