# SPDX-License-Identifier: Apache-2.0
"""Dominant resource shares: who holds most of what belongs to others.

A share is the node's usage beyond its own quota, as a fraction of what its parent could lend, in
the resource where that fraction is largest, times 1000 and divided by the node's weight. What a
parent could lend depends on quotas alone and is kept with the node until they change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from kuota.api.quantity import UNLIMITED, add

from .amounts import FlavorResource
from .tree import Node


class Share(msgspec.Struct, frozen=True, gc=False):
    """One node's share. `ratio` is before the weight; `borrowed` are the columns over quota.

    Borrowing and a share of zero go together where nothing can be lent. `dominant` is for display.
    """

    ratio: float = 0.0
    weight: float = 1.0
    dominant: str = ""
    borrowed: frozenset[FlavorResource] = frozenset()

    @property
    def borrowing(self) -> bool:
        return bool(self.borrowed)

    def borrowing_on(self, columns: Iterable[FlavorResource]) -> bool:
        """Whether any of the columns is over quota."""
        return not self.borrowed.isdisjoint(columns)

    @property
    def infinite(self) -> bool:
        """Whether it weighs nothing and yet borrows: then it is above every finite share."""
        return self.weight == 0 and self.ratio > 0

    @property
    def weighted(self) -> float:
        if self.ratio == 0:
            return 0.0
        return math.inf if self.weight == 0 else self.ratio / self.weight

    @property
    def load(self) -> tuple[bool, float]:
        """The total order of shares. Two infinite ones compare by their plain ratio."""
        return (True, self.ratio) if self.infinite else (False, self.weighted)

    @property
    def published(self) -> int:
        """The share as status and metrics tell it: rounded up, the largest integer for infinity."""
        return UNLIMITED if self.infinite else math.ceil(self.weighted)


def more_loaded(one: Share, other: Share) -> bool:
    return one.load > other.load


def share(node: Node) -> Share:
    """The share of a queue or cohort with its usage as it stands. A root's is 0, without borrowing.

    Usage of columns that nobody at or below the node declares any more is ignored.
    """
    if node.parent is None:
        return Share(weight=node.weight)
    over: dict[str, int] = {}
    borrowed = []
    for column, cell in node.cells.items():
        if cell.used > cell.subtree and cell.declared:
            borrowed.append(column)
            over[column.resource] = over.get(column.resource, 0) + cell.used - cell.subtree
    if not borrowed:
        return Share(weight=node.weight)
    ratio, dominant = _dominant(over, lendable(node.parent))
    return Share(ratio, node.weight, dominant, frozenset(borrowed))


def _dominant(over: dict[str, int], pool: dict[str, int]) -> tuple[float, str]:
    """The largest ratio and its resource; of equal ones the first by name."""
    best, dominant = 0.0, ""
    for resource in sorted(over):
        capacity = pool.get(resource, 0)
        if capacity > 0 and over[resource] * 1000 / capacity > best:
            best, dominant = over[resource] * 1000 / capacity, resource
    return best, dominant


def lendable(node: Node) -> dict[str, int]:
    """What a cohort could lend of each resource if nobody used anything, over all flavors."""
    found = node.lendable
    if found is None:
        found = {}
        for column, cell in node.root.cells.items():
            if cell.declared:
                reach = node.cell(column).potential
                found[column.resource] = add(found.get(column.resource, 0), reach)
        node.lendable = found
    return found
