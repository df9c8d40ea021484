# SPDX-License-Identifier: Apache-2.0
"""Which queue loses a workload next: the most loaded branch, from the root down."""

from __future__ import annotations

from .candidates import Demand, rank
from .fairness import Share, share
from .snapshot import Running
from .tree import Node


class Contest:
    """Queues with candidates, and the cohorts above them, as long as they are in the running.

    Shares count the preemptor's request. They are remembered until `changed` tells of a victim.
    Only branches with candidates are kept: the others would be dropped before they could lose.
    """

    def __init__(self, demand: Demand, offers: dict[Node, list[Running]]) -> None:
        self._home = demand.queue.node
        self._name = demand.queue.name
        self._now = demand.snapshot.now
        self._queues = demand.snapshot.queues
        self._path = [self._home, *self._home.ancestors()]
        self._shares: dict[Node, Share] = {}
        # Last in, first out: the next candidate is at the end.
        self._offers = {node: found[::-1] for node, found in offers.items() if found}
        self._branches: dict[Node, list[Node]] = {}
        for node in self._offers:
            self._enter(node)

    def loser(self) -> Node | None:
        """The queue that gives up a workload next; None when nobody is left."""
        root = self._path[-1]
        if root.is_queue:
            return root if self._offers.get(root) else None
        while root in self._branches:
            found = self._descend(root)
            if found is not None:
                return found
        return None

    def offers(self, queue: Node) -> int:
        """How many candidates the queue has left."""
        return len(self._offers.get(queue, ()))

    def pop(self, queue: Node) -> Running:
        return self._offers[queue].pop()

    def drop(self, queue: Node) -> list[Running]:
        """Take the queue out of the contest, with the candidates it had left, in order."""
        return self._offers.pop(queue, [])[::-1]

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
        """The loser below a cohort. Without one the cohort is dropped, like all who cannot lose."""
        left = [child for child in self._branches[cohort] if self._in_the_running(child)]
        self._branches[cohort] = left
        if not left:
            del self._branches[cohort]
            return None
        top = left[0]
        for child in left[1:]:
            if self._before(child, top):
                top = child
        return top if top.is_queue else self._descend(top)

    def _in_the_running(self, node: Node) -> bool:
        if node.is_queue:
            if not self._offers.get(node):
                return False
        elif node not in self._branches:
            return False
        return node in self._path or self.share(node).borrowing

    def _before(self, one: Node, other: Node) -> bool:
        mine, theirs = self.share(one).load, self.share(other).load
        if mine != theirs:
            return mine > theirs
        if one.is_queue != other.is_queue:
            return other.is_queue
        if not one.is_queue:
            return one.name < other.name
        return self._first(one) < self._first(other)

    def _first(self, queue: Node) -> tuple[object, ...]:
        return rank(self._offers[queue][-1], self._name, self._now)
