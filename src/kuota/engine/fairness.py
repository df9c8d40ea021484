# SPDX-License-Identifier: Apache-2.0
"""Dominant resource shares.

A share is the node's usage beyond its own quota, as a fraction of what its parent could lend, for
the resource with the largest fraction, multiplied by 1000 and divided by the node's weight. What a
parent could lend depends only on quotas and is cached in the node until they change.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from kuota.api.quantity import UNLIMITED, add

from .amounts import FlavorResource
from .tree import QuotaNode


class DominantResourceShare(msgspec.Struct, frozen=True, gc=False):
    """The share of one node. `ratio` is unweighted; `borrowed` are the columns over quota.

    A borrowing node has a share of zero if nothing can be lent. `dominant` is for display only.
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
        """Whether the node borrows with weight 0: its share then exceeds every finite share."""
        return self.weight == 0 and self.ratio > 0

    @property
    def weighted(self) -> float:
        if self.ratio == 0:
            return 0.0
        return math.inf if self.weight == 0 else self.ratio / self.weight

    @property
    def load(self) -> tuple[bool, float]:
        """The sort key of shares. Two infinite shares compare by their unweighted ratio."""
        return (True, self.ratio) if self.infinite else (False, self.weighted)

    @property
    def published(self) -> int:
        """The share for status and metrics: rounded up, or the largest integer for infinity."""
        return UNLIMITED if self.infinite else math.ceil(self.weighted)


def more_loaded(one: DominantResourceShare, other: DominantResourceShare) -> bool:
    return one.load > other.load


def share(node: QuotaNode) -> DominantResourceShare:
    """Return the share of a queue or cohort with its current usage. The share of a root is 0.

    Usage of columns that no node at or below this one declares is ignored.
    """
    if node.parent is None:
        return DominantResourceShare(weight=node.weight)
    over: dict[str, int] = {}
    borrowed = []
    for column, cell in node.cells.items():
        if cell.used > cell.subtree and cell.declared:
            borrowed.append(column)
            over[column.resource] = over.get(column.resource, 0) + cell.used - cell.subtree
    if not borrowed:
        return DominantResourceShare(weight=node.weight)
    ratio, dominant = _dominant(over, lendable(node.parent))
    return DominantResourceShare(ratio, node.weight, dominant, frozenset(borrowed))


def _dominant(over: dict[str, int], pool: dict[str, int]) -> tuple[float, str]:
    """Return the largest ratio and its resource; ties are broken by name."""
    best, dominant = 0.0, ""
    for resource in sorted(over):
        capacity = pool.get(resource, 0)
        if capacity > 0 and over[resource] * 1000 / capacity > best:
            best, dominant = over[resource] * 1000 / capacity, resource
    return best, dominant


def lendable(node: QuotaNode) -> dict[str, int]:
    """Return what a cohort could lend of each resource if nothing were used, over all flavors."""
    found = node.lendable
    if found is None:
        found = {}
        for column, cell in node.root.cells.items():
            if cell.declared:
                reach = node.cell(column).potential
                found[column.resource] = add(found.get(column.resource, 0), reach)
        node.lendable = found
    return found
