# SPDX-License-Identifier: Apache-2.0
"""Which queue loses a workload next: the most loaded branch, from the root down."""

from __future__ import annotations

from collections.abc import Iterable

from .candidates import Demand
from .fairness import Share, share
from .roster import Running
from .tree import Node


class Line:
    """Candidates of one queue, first victim first, found as they are asked for."""

    __slots__ = ("_rest", "head")

    def __init__(self, candidates: Iterable[Running]) -> None:
        self._rest = iter(candidates)
        self.head = next(self._rest, None)

    def pop(self) -> Running:
        """Take the first one out. There must be one."""
        head = self.head
        assert head is not None
        self.head = next(self._rest, None)
        return head

    def rest(self) -> list[Running]:
        """Take out all that are left."""
        left = [] if self.head is None else [self.head, *self._rest]
        self.head = None
        return left


class Contest:
    """Queues with candidates, and the cohorts above them, as long as they are in the running.

    Shares count the preemptor's request. They are remembered until `changed` tells of a victim.
    Only branches with candidates are kept: the others would be dropped before they could lose.
    """

    def __init__(self, demand: Demand, lines: dict[Node, Line]) -> None:
        self._home = demand.queue.node
        self._queues = demand.snapshot.queues
        self._path = [self._home, *self._home.ancestors()]
        self._shares: dict[Node, Share] = {}
        self._loads: dict[Node, tuple[bool, float]] = {}
        self._lines = lines
        self._branches: dict[Node, list[Node]] = {}
        for node in lines:
            self._enter(node)

    def loser(self) -> Node | None:
        """The queue that gives up a workload next; None when nobody is left."""
        root = self._path[-1]
        if root.is_queue:
            return root if root in self._lines and self._lines[root].head is not None else None
        while root in self._branches:
            found = self._descend(root)
            if found is not None:
                return found
        return None

    def line(self, queue: Node) -> Line:
        """The candidates that a queue has left."""
        return self._lines[queue]

    def share(self, node: Node) -> Share:
        found = self._shares.get(node)
        if found is None:
            found = self._shares[node] = share(node)
            self._loads[node] = found.load
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
        """The loser below a cohort. Without one the cohort is dropped, like all who cannot lose."""
        left = [child for child in self._branches[cohort] if self._in_the_running(child)]
        self._branches[cohort] = left
        if not left:
            del self._branches[cohort]
            return None
        top = left[0]
        for child in left:
            if self._before(child, top):
                top = child
        return top if top.is_queue else self._descend(top)

    def _in_the_running(self, node: Node) -> bool:
        if node.is_queue:
            if self._lines[node].head is None:
                return False
        elif node not in self._branches:
            return False
        # The share of the preemptor's side is wanted as well, to compare it.
        return self.share(node).borrowing or node in self._path

    def _before(self, one: Node, other: Node) -> bool:
        mine, theirs = self._loads[one], self._loads[other]
        if mine != theirs:
            return mine > theirs
        if one.is_queue != other.is_queue:
            return other.is_queue
        if not one.is_queue:
            return one.name < other.name
        return self._standing(one) < self._standing(other)

    def _standing(self, queue: Node) -> tuple[object, ...]:
        """How soon the queue's first candidate would go, the use of LocalQueues left aside."""
        head = self._lines[queue].head
        assert head is not None
        return (not head.leaving, queue is self._home, head.rank)
