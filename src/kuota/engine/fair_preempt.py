# SPDX-License-Identifier: Apache-2.0
"""Victims under fair sharing: from whoever borrows most, as long as that evens things out.

The request is counted as if granted; then the most loaded branch of the
tree gives up one workload at a time, if the strategy approves of the shares before and after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from kuota.api.gates import Gate

from .candidates import Demand, Target, highest, lined_up, without_superfluous
from .contest import Contest, Line
from .fairness import more_loaded, share
from .policy import FINAL_SHARE, INITIAL_SHARE
from .reasons import PreemptionReason
from .roster import Running
from .snapshot import Queue
from .tree import Node


def victims(demand: Demand) -> tuple[Target, ...]:
    """Who has to go for the demand to fit; nobody if that cannot be had. Leaves no trace."""
    lines = _lines(demand)
    if not lines:
        return ()
    with demand.snapshot.trial() as snapshot:
        search = _Search(demand)
        if not search.run(lines):
            return ()
        snapshot.remove_usage(demand.queue, demand.request)
        return without_superfluous(search.taken, demand)


def _lines(demand: Demand) -> dict[Node, Line]:
    """The candidates of the preemptor's queue, and of all in its tree that borrow what it needs."""
    rules, home = demand.queue.spec.preemption, demand.queue.node
    found: dict[Node, Line] = {}
    _offer(found, demand.queue, rules.within_cluster_queue, demand)
    if home.parent is None or rules.reclaim_within_cohort in ("Never", ""):
        return found
    for leaf in _queues(home.root):
        if leaf is not home and not leaf.within_quota(demand.needed):
            queue = demand.snapshot.queue_of(leaf)
            if queue is not None:
                _offer(found, queue, rules.reclaim_within_cohort, demand)
    return found


def _offer(lines: dict[Node, Line], queue: Queue, rule: str, demand: Demand) -> None:
    line = Line(_candidates(queue, rule, demand))
    if line.head is not None:
        lines[queue.node] = line


def _candidates(queue: Queue, rule: str, demand: Demand) -> Iterator[Running]:
    ceiling = highest(rule, demand.workload)
    for leaving in (True, False):
        if queue.running.line(leaving):
            yield from lined_up((queue,), rule, demand, leaving=leaving, ceiling=ceiling)


def _queues(cohort: Node) -> Iterator[Node]:
    yield from cohort.queues.values()
    for child in cohort.cohorts.values():
        yield from _queues(child)


class _Search:
    """One search, with the request counted in the snapshot. `taken` are the victims so far."""

    def __init__(self, demand: Demand) -> None:
        self._demand = demand
        self._home = demand.queue.node
        self._snapshot = demand.snapshot
        self._aside: dict[Node, list[Iterable[Running]]] = {}
        self.taken: list[Target] = []

    def run(self, lines: dict[Node, Line]) -> bool:
        """Whether victims were found that make room. The request is still counted then."""
        first, *then = self._snapshot.policy.fair_sharing or (FINAL_SHARE, INITIAL_SHARE)
        self._snapshot.add_usage(self._demand.queue, self._demand.request)
        if self._first_pass(Contest(self._demand, lines), first):
            return True
        if not then:
            return False
        refused = {node: Line(chain(*parts)) for node, parts in self._aside.items()}
        return self._second_pass(Contest(self._demand, refused))

    def _first_pass(self, contest: Contest, strategy: str) -> bool:
        entitled = self._entitled()
        while (queue := contest.loser()) is not None:
            if queue is self._home:
                running, reason = contest.line(queue).pop(), PreemptionReason.IN_CLUSTER_QUEUE
            elif entitled:
                running, reason = contest.line(queue).pop(), PreemptionReason.RECLAMATION
            else:
                chosen = self._acceptable(contest, queue, strategy)
                if chosen is None:
                    continue
                running, reason = chosen, PreemptionReason.FAIR_SHARING
            if self._take(contest, running, reason):
                return True
        return False

    def _second_pass(self, contest: Contest) -> bool:
        """Once more over those set aside; every queue gives up one workload at most."""
        while (queue := contest.loser()) is not None:
            ours, theirs = contest.sides(queue)
            running = contest.line(queue).pop()
            contest.line(queue).rest()
            if more_loaded(contest.share(theirs), contest.share(ours)) and self._take(
                contest, running, PreemptionReason.FAIR_SHARING
            ):
                return True
        return False

    def _entitled(self) -> bool:
        """Whether the queue asks for no more than its nominal quota in the columns it lacks."""
        return self._snapshot.policy.on(
            Gate.FairSharingPreemptWithinNominal
        ) and self._home.within_quota(self._demand.needed)

    def _acceptable(self, contest: Contest, queue: Node, strategy: str) -> Running | None:
        """The queue's first candidate the strategy passes. Those before it are set aside."""
        ours, theirs = contest.sides(queue)
        new, old = contest.share(ours), contest.share(theirs)
        line, aside = contest.line(queue), self._aside.setdefault(queue, [])
        if strategy == INITIAL_SHARE and more_loaded(old, new):
            return line.pop()
        # Nobody's leaving makes their share larger, so whoever is above it already stays above.
        # That holds for an infinite share against a finite one, too.
        if strategy == INITIAL_SHARE or more_loaded(new, old):
            aside.append(line.rest())
            return None
        refused = set()
        while line.head is not None:
            running = line.pop()
            usage = tuple(running.usage.items())
            if usage not in refused:
                with self._snapshot.trial():
                    self._snapshot.remove(running)
                    left = share(theirs)
                if not more_loaded(new, left):
                    return running
                refused.add(usage)
            aside.append((running,))
        return None

    def _take(self, contest: Contest, running: Running, reason: PreemptionReason) -> bool:
        """Remove a victim. Whether the request fits now, when it is not counted itself."""
        self._snapshot.remove(running)
        contest.changed(running)
        self.taken.append(Target(running, reason))
        with self._snapshot.trial():
            self._snapshot.remove_usage(self._demand.queue, self._demand.request)
            return self._demand.fits()
