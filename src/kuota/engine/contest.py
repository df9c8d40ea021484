# SPDX-License-Identifier: Apache-2.0
"""Which queue loses a workload next: the most loaded branch, from the root down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heapreplace
from itertools import chain
from typing import Any

from .candidates import Demand
from .fairness import Share, share
from .roster import Running
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
