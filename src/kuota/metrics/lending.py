# SPDX-License-Identifier: Apache-2.0
"""How much of its quota each ClusterQueue lends at this moment. Pure.

Kueue does not record lenders. The quota that a cohort's members borrow is taken from the cohort's
own quota first, then from its members and the cohorts below, in proportion to the quota that each
of them could lend. The cost depends on the number of nodes, not of workloads.
"""

from __future__ import annotations

from collections.abc import Iterator

from kuota.engine.amounts import FlavorResource
from kuota.engine.tree import Cell, QuotaNode


def lent_by_queue(root: QuotaNode, column: FlavorResource) -> Iterator[tuple[str, float]]:
    """Yield the ClusterQueues of a tree that lend this column, each with the amount.

    `root` must not be part of a cycle.
    """
    if not root.is_queue:
        yield from _taken(root, column, 0.0)


def _taken(cohort: QuotaNode, column: FlavorResource, taken: float) -> Iterator[tuple[str, float]]:
    """Yield the lenders in a cohort from whose quota others outside take this amount."""
    children = [
        (child, cell)
        for child in (*cohort.cohorts.values(), *cohort.queues.values())
        if (cell := child.cells.get(column)) is not None
    ]
    own = cohort.cells.get(column)
    from_above = max(0, own.spilled - own.lent) if own is not None and cohort.parent else 0
    needed = taken + sum(max(0, -_spare(cell)) for _, cell in children) - from_above
    needed -= own.nominal if own is not None else 0
    spare = sum(max(0, _spare(cell)) for _, cell in children)
    part = min(1.0, max(0.0, needed) / spare) if spare else 0.0
    for child, cell in children:
        amount = max(0, _spare(cell)) * part
        if not child.is_queue:
            yield from _taken(child, column, amount)
        elif amount:
            yield child.name, amount


def _spare(cell: Cell) -> int:
    """Return how much a node offers to its parent and does not use; negative if it borrows."""
    return cell.lent - cell.spilled
