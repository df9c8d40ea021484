# SPDX-License-Identifier: Apache-2.0
"""The quota tree: what every node has, uses, may borrow and lends.

Leaves are ClusterQueues, inner nodes cohorts. Each column (a FlavorResource) is a tree of its own
made of `Cell`s linked upward, so every question about one column walks one path of cells to the
root and touches nothing else. A change of usage costs that path; a change of structure recomputes
the tree it happened in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kuota.api.quantity import add, sub

from .amounts import FlavorResource
from .model import Quota, ResourceGroup


class Cell:
    """One node's share of one column.

    `local` is the part of `subtree` that nobody outside ever sees, `lent` the rest. `used` is
    exact; what exceeds `local` is also counted in the parent. `declared` tells a quota of zero
    from none at all.
    """

    __slots__ = (
        "borrowing_limit",
        "declared",
        "lending_limit",
        "lent",
        "local",
        "nominal",
        "parent",
        "potential",
        "subtree",
        "used",
    )

    def __init__(self, quota: Quota | None, used: int = 0) -> None:
        self.declared = quota is not None
        self.nominal = quota.nominal if quota else 0
        self.borrowing_limit = quota.borrowing_limit if quota else None
        self.lending_limit = quota.lending_limit if quota else None
        self.used = used
        self.parent: Cell | None = None
        self.subtree = self.local = self.lent = self.potential = 0

    def set_subtree_quota(self, subtree: int) -> None:
        """Fix the quota of the subtree, and with it what is kept and what is lent."""
        self.subtree = subtree
        limit = self.lending_limit
        self.local = 0 if limit is None else max(0, sub(subtree, limit))
        self.lent = sub(subtree, self.local)

    def compute_potential(self) -> None:
        """Fix what could be used here if nobody used anything. The parent comes first."""
        if self.parent is None:
            self.potential = self.subtree
            return
        self.potential = add(self.local, self.parent.potential)
        if self.borrowing_limit is not None:
            self.potential = min(self.potential, add(self.subtree, self.borrowing_limit))

    @property
    def free(self) -> int:
        """Unused local quota, never below zero."""
        return self.local - self.used if self.local > self.used else 0

    @property
    def spilled(self) -> int:
        """Usage past the local quota, which the parent counts too."""
        return self.used - self.local if self.used > self.local else 0

    def borrows_with(self, amount: int) -> bool:
        return self.subtree < self.used + amount


def available(cell: Cell) -> int:
    """Room left in this column. Negative when quota was taken away from under running work."""
    parent = cell.parent
    if parent is None:
        return sub(cell.subtree, cell.used)
    room = available(parent)
    if cell.borrowing_limit is not None:
        room = min(room, add(sub(cell.lent, cell.spilled), cell.borrowing_limit))
    free = cell.local - cell.used
    return add(room, free) if free > 0 else room


Journal = list[tuple[Cell, int]]
"""Cells with the usage they had before each change, oldest first."""


def charge(cell: Cell, amount: int, journal: Journal | None = None) -> None:
    """Add usage; what exceeds the local quota goes to the parent too, less than nothing never."""
    at: Cell | None = cell
    while at is not None and amount != 0:
        if journal is not None:
            journal.append((at, at.used))
        free = at.local - at.used
        at.used += amount
        if free > 0:
            amount -= free
        if amount <= 0:
            return
        at = at.parent


def release(cell: Cell, amount: int, journal: Journal | None = None) -> None:
    """Take usage away; the parent loses what it held of it."""
    at: Cell | None = cell
    while at is not None and amount != 0:
        if journal is not None:
            journal.append((at, at.used))
        spilled = at.used - at.local
        at.used -= amount
        if spilled <= 0:
            return
        amount = min(amount, spilled)
        at = at.parent


class Node:
    """A ClusterQueue or a cohort in the tree. `explicit` cohorts have an object of their own."""

    __slots__ = (
        "cells",
        "cohorts",
        "explicit",
        "generation",
        "height",
        "is_queue",
        "leaf_names",
        "lendable",
        "name",
        "parent",
        "queues",
        "quotas",
        "weight",
    )

    def __init__(self, name: str, *, is_queue: bool) -> None:
        self.name = name
        self.is_queue = is_queue
        self.explicit = False
        self.parent: Node | None = None
        self.cohorts: dict[str, Node] = {}
        self.queues: dict[str, Node] = {}
        self.quotas: dict[FlavorResource, Quota] = {}
        self.cells: dict[FlavorResource, Cell] = {}
        self.weight = 1.0
        self.height = 0
        self.generation = 0
        self.lendable: dict[str, int] | None = None
        self.leaf_names: frozenset[str] = frozenset({name} if is_queue else ())

    def __repr__(self) -> str:
        return f"{'ClusterQueue' if self.is_queue else 'Cohort'}({self.name})"

    @property
    def root(self) -> Node:
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    @property
    def cyclic(self) -> bool:
        """Whether walking up from here never reaches a root."""
        at = self.parent
        if at is None or at.parent is None:
            return False
        seen: set[Node] = set()
        while at is not None and at not in seen:
            seen.add(at)
            at = at.parent
        return at is not None

    def ancestors(self) -> Iterator[Node]:
        """Cohorts from the parent up to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def leaves(self) -> Iterator[Node]:
        """Every ClusterQueue at or below, cohorts first, each level by name."""
        if self.is_queue:
            yield self
        for name in sorted(self.cohorts):
            yield from self.cohorts[name].leaves()
        for name in sorted(self.queues):
            yield self.queues[name]

    def cell(self, column: FlavorResource) -> Cell:
        """The cell of a column; one without quota, up to the root, where nobody declared it.

        Cells never form a loop: where the cohorts do, a new cell stands alone.
        """
        found = self.cells.get(column)
        if found is None:
            found = self.cells[column] = Cell(None)
            if self.parent is not None and not self.cyclic:
                found.parent = self.parent.cell(column)
            found.compute_potential()
        return found

    def room(self, column: FlavorResource) -> int:
        """`available`, never below zero."""
        return max(0, available(self.cell(column)))

    def fits(self, amounts: Mapping[FlavorResource, int]) -> bool:
        """Whether every amount has room, exactly as Kueue tests it: zero always fits."""
        return all(amount <= self.room(column) for column, amount in amounts.items())

    def within_quota(self, columns: Iterable[FlavorResource]) -> bool:
        """Whether usage is at or under the subtree's quota in every one of the columns."""
        for column in columns:
            cell = self.cells.get(column)
            if cell is not None and cell.used > cell.subtree:
                return False
        return True


