# SPDX-License-Identifier: Apache-2.0
"""Preemption under fair sharing: from the branch with the highest share, if that is fairer.

The request is added to the usage first. Then the branch with the highest share gives up one
workload at a time (`TargetOrdering`), provided that the strategy accepts the shares before and
after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heapreplace
from itertools import chain
from typing import Any

from kuota.api.gates import Gate

from .candidates import (
    NEVER,
    PreemptionRequest,
    Target,
    fill_back,
    max_victim_priority,
    merged_candidates,
)
from .charged import ChargedWorkload
from .fairness import DominantResourceShare, more_loaded, share
from .policy import FINAL_SHARE, INITIAL_SHARE
from .reasons import PreemptionReason
from .snapshot import Queue
from .tree import QuotaNode
from .usage import Usage

SortKey = tuple[bool, float, bool, Any]


class CandidateStream:
    """The candidates of one queue, first victim first, produced lazily."""

    __slots__ = ("_remaining", "head")

    def __init__(self, candidates: Iterable[ChargedWorkload]) -> None:
        self._remaining: Iterator[ChargedWorkload] = iter(candidates)
        self.head = next(self._remaining, None)

    def pop(self) -> ChargedWorkload:
        """Remove and return the first candidate. There must be one."""
        head = self.head
        assert head is not None
        self.head = next(self._remaining, None)
        return head

    def drain(self) -> Iterator[ChargedWorkload]:
        """Remove and return all remaining candidates, produced lazily."""
        head, drain = self.head, self._remaining
        self.head, self._remaining = None, iter(())
        return drain if head is None else chain((head,), drain)


class TargetOrdering:
    """The order in which ClusterQueues give up workloads.

    Each cohort keeps its branches in a heap with the next target on top. Between two calls of
    `next_target` only the last target's branch can have changed, so only that branch is evaluated
    again. Branches without candidates never enter a heap.

    Shares include the preemptor's request. They are cached until `invalidate_shares` is called.
    """

    def __init__(
        self, request: PreemptionRequest, streams: dict[QuotaNode, CandidateStream]
    ) -> None:
        self._home = request.queue.node
        self._queues = request.snapshot.queues
        self._path = [self._home, *self._home.ancestors()]
        self._shares: dict[QuotaNode, DominantResourceShare] = {}
        self._streams = streams
        self._branches: dict[QuotaNode, list[QuotaNode]] = {}
        self._heaps: dict[QuotaNode, list[tuple[SortKey, QuotaNode]]] = {}
        self._stale: set[QuotaNode] = set()
        for node in streams:
            self._add_branch(node)

    def next_target(self) -> QuotaNode | None:
        """Return the queue that gives up the next workload, or None if no queue is left."""
        root = self._path[-1]
        if not root.is_queue:
            return self._next_target_below(root)
        return root if root in self._streams and self._streams[root].head is not None else None

    def stream(self, queue: QuotaNode) -> CandidateStream:
        """Return the remaining candidates of a queue."""
        return self._streams[queue]

    def share(self, node: QuotaNode) -> DominantResourceShare:
        found = self._shares.get(node)
        if found is None:
            found = self._shares[node] = share(node)
        return found

    def almost_lcas(self, queue: QuotaNode) -> tuple[QuotaNode, QuotaNode]:
        """Return the two branches below the lowest common cohort of the preemptor and the queue.

        The first contains the preemptor. Fair sharing compares the shares of these two branches.
        """
        theirs = queue
        while theirs.parent is not None and theirs.parent not in self._path:
            theirs = theirs.parent
        ours = next(node for node in self._path if node.parent is theirs.parent)
        return ours, theirs

    def invalidate_shares(self, running: ChargedWorkload) -> None:
        """Drop the cached shares that removing this workload changed."""
        node: QuotaNode | None = self._queues[running.queue].node
        while node is not None:
            self._shares.pop(node, None)
            node = node.parent

    def _add_branch(self, node: QuotaNode) -> None:
        while (parent := node.parent) is not None:
            beside = self._branches.get(parent)
            if beside is not None:
                beside.append(node)
                return
            self._branches[parent] = [node]
            node = parent

    def _next_target_below(self, cohort: QuotaNode) -> QuotaNode | None:
        """Return the next target below a cohort.

        Branches that cannot be a target again are dropped.
        """
        heap = self._heap(cohort)
        while heap:
            _, node = heap[0]
            if node in self._stale:
                self._stale.discard(node)
                if self._eligible(node):
                    heapreplace(heap, (self._sort_key(node), node))
                else:
                    heappop(heap)
                continue
            found = node if node.is_queue else self._next_target_below(node)
            if found is not None:
                self._stale.add(node)
                return found
            heappop(heap)
        return None

    def _heap(self, cohort: QuotaNode) -> list[tuple[SortKey, QuotaNode]]:
        heap = self._heaps.get(cohort)
        if heap is None:
            branches = self._branches.get(cohort, ())
            heap = [(self._sort_key(each), each) for each in branches if self._eligible(each)]
            heapify(heap)
            self._heaps[cohort] = heap
        return heap

    def _eligible(self, node: QuotaNode) -> bool:
        """Whether the node can be a target: it borrows or has the preemptor, and has candidates."""
        if node.is_queue and self._streams[node].head is None:
            return False
        return self.share(node).borrowing or node in self._path

    def _sort_key(self, node: QuotaNode) -> SortKey:
        """Return the sort key of a branch; the smallest is the next target.

        Higher shares come first, then cohorts by name, then queues by their first candidate,
        ignoring the usage of LocalQueues.
        """
        infinite, load = self.share(node).load
        if not node.is_queue:
            return (not infinite, -load, False, node.name)
        head = self._streams[node].head
        assert head is not None
        return (not infinite, -load, True, (not head.leaving, node is self._home, head.rank))


def victims(request: PreemptionRequest) -> tuple[Target, ...]:
    """Return the victims that make the request fit, or nothing. The snapshot is unchanged."""
    streams = _streams(request)
    if not streams:
        return ()
    with request.snapshot.trial() as snapshot:
        search = _Search(request)
        if not search.run(streams):
            return ()
        snapshot.remove_usage(request.queue, Usage(quota=request.amounts))
        return fill_back(search.taken, request)


def _streams(request: PreemptionRequest) -> dict[QuotaNode, CandidateStream]:
    """Return the candidates of the own queue and of queues that borrow needed columns."""
    rules, home = request.queue.spec.preemption, request.queue.node
    candidates_in = [(request.queue, rules.within_cluster_queue)]
    if home.parent is not None and rules.reclaim_within_cohort not in NEVER:
        queues = (request.snapshot.queues[name] for name in home.root.leaf_names)
        candidates_in += [
            (queue, rules.reclaim_within_cohort)
            for queue in queues
            if queue.active and queue.node is not home
            if not queue.node.within_quota(request.needed)
        ]
    streams = (
        (queue.node, CandidateStream(_candidates(queue, rule, request)))
        for queue, rule in candidates_in
    )
    return {node: stream for node, stream in streams if stream.head is not None}


def _candidates(queue: Queue, rule: str, request: PreemptionRequest) -> Iterator[ChargedWorkload]:
    max_priority = max_victim_priority(rule, request.workload.priority)
    for leaving in (True, False):
        if queue.running.ranked(leaving):
            yield from merged_candidates(
                (queue,), rule, request, leaving=leaving, max_priority=max_priority
            )


class _Search:
    """One search, with the request included in the usage. `taken` are the victims so far."""

    def __init__(self, request: PreemptionRequest) -> None:
        self._request = request
        self._home = request.queue.node
        self._snapshot = request.snapshot
        self._retry: dict[QuotaNode, list[Iterable[ChargedWorkload]]] = {}
        self.taken: list[Target] = []

    def run(self, streams: dict[QuotaNode, CandidateStream]) -> bool:
        """Whether evicting the selected victims makes the request fit.

        If so, the request is still included in the usage.
        """
        first, *then = self._snapshot.policy.fair_sharing or (FINAL_SHARE, INITIAL_SHARE)
        self._snapshot.add_usage(self._request.queue, Usage(quota=self._request.amounts))
        if self._first_pass(TargetOrdering(self._request, streams), first):
            return True
        if not then:
            return False
        rejected = {node: CandidateStream(chain(*parts)) for node, parts in self._retry.items()}
        return self._second_pass(TargetOrdering(self._request, rejected))

    def _first_pass(self, ordering: TargetOrdering, strategy: str) -> bool:
        entitled = self._within_nominal()
        while (queue := ordering.next_target()) is not None:
            if queue is self._home:
                running, reason = ordering.stream(queue).pop(), PreemptionReason.IN_CLUSTER_QUEUE
            elif entitled:
                running, reason = ordering.stream(queue).pop(), PreemptionReason.RECLAMATION
            else:
                chosen = self._acceptable(ordering, queue, strategy)
                if chosen is None:
                    continue
                running, reason = chosen, PreemptionReason.FAIR_SHARING
            if self._take(ordering, running, reason):
                return True
        return False

    def _second_pass(self, ordering: TargetOrdering) -> bool:
        """Retry the rejected candidates. Each queue gives up at most one workload."""
        while (queue := ordering.next_target()) is not None:
            ours, theirs = ordering.almost_lcas(queue)
            running = ordering.stream(queue).pop()
            ordering.stream(queue).drain()
            if more_loaded(ordering.share(theirs), ordering.share(ours)) and self._take(
                ordering, running, PreemptionReason.FAIR_SHARING
            ):
                return True
        return False

    def _within_nominal(self) -> bool:
        """Whether the queue stays within nominal quota in the needed columns."""
        return self._snapshot.policy.on(
            Gate.FairSharingPreemptWithinNominal
        ) and self._home.within_quota(self._request.needed)

    def _acceptable(
        self, ordering: TargetOrdering, queue: QuotaNode, strategy: str
    ) -> ChargedWorkload | None:
        """Return the queue's first acceptable candidate. Earlier ones are retried later."""
        ours, theirs = ordering.almost_lcas(queue)
        new, old = ordering.share(ours), ordering.share(theirs)
        stream, retry = ordering.stream(queue), self._retry.setdefault(queue, [])
        if strategy == INITIAL_SHARE and more_loaded(old, new):
            return stream.pop()
        # Removing a workload never raises a share, so a share that is already higher stays higher.
        # This also holds for an infinite share against a finite one.
        if strategy == INITIAL_SHARE or more_loaded(new, old):
            retry.append(stream.drain())
            return None
        rejected = set()
        while stream.head is not None:
            running = stream.pop()
            usage = tuple(running.usage.quota.items())
            if usage not in rejected:
                with self._snapshot.trial():
                    self._snapshot.remove(running)
                    left = share(theirs)
                if not more_loaded(new, left):
                    return running
                rejected.add(usage)
            retry.append((running,))
        return None

    def _take(
        self, ordering: TargetOrdering, running: ChargedWorkload, reason: PreemptionReason
    ) -> bool:
        """Remove a victim.

        Returns whether the request fits now, not counting the request itself.
        """
        self._snapshot.remove(running)
        ordering.invalidate_shares(running)
        self.taken.append(Target(running, reason))
        with self._snapshot.trial():
            self._snapshot.remove_usage(self._request.queue, Usage(quota=self._request.amounts))
            return self._request.fits()
