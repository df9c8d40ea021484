# SPDX-License-Identifier: Apache-2.0
"""The quota tree: nominal quota, usage, borrowing and lending of every node.

Leaves are ClusterQueues, inner nodes are cohorts. Each column (a FlavorResource) forms its own tree
of `Cell`s linked to their parents, so a query about one column follows one path to the root. A
change of usage updates that path; a change of structure recomputes the whole tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kuota.api.quantity import add, sub

from .amounts import FlavorResource
from .model import Quota, ResourceGroup


class Cell:
    """The quota and usage of one node for one column.

    `local` is the part of `subtree` that is not lent; `lent` is the rest. `used` is exact; the part
    above `local` also counts in the parent. `declared` distinguishes a quota of zero from no quota.
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
        """Set the quota of the subtree, and compute the local and the lent part."""
        self.subtree = subtree
        limit = self.lending_limit
        self.local = 0 if limit is None else max(0, sub(subtree, limit))
        self.lent = sub(subtree, self.local)

    def compute_potential(self) -> None:
        """Compute the maximum that could be used here. The parent must be computed first."""
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
        """Usage above the local quota, which also counts in the parent."""
        return self.used - self.local if self.used > self.local else 0

    def borrows_with(self, amount: int) -> bool:
        return self.subtree < self.used + amount


def available(cell: Cell) -> int:
    """Return the available quota of this column. Negative if quota was reduced below the usage."""
    parent = cell.parent
    if parent is None:
        return sub(cell.subtree, cell.used)
    room = available(parent)
    if cell.borrowing_limit is not None:
        room = min(room, add(sub(cell.lent, cell.spilled), cell.borrowing_limit))
    free = cell.local - cell.used
    return add(room, free) if free > 0 else room


Journal = list[tuple[Cell, int]]
"""Cells with their usage before each change, oldest first."""


def charge(cell: Cell, amount: int, journal: Journal | None = None) -> None:
    """Add usage. The part above the local quota is also added to the parent."""
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
    """Remove usage, also from the parent as far as it counted there."""
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


