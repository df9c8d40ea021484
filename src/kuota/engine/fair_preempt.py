# SPDX-License-Identifier: Apache-2.0
"""Victims under fair sharing: from whoever borrows most, as long as that evens things out.

`spec/decisions.md` 5.10. The request is counted as if granted; then the most loaded branch of the
tree gives up one workload at a time, if the strategy approves of the shares before and after.
"""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api.gates import Gate

from .candidates import Demand, Target, eligible, ordered, without_superfluous
from .contest import Contest
from .fairness import more_loaded, share
from .policy import FINAL_SHARE, INITIAL_SHARE
from .reasons import PreemptionReason
from .snapshot import Running
from .tree import Node

Offers = dict[Node, list[Running]]
"""Candidates of each queue, first victim first."""


def victims(demand: Demand) -> tuple[Target, ...]:
    """Who has to go for the demand to fit; nobody if that cannot be had. Leaves no trace."""
    found = _candidates(demand)
    if not found or demand.hopeless(found):
        return ()
    snapshot = demand.snapshot
    offers: Offers = {}
    for running in ordered(found, demand):
        offers.setdefault(snapshot.queues[running.queue].node, []).append(running)
    with snapshot.trial():
        search = _Search(demand)
        if not search.run(offers):
            return ()
        snapshot.remove_usage(demand.queue, demand.request)
        return without_superfluous(search.taken, demand)


def _candidates(demand: Demand) -> list[Running]:
    rules, node = demand.queue.spec.preemption, demand.queue.node
    found = eligible(demand.queue, rules.within_cluster_queue, demand)
    if node.parent is None or rules.reclaim_within_cohort in ("Never", ""):
        return found
    for leaf in _queues(node.root):
        if leaf is not node and not leaf.within_quota(demand.needed):
            queue = demand.snapshot.queue_of(leaf)
            if queue is not None:
                found += eligible(queue, rules.reclaim_within_cohort, demand)
    return found


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
        self._aside: Offers = {}
        self.taken: list[Target] = []

    def run(self, offers: Offers) -> bool:
        """Whether victims were found that make room. The request is still counted then."""
        first, *then = self._snapshot.policy.fair_sharing or (FINAL_SHARE, INITIAL_SHARE)
        self._snapshot.add_usage(self._demand.queue, self._demand.request)
        contest = Contest(self._demand, offers)
        if self._first_pass(contest, first):
            return True
        return bool(then) and self._second_pass(Contest(self._demand, self._aside))

    def _first_pass(self, contest: Contest, strategy: str) -> bool:
        entitled = self._entitled()
        while (queue := contest.loser()) is not None:
            if queue is self._home:
                running, reason = contest.pop(queue), PreemptionReason.IN_CLUSTER_QUEUE
            elif entitled:
                running, reason = contest.pop(queue), PreemptionReason.RECLAMATION
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
            running = contest.pop(queue)
            contest.drop(queue)
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
        aside = self._aside.setdefault(queue, [])
        if new.infinite and not old.infinite:
            aside += contest.drop(queue)
            return None
        while contest.offers(queue):
            running = contest.pop(queue)
            if strategy == INITIAL_SHARE:
                passed = more_loaded(old, new)
            else:
                with self._snapshot.trial():
                    self._snapshot.remove(running)
                    passed = not more_loaded(new, share(theirs))
            if passed:
                return running
            aside.append(running)
        return None

    def _take(self, contest: Contest, running: Running, reason: PreemptionReason) -> bool:
        """Remove a victim. Whether the request fits now, when it is not counted itself."""
        self._snapshot.remove(running)
        contest.changed(running)
        self.taken.append(Target(running, reason))
        with self._snapshot.trial():
            self._snapshot.remove_usage(self._demand.queue, self._demand.request)
            return self._demand.fits()
