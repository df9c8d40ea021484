# SPDX-License-Identifier: Apache-2.0
"""Preemption without fair sharing: by priority in the own queue, by quota in the cohort.

If a subtree that contains the preemptor could hold its request within the subtree's own quota, then
workloads outside it that exceed their quota use what belongs to the preemptor. These are the
*hierarchy* candidates. The other candidates of the cohort are *priority* candidates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from .amounts import Amounts, FlavorResource
from .candidates import (
    NEVER,
    PreemptionRequest,
    Target,
    fill_back,
    has_candidates,
    max_victim_priority,
    merged_candidates,
)
from .charged import ChargedWorkload
from .reasons import PreemptionReason
from .snapshot import Queue
from .tree import QuotaNode


class CandidateSource:
    """Another ClusterQueue that has candidates, all of one kind.

    `subtrees` are the queue and the cohorts above it that do not contain the preemptor. As soon as
    one of them is within its quota, the workloads below it are protected.
    """

    __slots__ = ("hierarchy", "subtrees")

    def __init__(self, node: QuotaNode, ancestor: QuotaNode, hierarchy: bool) -> None:
        self.hierarchy = hierarchy
        self.subtrees = [node]
        at = node.parent
        while at is not None and at is not ancestor:
            self.subtrees.append(at)
            at = at.parent

    def protected(self, needed: frozenset[FlavorResource]) -> bool:
        return any(node.within_quota(needed) for node in self.subtrees)


class CandidatePool:
    """The queues that have candidates for one request, by kind."""

    __slots__ = ("hierarchy", "own", "priority", "sources")

    def __init__(self) -> None:
        self.hierarchy: list[Queue] = []
        self.priority: list[Queue] = []
        self.own: list[Queue] = []
        self.sources: dict[str, CandidateSource] = {}

    def add(self, queue: Queue, ancestor: QuotaNode, hierarchy: bool) -> None:
        self.sources[queue.name] = CandidateSource(queue.node, ancestor, hierarchy)
        (self.hierarchy if hierarchy else self.priority).append(queue)


def victims(request: PreemptionRequest) -> tuple[Target, ...]:
    """Return the victims that make the request fit, or nothing. The snapshot is unchanged."""
    pool = _pool(request)
    if not (pool.own or pool.sources):
        return ()
    for borrowing in _attempts(request, pool):
        with request.snapshot.trial():
            found = _attempt(request, pool, borrowing)
            if found:
                return found
    return ()


def _pool(request: PreemptionRequest) -> CandidatePool:
    pool = CandidatePool()
    rules, node = request.queue.spec.preemption, request.queue.node
    if has_candidates(request.queue, rules.within_cluster_queue, request):
        pool.own.append(request.queue)
    rule = rules.reclaim_within_cohort
    if node.parent is None or rule in NEVER:
        return pool
    # Priority candidates are used only without borrowing or with borrowWithinCohort.
    useful = rules.borrow_within_cohort or _below_nominal(request)
    advantage, rest = _fits_within_quota(node, request.amounts)
    below = node
    for cohort in node.ancestors():
        if advantage or useful:
            for leaf in _over_quota(cohort, below, request.needed):
                queue = request.snapshot.queue_of(leaf)
                if queue is not None and has_candidates(queue, rule, request):
                    pool.add(queue, cohort, advantage)
        if cohort.parent is not None:
            fits, rest = _fits_within_quota(cohort, rest)
            advantage = advantage or fits
        below = cohort
    return pool


def _fits_within_quota(node: QuotaNode, amounts: Amounts) -> tuple[bool, Amounts]:
    """Return whether the node's own quota holds the request, and the rest for its parent."""
    fits, rest = True, {}
    for column, amount in amounts.items():
        cell = node.cell(column)
        if cell.borrows_with(amount):
            fits = False
        rest[column] = max(0, amount - cell.free)
    return fits, rest


def _over_quota(
    cohort: QuotaNode, visited: QuotaNode, needed: frozenset[FlavorResource]
) -> Iterator[QuotaNode]:
    """Yield the queues below the cohort, but not below `visited`, that no quota protects."""
    for queue in cohort.queues.values():
        if queue is not visited and not queue.within_quota(needed):
            yield queue
    for child in cohort.cohorts.values():
        if child is not visited and not child.within_quota(needed):
            yield from _over_quota(child, visited, needed)


def _attempts(request: PreemptionRequest, pool: CandidatePool) -> tuple[bool, ...]:
    """Return for each attempt, in order, whether it may borrow."""
    borrows = request.queue.spec.preemption.borrow_within_cohort
    if not pool.sources or not (borrows or _below_nominal(request)):
        return (True,)
    return (True, False) if borrows or pool.hierarchy else (False, True)


def _below_nominal(request: PreemptionRequest) -> bool:
    """Whether the queue has nominal quota left in every needed column."""
    for column in request.needed:
        cell = request.queue.node.cell(column)
        if cell.used >= cell.nominal:
            return False
    return True


def _attempt(
    request: PreemptionRequest, pool: CandidatePool, borrowing: bool
) -> tuple[Target, ...]:
    """Remove candidates one by one until the request fits. Return nothing if it never fits."""
    taken: list[Target] = []
    protected: set[str] = set()
    for running in _ordered_candidates(request, pool, borrowing):
        if running.queue in protected:
            continue
        source = pool.sources.get(running.queue)
        if source is not None and source.protected(request.needed):
            protected.add(running.queue)
            continue
        request.snapshot.remove(running)
        taken.append(Target(running, _reason(running, source, request)))
        if request.fits(borrowing):
            return fill_back(taken, request, borrowing)
    return ()


def _ordered_candidates(
    request: PreemptionRequest, pool: CandidatePool, borrowing: bool
) -> Iterator[ChargedWorkload]:
    """Yield hierarchy, priority and own candidates in this order, evicted ones before others."""
    rules, preemptor = request.queue.spec.preemption, request.workload
    cohort, within = rules.reclaim_within_cohort, rules.within_cluster_queue
    reclaim_limit = max_victim_priority(cohort, preemptor.priority)
    priority_limit = (
        min(reclaim_limit, _borrowing_threshold(request)) if borrowing else reclaim_limit
    )
    groups = (
        (pool.hierarchy, cohort, reclaim_limit),
        (pool.priority, cohort, priority_limit),
        (pool.own, within, max_victim_priority(within, preemptor.priority)),
    )
    for leaving in (True, False):
        for queues, rule, max_priority in groups:
            if queues:
                yield from merged_candidates(
                    queues, rule, request, leaving=leaving, max_priority=max_priority
                )


def _borrowing_threshold(request: PreemptionRequest) -> float:
    """Return the highest priority of a workload that a borrowing preemptor may displace."""
    rules = request.queue.spec.preemption
    if not rules.borrow_within_cohort:
        return -math.inf
    below = request.workload.priority - 1
    threshold = rules.borrow_max_priority
    return below if threshold is None else min(below, threshold)


def _reason(
    running: ChargedWorkload, source: CandidateSource | None, request: PreemptionRequest
) -> PreemptionReason:
    if source is None:
        return PreemptionReason.IN_CLUSTER_QUEUE
    if not source.hierarchy and running.workload.priority <= _borrowing_threshold(request):
        return PreemptionReason.RECLAIM_WHILE_BORROWING
    return PreemptionReason.RECLAMATION
