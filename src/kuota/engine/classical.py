# SPDX-License-Identifier: Apache-2.0
"""Victims without fair sharing: own queue by priority, the cohort by who is over its quota.

`spec/decisions.md` 5.3 to 5.5. Once some subtree around the preemptor could hold its request within
that subtree's own quota, whoever outside it is over quota uses what belongs to the preemptor: these
are the *hierarchy* candidates. The rest of the cohort are *priority* candidates.
"""

from __future__ import annotations

from collections.abc import Iterator

from .amounts import Amounts
from .candidates import Demand, Target, eligible, ordered, without_superfluous
from .reasons import PreemptionReason
from .snapshot import Queue, Running
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


class Pool:
    """All candidates of one demand, by kind, and the queues they come from."""

    __slots__ = ("hierarchy", "own", "priority", "sources")

    def __init__(self) -> None:
        self.hierarchy: list[Running] = []
        self.priority: list[Running] = []
        self.own: list[Running] = []
        self.sources: dict[str, Source] = {}

    def offer(self, queue: Queue, ancestor: Node, hierarchy: bool, found: list[Running]) -> None:
        self.sources[queue.name] = Source(queue.node, ancestor, hierarchy)
        (self.hierarchy if hierarchy else self.priority).extend(found)

    def in_order(self, demand: Demand) -> list[Running]:
        """Hierarchy before priority before own, and within each by rank; the evicted before all."""
        line = [
            *ordered(self.hierarchy, demand),
            *ordered(self.priority, demand),
            *ordered(self.own, demand),
        ]
        line.sort(key=_staying)
        return line


def victims(demand: Demand) -> tuple[Target, ...]:
    """Who has to go for the demand to fit; nobody if that cannot be had. Leaves no trace."""
    pool = _pool(demand)
    if demand.hopeless([*pool.hierarchy, *pool.priority, *pool.own]):
        return ()
    line = pool.in_order(demand)
    for borrowing in _attempts(demand, pool) if line else ():
        with demand.snapshot.trial():
            found = _attempt(demand, line, pool.sources, borrowing)
            if found:
                return found
    return ()


def _staying(running: Running) -> bool:
    return running.workload.evicted is None


def _pool(demand: Demand) -> Pool:
    pool = Pool()
    rules, node = demand.queue.spec.preemption, demand.queue.node
    pool.own = eligible(demand.queue, rules.within_cluster_queue, demand)
    if node.parent is None or rules.reclaim_within_cohort in ("Never", ""):
        return pool
    advantage, rest = _within(node, demand.request)
    below = node
    for cohort in node.ancestors():
        for leaf in _over_quota(cohort, below, demand):
            queue = demand.snapshot.queue_of(leaf)
            if queue is not None:
                found = eligible(queue, rules.reclaim_within_cohort, demand)
                if found:
                    pool.offer(queue, cohort, advantage, found)
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


def _over_quota(cohort: Node, visited: Node, demand: Demand) -> Iterator[Node]:
    """Queues below the cohort, not below `visited`, that no quota around them shields."""
    needed = demand.needed
    for queue in cohort.queues.values():
        if queue is not visited and not queue.within_quota(needed):
            yield queue
    for child in cohort.cohorts.values():
        if child is not visited and not child.within_quota(needed):
            yield from _over_quota(child, visited, demand)


def _attempts(demand: Demand, pool: Pool) -> tuple[bool, ...]:
    """Whether borrowing is allowed, for each attempt in turn."""
    borrows = demand.queue.spec.preemption.borrow_within_cohort
    if not pool.sources or not (borrows or _under_nominal(demand)):
        return (True,)
    return (True, False) if borrows or pool.hierarchy else (False, True)


def _under_nominal(demand: Demand) -> bool:
    cell = demand.queue.node.cell
    return all(cell(column).used < cell(column).nominal for column in demand.needed)


def _attempt(
    demand: Demand, line: list[Running], sources: dict[str, Source], borrowing: bool
) -> tuple[Target, ...]:
    """Take candidates out, one by one, until the demand fits; nobody if it never does."""
    taken: list[Target] = []
    for running in line:
        source = sources.get(running.queue)
        reason = _reason(running, source, demand)
        if source is not None:
            if borrowing and reason is PreemptionReason.RECLAMATION and not source.hierarchy:
                continue
            if any(node.within_quota(demand.needed) for node in source.shields):
                continue
        demand.snapshot.remove(running)
        taken.append(Target(running, reason))
        if demand.fits(borrowing):
            return without_superfluous(taken, demand, borrowing)
    return ()


def _reason(running: Running, source: Source | None, demand: Demand) -> PreemptionReason:
    if source is None:
        return PreemptionReason.IN_CLUSTER_QUEUE
    rules, priority = demand.queue.spec.preemption, running.workload.priority
    threshold = rules.borrow_max_priority
    while_borrowing = (
        not source.hierarchy
        and rules.borrow_within_cohort
        and priority < demand.workload.priority
        and (threshold is None or priority <= threshold)
    )
    if while_borrowing:
        return PreemptionReason.RECLAIM_WHILE_BORROWING
    return PreemptionReason.RECLAMATION
