# SPDX-License-Identifier: Apache-2.0
"""Victims under fair sharing: from whoever borrows most, as long as that evens things out.

The request is counted as if granted; then the most loaded branch of the tree gives up one workload
at a time (`Contest`), if the strategy approves of the shares before and after.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heapreplace
from itertools import chain
from typing import Any

from kuota.api.gates import Gate

from .candidates import NEVER, Demand, Target, highest, lined_up, without_superfluous
from .fairness import Share, more_loaded, share
from .policy import FINAL_SHARE, INITIAL_SHARE
from .reasons import PreemptionReason
from .roster import Running
from .snapshot import Queue
from .tree import Node

Standing = tuple[bool, float, bool, Any]


class Line:
    """Candidates of one queue, first victim first, found as they are asked for."""

    __slots__ = ("_rest", "head")

    def __init__(self, candidates: Iterable[Running]) -> None:
        self._rest: Iterator[Running] = iter(candidates)
        self.head = next(self._rest, None)

    def pop(self) -> Running:
        """Take the first one out. There must be one."""
        head = self.head
        assert head is not None
        self.head = next(self._rest, None)
        return head

    def rest(self) -> Iterator[Running]:
        """Take out all that are left, to be found as they are asked for."""
        head, rest = self.head, self._rest
        self.head, self._rest = None, iter(())
        return rest if head is None else chain((head,), rest)


class Contest:
    """Queues with candidates, and the cohorts above them, as long as they are in the running.

    Each cohort keeps its branches in a heap, the next to lose on top. Between two questions only
    the branch that lost can have changed, so it alone is judged anew. Branches without candidates
    are never entered: they would be dropped before they could lose.

    Shares count the preemptor's request. They are remembered until `changed` tells of a victim.
    """

    def __init__(self, demand: Demand, lines: dict[Node, Line]) -> None:
        self._home = demand.queue.node
        self._queues = demand.snapshot.queues
        self._path = [self._home, *self._home.ancestors()]
        self._shares: dict[Node, Share] = {}
        self._lines = lines
        self._branches: dict[Node, list[Node]] = {}
        self._heaps: dict[Node, list[tuple[Standing, Node]]] = {}
        self._lost: set[Node] = set()
        for node in lines:
            self._enter(node)

    def loser(self) -> Node | None:
        """The queue that gives up a workload next; None when nobody is left."""
        root = self._path[-1]
        if not root.is_queue:
            return self._descend(root)
        return root if root in self._lines and self._lines[root].head is not None else None

    def line(self, queue: Node) -> Line:
        """The candidates that a queue has left."""
        return self._lines[queue]

    def share(self, node: Node) -> Share:
        found = self._shares.get(node)
        if found is None:
            found = self._shares[node] = share(node)
        return found

    def sides(self, queue: Node) -> tuple[Node, Node]:
        """The two branches, the preemptor's and the queue's, that meet in their first common
        cohort: it is they whose shares are compared."""
        theirs = queue
        while theirs.parent is not None and theirs.parent not in self._path:
            theirs = theirs.parent
        ours = next(node for node in self._path if node.parent is theirs.parent)
        return ours, theirs

    def changed(self, running: Running) -> None:
        """Forget the shares that losing this workload touched."""
        node: Node | None = self._queues[running.queue].node
        while node is not None:
            self._shares.pop(node, None)
            node = node.parent

    def _enter(self, node: Node) -> None:
        while (parent := node.parent) is not None:
            beside = self._branches.get(parent)
            if beside is not None:
                beside.append(node)
                return
            self._branches[parent] = [node]
            node = parent

    def _descend(self, cohort: Node) -> Node | None:
        """The loser below a cohort. Who cannot lose any more is dropped for good."""
        heap = self._heap(cohort)
        while heap:
            _, node = heap[0]
            if node in self._lost:
                self._lost.discard(node)
                if self._in_the_running(node):
                    heapreplace(heap, (self._standing(node), node))
                else:
                    heappop(heap)
                continue
            found = node if node.is_queue else self._descend(node)
            if found is not None:
                self._lost.add(node)
                return found
            heappop(heap)
        return None

    def _heap(self, cohort: Node) -> list[tuple[Standing, Node]]:
        heap = self._heaps.get(cohort)
        if heap is None:
            branches = self._branches.get(cohort, ())
            heap = [(self._standing(each), each) for each in branches if self._in_the_running(each)]
            heapify(heap)
            self._heaps[cohort] = heap
        return heap

    def _in_the_running(self, node: Node) -> bool:
        """Whether it may lose: it borrows, or the preemptor is in it; a queue has candidates."""
        if node.is_queue and self._lines[node].head is None:
            return False
        return self.share(node).borrowing or node in self._path

    def _standing(self, node: Node) -> Standing:
        """What decides who loses first, smaller first: the larger share, then cohorts by name, then
        queues by how soon their first candidate would go, the use of LocalQueues left aside."""
        infinite, load = self.share(node).load
        if not node.is_queue:
            return (not infinite, -load, False, node.name)
        head = self._lines[node].head
        assert head is not None
        return (not infinite, -load, True, (not head.leaving, node is self._home, head.rank))


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
    offers = [(demand.queue, rules.within_cluster_queue)]
    if home.parent is not None and rules.reclaim_within_cohort not in NEVER:
        queues = (demand.snapshot.queues[name] for name in home.root.leaf_names)
        offers += [
            (queue, rules.reclaim_within_cohort)
            for queue in queues
            if queue.active and queue.node is not home
            if not queue.node.within_quota(demand.needed)
        ]
    lines = ((queue.node, Line(_candidates(queue, rule, demand))) for queue, rule in offers)
    return {node: line for node, line in lines if line.head is not None}


def _candidates(queue: Queue, rule: str, demand: Demand) -> Iterator[Running]:
    ceiling = highest(rule, demand.workload)
    for leaving in (True, False):
        if queue.running.line(leaving):
            yield from lined_up((queue,), rule, demand, leaving=leaving, ceiling=ceiling)


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
