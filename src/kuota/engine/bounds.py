# SPDX-License-Identifier: Apache-2.0
"""Where quota ends in the tree: the borrowing height, the binding node, and unlent quota."""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api.quantity import add, sub

from .amounts import FlavorResource
from .tree import QuotaNode


def lowest_fit(node: QuotaNode, column: FlavorResource, amount: int) -> tuple[int, bool]:
    """Return the height at which the amount is available, and whether a higher level exists.

    The height is that of the smallest subtree that can hold the amount within its own quota: 0
    without borrowing, the root's height if no subtree can.
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


def binding(node: QuotaNode, column: FlavorResource) -> QuotaNode:
    """Return the node that limits the column: a node with a borrowing limit, or the root.

    If several nodes limit it equally, the highest one is returned.
    """
    bound, *below = reversed((node, *node.ancestors()))
    cell = bound.cell(column)
    room = sub(cell.subtree, cell.used)
    for each in below:
        cell = each.cell(column)
        if cell.borrowing_limit is not None:
            cap = add(sub(cell.lent, cell.spilled), cell.borrowing_limit)
            if cap < room:
                room, bound = cap, each
        room = add(room, cell.free)
    return bound


def ceiling(node: QuotaNode, column: FlavorResource) -> QuotaNode:
    """Like `binding`, but for the maximum that is possible when nothing is used."""
    bound, *below = reversed((node, *node.ancestors()))
    for each in below:
        cell = each.cell(column)
        assert cell.parent is not None
        if cell.potential < add(cell.local, cell.parent.potential):
            bound = each
    return bound


def unlent_quota(
    node: QuotaNode, column: FlavorResource, *, include_used: bool = False
) -> list[tuple[QuotaNode, int]]:
    """Return the nodes with unused quota that a lending limit keeps from `node`, and how much.

    Only nodes beside the path to the root count, because `node` may use the quota on the path
    itself. With `include_used`, quota that its owner uses counts as well.
    """
    found: list[tuple[QuotaNode, int]] = []
    at = node
    for cohort in node.ancestors():
        for child in (*cohort.cohorts.values(), *cohort.queues.values()):
            if child is not at:
                found += _unlent_below(child, column, include_used)
        at = cohort
    return sorted(found, key=lambda each: each[0].name)


def _unlent_below(
    node: QuotaNode, column: FlavorResource, include_used: bool
) -> Iterator[tuple[QuotaNode, int]]:
    cell = node.cells.get(column)
    unlent = 0 if cell is None else cell.local if include_used else cell.free
    if unlent > 0:
        yield node, unlent
    for child in (*node.cohorts.values(), *node.queues.values()):
        yield from _unlent_below(child, column, include_used)
