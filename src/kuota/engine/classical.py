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
    Demand,
    Target,
    highest,
    lined_up,
    offers_any,
    without_superfluous,
)
from .reasons import PreemptionReason
from .roster import Running
from .snapshot import Queue
from .tree import Node


class Source:
    """Another queue that offers candidates, all of one kind.

    `shields` are the queue and the cohorts around it, up to but not including the first that holds
    the preemptor too: as soon as one is within its quota, what is below it is safe.
    """

    __slots__ = ("hierarchy", "shields")

    def __init__(self, node: Node, ancestor: Node, hierarchy: bool) -> None:
        self.hierarchy = hierarchy
        self.shields = [node]
        at = node.parent
        while at is not None and at is not ancestor:
            self.shields.append(at)
            at = at.parent

    def safe(self, needed: frozenset[FlavorResource]) -> bool:
        return any(node.within_quota(needed) for node in self.shields)


class Pool:
    """The queues that offer candidates to one demand, by kind."""

    __slots__ = ("hierarchy", "own", "priority", "sources")

    def __init__(self) -> None:
        self.hierarchy: list[Queue] = []
        self.priority: list[Queue] = []
        self.own: list[Queue] = []
        self.sources: dict[str, Source] = {}

    def add(self, queue: Queue, ancestor: Node, hierarchy: bool) -> None:
        self.sources[queue.name] = Source(queue.node, ancestor, hierarchy)
        (self.hierarchy if hierarchy else self.priority).append(queue)


def victims(demand: Demand) -> tuple[Target, ...]:
    """Who has to go for the demand to fit; nobody if that cannot be had. Leaves no trace."""
    pool = _pool(demand)
    if not (pool.own or pool.sources):
        return ()
    for borrowing in _attempts(demand, pool):
        with demand.snapshot.trial():
            found = _attempt(demand, pool, borrowing)
            if found:
                return found
    return ()


def _pool(demand: Demand) -> Pool:
    pool = Pool()
    rules, node = demand.queue.spec.preemption, demand.queue.node
    if offers_any(demand.queue, rules.within_cluster_queue, demand):
        pool.own.append(demand.queue)
    rule = rules.reclaim_within_cohort
    if node.parent is None or rule in NEVER:
        return pool
    # Only an attempt without borrowing, or a policy to borrow, takes priority candidates.
    useful = rules.borrow_within_cohort or _under_nominal(demand)
    advantage, rest = _within(node, demand.request)
    below = node
    for cohort in node.ancestors():
        if advantage or useful:
            for leaf in _over_quota(cohort, below, demand.needed):
                queue = demand.snapshot.queue_of(leaf)
                if queue is not None and offers_any(queue, rule, demand):
                    pool.add(queue, cohort, advantage)
        if cohort.parent is not None:
            fits, rest = _within(cohort, rest)
            advantage = advantage or fits
        below = cohort
    return pool


def _within(node: Node, request: Amounts) -> tuple[bool, Amounts]:
    """Whether the node's own quota holds the request on top of its usage, and what its parent
    would have to give."""
    fits, rest = True, {}
    for column, amount in request.items():
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


def _attempts(demand: Demand, pool: Pool) -> tuple[bool, ...]:
    """Whether borrowing is allowed, for each attempt in turn."""
    borrows = demand.queue.spec.preemption.borrow_within_cohort
    if not pool.sources or not (borrows or _under_nominal(demand)):
        return (True,)
    return (True, False) if borrows or pool.hierarchy else (False, True)


def _under_nominal(demand: Demand) -> bool:
    """Whether the queue has nominal quota left in every column that is needed."""
    for column in demand.needed:
        cell = demand.queue.node.cell(column)
        if cell.used >= cell.nominal:
            return False
    return True


def _attempt(demand: Demand, pool: Pool, borrowing: bool) -> tuple[Target, ...]:
    """Take candidates out, one by one, until the demand fits; nobody if it never does."""
    taken: list[Target] = []
    safe: set[str] = set()
    for running in _line(demand, pool, borrowing):
        if running.queue in safe:
            continue
        source = pool.sources.get(running.queue)
        if source is not None and source.safe(demand.needed):
            safe.add(running.queue)
            continue
        demand.snapshot.remove(running)
        taken.append(Target(running, _reason(running, source, demand)))
        if demand.fits(borrowing):
            return without_superfluous(taken, demand, borrowing)
    return ()


def _line(demand: Demand, pool: Pool, borrowing: bool) -> Iterator[Running]:
    """Hierarchy before priority before own, those on their way out before all the others."""
    rules, preemptor = demand.queue.spec.preemption, demand.workload
    cohort, within = rules.reclaim_within_cohort, rules.within_cluster_queue
    open_to_all = highest(cohort, preemptor)
    open_to_us = min(open_to_all, _yielding(demand)) if borrowing else open_to_all
    groups = (
        (pool.hierarchy, cohort, open_to_all),
        (pool.priority, cohort, open_to_us),
        (pool.own, within, highest(within, preemptor)),
    )
    for leaving in (True, False):
        for queues, rule, ceiling in groups:
            if queues:
                yield from lined_up(queues, rule, demand, leaving=leaving, ceiling=ceiling)


def _yielding(demand: Demand) -> float:
    """The highest priority that yields to a preemptor that borrows."""
    rules = demand.queue.spec.preemption
    if not rules.borrow_within_cohort:
        return -math.inf
    below = demand.workload.priority - 1
    threshold = rules.borrow_max_priority
    return below if threshold is None else min(below, threshold)


def _reason(running: Running, source: Source | None, demand: Demand) -> PreemptionReason:
    if source is None:
        return PreemptionReason.IN_CLUSTER_QUEUE
    if not source.hierarchy and running.workload.priority <= _yielding(demand):
        return PreemptionReason.RECLAIM_WHILE_BORROWING
    return PreemptionReason.RECLAMATION