class QuotaNode:
    """A ClusterQueue or cohort in the tree. `explicit` cohorts have a Cohort object."""

    __slots__ = (
        "active",
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
        self.active = True
        self.explicit = False
        self.parent: QuotaNode | None = None
        self.cohorts: dict[str, QuotaNode] = {}
        self.queues: dict[str, QuotaNode] = {}
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
    def root(self) -> QuotaNode:
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    @property
    def cyclic(self) -> bool:
        """Whether the path upward never reaches a root."""
        at = self.parent
        if at is None or at.parent is None:
            return False
        seen: set[QuotaNode] = set()
        while at is not None and at not in seen:
            seen.add(at)
            at = at.parent
        return at is not None

    def set_active(self, active: bool) -> None:
        """Set whether a ClusterQueue takes part. Others do not count in the heights of cohorts."""
        if active != self.active:
            self.active = active
            for cohort in () if self.cyclic else self.ancestors():
                cohort.height = _height(cohort)

    def ancestors(self) -> Iterator[QuotaNode]:
        """Yield the cohorts from the parent up to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def leaves(self) -> Iterator[QuotaNode]:
        """Yield every ClusterQueue at or below this node, cohorts first, each level by name."""
        if self.is_queue:
            yield self
        for name in sorted(self.cohorts):
            yield from self.cohorts[name].leaves()
        for name in sorted(self.queues):
            yield self.queues[name]

    def cell(self, column: FlavorResource) -> Cell:
        """Return the cell of a column, creating cells without quota up to the root if needed.

        Cells never form a cycle: in a cyclic tree a new cell has no parent.
        """
        found = self.cells.get(column)
        if found is None:
            found = self.cells[column] = Cell(None)
            if self.parent is not None and not self.cyclic:
                found.parent = self.parent.cell(column)
            found.compute_potential()
        return found

    def room(self, column: FlavorResource) -> int:
        """Return `available`, but at least zero."""
        return max(0, available(self.cell(column)))

    def fits(self, amounts: Mapping[FlavorResource, int]) -> bool:
        """Whether every amount is available, exactly as Kueue tests it: zero always fits."""
        return all(amount <= self.room(column) for column, amount in amounts.items())

    def within_quota(self, columns: Iterable[FlavorResource]) -> bool:
        """Whether usage is within the subtree's quota in all of these columns."""
        for column in columns:
            cell = self.cells.get(column)
            if cell is not None and cell.used > cell.subtree:
                return False
        return True


class QuotaTree:
    """All nodes by name, kept consistent when structure or quota changes.

    A cohort exists as soon as it is referenced. A tree with a cycle keeps its last values and is
    recomputed when the cycle is removed.
    """

    def __init__(self) -> None:
        self.queues: dict[str, QuotaNode] = {}
        self.cohorts: dict[str, QuotaNode] = {}

    def put_queue(
        self, name: str, cohort: str, groups: Iterable[ResourceGroup], weight: float
    ) -> QuotaNode:
        """Add or update a ClusterQueue, and recompute the trees that it left and joined.

        Its usage stays. The generation increases only if quotas or the parent changed.
        """
        node = self.queues.get(name)
        fresh = node is None
        if node is None:
            node = self.queues[name] = QuotaNode(name, is_queue=True)
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
    ) -> QuotaNode:
        """Add or update a Cohort object. A cohort that was only referenced keeps its children."""
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
        """Remove a Cohort object. Its children, if any, form their own tree."""
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

    def _cohort(self, name: str) -> QuotaNode:
        node = self.cohorts.get(name)
        if node is None:
            node = self.cohorts[name] = QuotaNode(name, is_queue=False)
        return node

    def _attach(self, node: QuotaNode, cohort: str) -> None:
        before = node.parent
        if before is not None:
            (before.queues if node.is_queue else before.cohorts).pop(node.name, None)
        node.parent = self._cohort(cohort) if cohort else None
        if node.parent is not None:
            (node.parent.queues if node.is_queue else node.parent.cohorts)[node.name] = node

    def _recompute_after_move(self, node: QuotaNode, before: QuotaNode | None) -> None:
        if before is not None:
            self._recompute(before)
            self._forget_if_bare(before)
        self._recompute(node)

    def _forget_if_bare(self, cohort: QuotaNode) -> None:
        """Remove a cohort that has neither an object nor children."""
        if not (cohort.explicit or cohort.cohorts or cohort.queues):
            self.cohorts.pop(cohort.name, None)
            if cohort.parent is not None:
                self._attach(cohort, "")

    def _recompute(self, node: QuotaNode) -> None:
        if not node.cyclic:
            root = node.root
            _gather(root)
            _link(root)


def quotas_of(groups: Iterable[ResourceGroup]) -> dict[FlavorResource, Quota]:
    """Return the quotas of a queue or cohort, over all its resource groups."""
    return {column: quota for group in groups for column, quota in group.quotas.items()}


def _gather(node: QuotaNode) -> None:
    """Compute the cells of the subtree bottom-up: quota, local quota, usage, height."""
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
    for child in (*node.cohorts.values(), *node.queues.values()):
        _gather(child)
        for column, below in child.cells.items():
            cell = node.cells.setdefault(column, Cell(None))
            cell.declared = cell.declared or below.declared
            totals[column] = add(totals.get(column, 0), below.lent)
            cell.used += below.spilled
    for column, cell in node.cells.items():
        cell.set_subtree_quota(totals[column])
    node.height = _height(node)


def _height(cohort: QuotaNode) -> int:
    """Return the distance to the furthest active ClusterQueue or cohort below."""
    lowest = int(any(each.active for each in cohort.queues.values()))
    return max([lowest, *(each.height + 1 for each in cohort.cohorts.values())])


def _link(node: QuotaNode) -> None:
    """Link every cell to its parent and compute its potential, top-down."""
    node.lendable = None
    node.leaf_names = frozenset(leaf.name for leaf in node.leaves())
    for column, cell in node.cells.items():
        cell.parent = node.parent.cells[column] if node.parent is not None else None
        cell.compute_potential()
    for child in (*node.cohorts.values(), *node.queues.values()):
        _link(child)


def queues_below(node: QuotaNode) -> set[str]:
    """Return the ClusterQueues of a cohort and of all cohorts below it, even in a cycle."""
    seen, ahead = {node}, [node]
    for at in ahead:
        below = [each for each in at.cohorts.values() if each not in seen]
        seen.update(below)
        ahead += below
    return {name for each in seen for name in each.queues}