def lowest_fit(node: Node, column: FlavorResource, amount: int) -> tuple[int, bool]:
    """How high up the tree the amount has to come from, and whether it could come from higher.

    The height is that of the smallest subtree that holds the amount within its own quota: 0 when
    nothing is borrowed, the root's when no subtree holds it.
    """
    if node.parent is None:
        return 0, False
    cell = node.cell(column)
    if not cell.borrows_with(amount):
        return 0, True
    rest = amount - cell.free
    for cohort in node.ancestors():
        cell = cohort.cell(column)
        if not cell.borrows_with(rest):
            return cohort.height, cohort.parent is not None
        rest -= cell.free
    return node.root.height, False


class Tree:
    """All nodes by name, kept consistent under changes of structure and quota.

    Cohorts exist from the moment they are named. A tree with a cycle keeps the numbers it had and
    is recomputed when the cycle is broken.
    """

    def __init__(self) -> None:
        self.queues: dict[str, Node] = {}
        self.cohorts: dict[str, Node] = {}

    def put_queue(
        self, name: str, cohort: str, groups: Iterable[ResourceGroup], weight: float
    ) -> Node:
        """Add or change a ClusterQueue. Usage stays; the trees it left and joined are recomputed.

        The generation grows only where quotas or the parent changed.
        """
        node = self.queues.get(name)
        fresh = node is None
        if node is None:
            node = self.queues[name] = Node(name, is_queue=True)
        node.weight = weight
        quotas = quotas_of(groups)
        before = node.parent
        moved = (before.name if before else "") != cohort
        if fresh or moved or quotas != node.quotas:
            node.quotas = quotas
            self._attach(node, cohort)
            self._recompute_after_move(node, before if moved else None)
        return node

    def drop_queue(self, name: str) -> None:
        node = self.queues.pop(name, None)
        if node is not None:
            before = node.parent
            self._attach(node, "")
            if before is not None:
                self._recompute(before)
                self._forget_if_bare(before)

    def put_cohort(
        self, name: str, parent: str, groups: Iterable[ResourceGroup], weight: float
    ) -> Node:
        """Add or change a Cohort object. A cohort that was only named keeps its children."""
        node = self._cohort(name)
        node.explicit = True
        node.weight = weight
        node.quotas = quotas_of(groups)
        before = node.parent
        moved = (before.name if before else "") != parent
        if moved:
            self._attach(node, parent)
        self._recompute_after_move(node, before if moved else None)
        return node

    def drop_cohort(self, name: str) -> None:
        """Forget a Cohort object. Its children, if any, form a tree of their own."""
        node = self.cohorts.get(name)
        if node is None:
            return
        before = node.parent
        node.explicit = False
        node.quotas = {}
        node.weight = 1.0
        self._attach(node, "")
        self._recompute_after_move(node, before)
        self._forget_if_bare(node)

    def _cohort(self, name: str) -> Node:
        node = self.cohorts.get(name)
        if node is None:
            node = self.cohorts[name] = Node(name, is_queue=False)
        return node

    def _attach(self, node: Node, cohort: str) -> None:
        before = node.parent
        if before is not None:
            (before.queues if node.is_queue else before.cohorts).pop(node.name, None)
        node.parent = self._cohort(cohort) if cohort else None
        if node.parent is not None:
            (node.parent.queues if node.is_queue else node.parent.cohorts)[node.name] = node

    def _recompute_after_move(self, node: Node, before: Node | None) -> None:
        if before is not None:
            self._recompute(before)
            self._forget_if_bare(before)
        self._recompute(node)

    def _forget_if_bare(self, cohort: Node) -> None:
        """A cohort that is only named vanishes with its last child."""
        if not (cohort.explicit or cohort.cohorts or cohort.queues):
            self.cohorts.pop(cohort.name, None)
            if cohort.parent is not None:
                self._attach(cohort, "")

    def _recompute(self, node: Node) -> None:
        if not node.cyclic:
            root = node.root
            _gather(root)
            _link(root)


