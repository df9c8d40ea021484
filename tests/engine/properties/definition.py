# SPDX-License-Identifier: Apache-2.0
"""Quota and usage of every node, computed from their definitions.

The definitions are implemented directly, by recursion over names and without increments. The
engine's incremental values must be equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from kuota.engine.amounts import Amounts, FlavorResource
from kuota.engine.model import ClusterQueue, Cohort, Quota
from kuota.engine.tree import QuotaNode, QuotaTree, quotas_of

Place = tuple[bool, str]
"""A node: whether it is a ClusterQueue, and its name."""

Row = tuple[int, int, int, int]
"""Subtree quota, local quota, usage, potential."""

Numbers = dict[Place, dict[FlavorResource, Row]]
"""What each node has in each column, where that is not nothing at all."""


class Definition:
    def __init__(
        self,
        queues: Mapping[str, ClusterQueue],
        cohorts: Mapping[str, Cohort],
        charged: Iterable[tuple[str, Amounts]],
    ) -> None:
        self._quotas: dict[Place, dict[FlavorResource, Quota]] = {}
        self._parents: dict[Place, str] = {}
        for name, queue in queues.items():
            self._quotas[True, name] = quotas_of(queue.groups)
            self._parents[True, name] = queue.cohort
        for name, cohort in cohorts.items():
            self._quotas[False, name] = quotas_of(cohort.groups)
            self._parents[False, name] = cohort.parent
        self._charged = [each for each in charged if each[0] in queues]
        self.columns = {c for table in self._quotas.values() for c in table}
        self.columns |= {c for _, usage in self._charged for c in usage}
        for method in ("sub", "local", "used", "potential"):
            setattr(self, method, cache(getattr(self, method)))

    @property
    def places(self) -> list[Place]:
        """Every node that is not in or under a loop, named ones included."""
        named = {(False, parent) for parent in self._parents.values() if parent}
        return sorted(each for each in {*self._quotas, *named} if not self._looped(each))

    def parent(self, place: Place) -> Place | None:
        name = self._parents.get(place, "")
        return (False, name) if name else None

    def quota(self, place: Place, column: FlavorResource) -> Quota:
        return self._quotas.get(place, {}).get(column, Quota(0))

    def children(self, place: Place) -> list[Place]:
        return [] if place[0] else [c for c, name in self._parents.items() if name == place[1]]

    def sub(self, place: Place, column: FlavorResource) -> int:
        lent = (self.sub(c, column) - self.local(c, column) for c in self.children(place))
        return self.quota(place, column).nominal + sum(lent)

    def local(self, place: Place, column: FlavorResource) -> int:
        limit = self.quota(place, column).lending_limit
        return 0 if limit is None else max(0, self.sub(place, column) - limit)

    def used(self, place: Place, column: FlavorResource) -> int:
        if place[0]:
            return sum(usage.get(column, 0) for name, usage in self._charged if name == place[1])
        spilled = (self.used(c, column) - self.local(c, column) for c in self.children(place))
        return sum(max(0, each) for each in spilled)

    def potential(self, place: Place, column: FlavorResource) -> int:
        parent = self.parent(place)
        if parent is None:
            return self.sub(place, column)
        reach = self.local(place, column) + self.potential(parent, column)
        limit = self.limit(place, column)
        return reach if limit is None else min(reach, limit)

    def limit(self, place: Place, column: FlavorResource) -> int | None:
        """How much may be used here at most; None where only nodes above set a limit."""
        if self.parent(place) is None:
            return self.sub(place, column)
        borrowing = self.quota(place, column).borrowing_limit
        return None if borrowing is None else self.sub(place, column) + borrowing

    def numbers(self) -> Numbers:
        return {
            place: {column: row for column in self.columns if any(row := self._row(place, column))}
            for place in self.places
        }

    def overdrawn(self, before: Definition) -> list[tuple[Place, FlavorResource]]:
        """Where usage grew past what is allowed."""
        found = []
        for place in self.places:
            for column in self.columns:
                limit, used = self.limit(place, column), self.used(place, column)
                if limit is not None and used > max(limit, before.used(place, column)):
                    found.append((place, column))
        return found

    def _row(self, place: Place, column: FlavorResource) -> Row:
        return (
            self.sub(place, column),
            self.local(place, column),
            self.used(place, column),
            self.potential(place, column),
        )

    def _looped(self, place: Place) -> bool:
        seen: set[Place] = set()
        at: Place | None = place
        while at is not None and at not in seen:
            seen.add(at)
            at = self.parent(at)
        return at is not None


def kept(tree: QuotaTree, columns: Iterable[FlavorResource]) -> Numbers:
    """The same, as the engine keeps them."""
    nodes = [*tree.queues.values(), *tree.cohorts.values()]
    return {(node.is_queue, node.name): _of(node, columns) for node in nodes if not node.cyclic}


def _of(node: QuotaNode, columns: Iterable[FlavorResource]) -> dict[FlavorResource, Row]:
    cells = {column: node.cell(column) for column in columns}
    return {
        column: row
        for column, cell in cells.items()
        if any(row := (cell.subtree, cell.local, cell.used, cell.potential))
    }
