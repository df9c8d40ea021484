# SPDX-License-Identifier: Apache-2.0
"""Victims without fair sharing: own queue by priority, the cohort by who is over its quota.

Once some subtree around the preemptor could hold its request within
that subtree's own quota, whoever outside it is over quota uses what belongs to the preemptor: these
are the *hierarchy* candidates. The rest of the cohort are *priority* candidates.
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
from .reasons import PreemptionReason
from .running import Running
from .snapshot import Queue
from .tree import Node


class CandidateSource:
    """Another queue that offers candidates, all of one kind.

    `subtrees` are the queue and the cohorts around it, up to but not including the first that holds
    the preemptor too: as soon as one is within its quota, what is below it is safe.
    """

    __slots__ = ("hierarchy", "subtrees")

    def __init__(self, node: Node, ancestor: Node, hierarchy: bool) -> None:
        self.hierarchy = hierarchy
        self.subtrees = [node]
        at = node.parent
        while at is not None and at is not ancestor:
            self.subtrees.append(at)
            at = at.parent

    def protected(self, needed: frozenset[FlavorResource]) -> bool:
        return any(node.within_quota(needed) for node in self.subtrees)


class CandidatePool:
    """The queues that offer candidates to one demand, by kind."""

    __slots__ = ("hierarchy", "own", "priority", "sources")

    def __init__(self) -> None:
        self.hierarchy: list[Queue] = []
        self.priority: list[Queue] = []
        self.own: list[Queue] = []
        self.sources: dict[str, CandidateSource] = {}

    def add(self, queue: Queue, ancestor: Node, hierarchy: bool) -> None:
        self.sources[queue.name] = CandidateSource(queue.node, ancestor, hierarchy)
        (self.hierarchy if hierarchy else self.priority).append(queue)


def victims(request: PreemptionRequest) -> tuple[Target, ...]:
    """Who has to go for the demand to fit; nobody if that cannot be had. Leaves no trace."""
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
    # Only an attempt without borrowing, or a policy to borrow, takes priority candidates.
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


def _fits_within_quota(node: Node, amounts: Amounts) -> tuple[bool, Amounts]:
    """Whether the node's own quota holds the request on top of its usage, and what its parent
    would have to give."""
    fits, rest = True, {}
    for column, amount in amounts.items():
        cell = node.cell(column)
        if cell.borrows_with(amount):
            fits = False
        rest[column] = max(0, amount - cell.free)
    return fits, rest


def _over_quota(cohort: Node, visited: Node, needed: frozenset[FlavorResource]) -> Iterator[Node]:
    """Queues below the cohort, not below `visited`, that no quota around them shields."""
    for queue in cohort.queues.values():
        if queue is not visited and not queue.within_quota(needed):
            yield queue
    for child in cohort.cohorts.values():
        if child is not visited and not child.within_quota(needed):
            yield from _over_quota(child, visited, needed)


def _attempts(request: PreemptionRequest, pool: CandidatePool) -> tuple[bool, ...]:
    """Whether borrowing is allowed, for each attempt in turn."""
    borrows = request.queue.spec.preemption.borrow_within_cohort
    if not pool.sources or not (borrows or _below_nominal(request)):
        return (True,)
    return (True, False) if borrows or pool.hierarchy else (False, True)


def _below_nominal(request: PreemptionRequest) -> bool:
    """Whether the queue has nominal quota left in every column that is needed."""
    for column in request.needed:
        cell = request.queue.node.cell(column)
        if cell.used >= cell.nominal:
            return False
    return True


def _attempt(
    request: PreemptionRequest, pool: CandidatePool, borrowing: bool
) -> tuple[Target, ...]:
    """Take candidates out, one by one, until the demand fits; nobody if it never does."""
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
) -> Iterator[Running]:
    """Hierarchy before priority before own, those on their way out before all the others."""
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
    """The highest priority that yields to a preemptor that borrows."""
    rules = request.queue.spec.preemption
    if not rules.borrow_within_cohort:
        return -math.inf
    below = request.workload.priority - 1
    threshold = rules.borrow_max_priority
    return below if threshold is None else min(below, threshold)


def _reason(
    running: Running, source: CandidateSource | None, request: PreemptionRequest
) -> PreemptionReason:
    if source is None:
        return PreemptionReason.IN_CLUSTER_QUEUE
    if not source.hierarchy and running.workload.priority <= _borrowing_threshold(request):
        return PreemptionReason.RECLAIM_WHILE_BORROWING
    return PreemptionReason.RECLAMATION