def quotas_of(groups: Iterable[ResourceGroup]) -> dict[FlavorResource, Quota]:
    """The quota table of a queue or cohort, over all its resource groups."""
    return {column: quota for group in groups for column, quota in group.quotas.items()}


def _gather(node: Node) -> None:
    """Fill the cells of the subtree from the leaves up: quota, local quota, usage, height."""
    if node.is_queue:
        used = {column: cell.used for column, cell in node.cells.items() if cell.used}
        node.cells = {column: Cell(quota) for column, quota in node.quotas.items()}
        for column, amount in used.items():
            node.cells.setdefault(column, Cell(None)).used = amount
        for cell in node.cells.values():
            cell.set_subtree_quota(cell.nominal)
        node.generation += 1
        return
    node.cells = {column: Cell(quota) for column, quota in node.quotas.items()}
    totals = {column: cell.nominal for column, cell in node.cells.items()}
    node.height = 0 if not (node.cohorts or node.queues) else 1
    for child in (*node.cohorts.values(), *node.queues.values()):
        _gather(child)
        if not child.is_queue:
            node.height = max(node.height, child.height + 1)
        for column, below in child.cells.items():
            cell = node.cells.setdefault(column, Cell(None))
            cell.declared = cell.declared or below.declared
            totals[column] = add(totals.get(column, 0), below.lent)
            cell.used += below.spilled
    for column, cell in node.cells.items():
        cell.set_subtree_quota(totals[column])


def _link(node: Node) -> None:
    """Point every cell at its parent's and fix what it could reach, from the root down."""
    node.lendable = None
    node.leaf_names = frozenset(leaf.name for leaf in node.leaves())
    for column, cell in node.cells.items():
        cell.parent = node.parent.cells[column] if node.parent is not None else None
        cell.compute_potential()
    for child in (*node.cohorts.values(), *node.queues.values()):
        _link(child)
