# SPDX-License-Identifier: Apache-2.0
"""How many pods of one kind fit each domain of a tree: the first phase of a placement.

Counts are added up from the leaves. In a domain at the slice level, only whole slices count; below
it, children with an inner slice size contribute only multiples of that size. If a leader is placed
beside the pods, a domain loses as many pods as the child that loses the fewest.

A `CapacityView` is kept for each kind of pod and recomputes only domains that changed.
`OverlaidCapacities` add what holds for one placement only, such as usage that is assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol, cast

import msgspec

from .capacity import PerVector, PodCount, PodRequests, Vector, pod_count
from .nodes import NodeFilter
from .tree import Domain, Leaf, TopologyTree


class Slicing(msgspec.Struct, frozen=True, gc=False):
    """Groups of `size` pods that must stay within one domain of `level`.

    `inner` maps lower levels to the sizes of nested groups. Without slices, the level is the lowest
    one and the size is 1.
    """

    level: int
    size: int = 1
    inner: tuple[tuple[int, int], ...] = ()

    def unit(self, level: int) -> int:
        """Return the number of pods that are distributed together to domains of a level below."""
        for at, size in self.inner:
            if at == level:
                return size
        return 1


class Fit(msgspec.Struct, frozen=True, gc=False):
    """How many pods and slices fit a domain, alone and beside the leader.

    `leader` is 1 if the leader fits. `score` is the weight of preferred node affinity.
    """

    pods: int = 0
    slices: int = 0
    pods_with_leader: int = 0
    slices_with_leader: int = 0
    leader: int = 0
    score: int = 0


NO_FIT = Fit()


class DomainFit(msgspec.Struct, frozen=True, gc=False):
    """A domain and what fits it.

    There may be one per node, so that the garbage collector should not track them.
    """

    domain: Domain
    fit: Fit


class Capacities(Protocol):
    """What fits the domains of a tree."""

    def of(self, domain: Domain) -> Fit: ...

    def children(self, domain: Domain) -> list[Fit]:
        """Return what fits each child, in the order of the children."""
        ...


class CapacityView:
    """What fits the domains of a tree for one kind of pod. `refresh` precedes each use.

    With `empty`, the usage of placed workloads is ignored.
    """

    def __init__(
        self,
        tree: TopologyTree,
        kind: PodRequests,
        nodes: NodeFilter,
        slicing: Slicing,
        *,
        empty: bool,
    ) -> None:
        self.nodes = nodes
        self.slicing = slicing
        self.kind = kind
        self._empty = empty
        self._vectors = tree.vectors
        self._lowest = len(tree.levels) - 1
        self._by_vector = PerVector(tree.vectors, self.leaf_fit)
        self._known: dict[Domain, tuple[int, Fit]] = {}

    def refresh(self) -> None:
        """Take account of new capacities."""
        self._by_vector.refresh()

    def leaf_fit(self, capacity: Vector) -> Fit:
        """Return what fits a leaf with this capacity."""
        size = self.slicing.size if self.slicing.level == self._lowest else 0
        return as_fit(pod_count(capacity, self.kind), size)

    def of(self, domain: Domain) -> Fit:
        if isinstance(domain, Leaf):
            return self._leaf(domain)
        known = self._known.get(domain)
        if known is not None and known[0] == domain.changed:
            return known[1]
        fit = self.combined(domain.level, self.children(domain))
        self._known[domain] = (domain.changed, fit)
        return fit

    def children(self, domain: Domain) -> list[Fit]:
        if domain.level + 1 < self._lowest:
            return [self.of(child) for child in domain.children]
        leaves = cast("list[Leaf]", domain.children)
        if self.nodes.excluded or self.nodes.scores:
            return [self._leaf(leaf) for leaf in leaves]
        values = self._by_vector.values
        if self._empty:
            return [values[leaf.empty] for leaf in leaves]
        return [values[leaf.free] for leaf in leaves]

    def _leaf(self, leaf: Leaf) -> Fit:
        if leaf in self.nodes.excluded:
            return NO_FIT
        fit = self._by_vector.values[leaf.empty if self._empty else leaf.free]
        score = self.nodes.scores.get(leaf)
        return msgspec.structs.replace(fit, score=score) if score else fit

    def combined(self, level: int, fits: list[Fit]) -> Fit:
        """Return what fits a domain of a level, given what fits its children."""
        size = self.slicing.size if level == self.slicing.level else 0
        unit = self.slicing.unit(level + 1)
        if self.kind.leader is None:
            return _without_leader(fits, size, unit)
        return _with_leader(fits, size, unit)

    # The interface of a tree's observer.

    def changed(self, leaf: Leaf) -> None:
        """Nothing to do: the tree marks the domains."""

    def removed(self, domain: Domain) -> None:
        self._known.pop(domain, None)

    def capacity(self, leaf: Leaf) -> Vector:
        """Return the capacity that the pods may use on a leaf."""
        return leaf.capacity if self._empty else self._vectors.amounts[leaf.free]


def as_fit(count: PodCount, size: int) -> Fit:
    """Return what fits a leaf. `size` is the slice size if the leaf is at the slice level, or 0."""
    pods, with_leader = count.pods, count.with_leader
    slices = (pods // size, with_leader // size) if size else (0, 0)
    return Fit(pods, slices[0], with_leader, slices[1], count.leader)


def _without_leader(fits: list[Fit], size: int, unit: int) -> Fit:
    if unit == 1:
        pods = sum([fit.pods for fit in fits])
    else:
        pods = sum([fit.pods - fit.pods % unit for fit in fits])
    slices = pods // size if size else sum([fit.slices for fit in fits])
    score = sum([fit.score for fit in fits])
    return Fit(pods, slices, pods, slices, 0, score)


def _with_leader(fits: list[Fit], size: int, unit: int) -> Fit:
    pods = sum([fit.pods - fit.pods % unit for fit in fits])
    slices = sum([fit.slices for fit in fits])
    pods_with_leader = slices_with_leader = 0
    hosts = [fit for fit in fits if fit.leader]
    if hosts:
        losses = [
            fit.pods - fit.pods % unit - fit.pods_with_leader + fit.pods_with_leader % unit
            for fit in hosts
        ]
        pods_with_leader = pods - min(losses)
        slices_with_leader = slices - min([fit.slices - fit.slices_with_leader for fit in hosts])
    if size:
        slices, slices_with_leader = pods // size, pods_with_leader // size
    score = sum([fit.score for fit in fits])
    return Fit(pods, slices, pods_with_leader, slices_with_leader, 1 if hosts else 0, score)


class OverlaidCapacities:
    """The capacities of a view, except for some domains and those that contain them."""

    def __init__(
        self, base: Capacities, view: CapacityView, replaced: Mapping[Domain, Fit]
    ) -> None:
        self._base = base
        self._replaced = dict(replaced)
        self._parents: set[Domain] = set()
        affected = {domain.parent for domain in replaced if domain.parent is not None}
        self._parents |= affected
        while affected:
            level = max(domain.level for domain in affected)
            lowest = {domain for domain in affected if domain.level == level}
            affected -= lowest
            for domain in lowest:
                if domain not in replaced:
                    self._replaced[domain] = view.combined(level, self.children(domain))
                if domain.parent is not None:
                    affected.add(domain.parent)
                    self._parents.add(domain.parent)

    def of(self, domain: Domain) -> Fit:
        return self._replaced.get(domain) or self._base.of(domain)

    def children(self, domain: Domain) -> list[Fit]:
        if domain not in self._parents:
            return self._base.children(domain)
        return [self.of(child) for child in domain.children]


class ConfinedCapacities:
    """The capacities with room in one domain only."""

    def __init__(self, base: Capacities, view: CapacityView, within: Domain) -> None:
        self._base = base
        self._within = within
        self._path = {within: base.of(within)}
        domain = within.parent
        while domain is not None:
            self._path[domain] = view.combined(domain.level, self.children(domain))
            domain = domain.parent

    def of(self, domain: Domain) -> Fit:
        if domain.within(self._within):
            return self._base.of(domain)
        return self._path.get(domain, NO_FIT)

    def children(self, domain: Domain) -> list[Fit]:
        if domain.within(self._within):
            return self._base.children(domain)
        return [self.of(child) for child in domain.children]


def candidates(
    tree: TopologyTree, capacities: Capacities, level: int, within: Domain | None = None
) -> list[DomainFit]:
    """Return the domains of a level, in the order of their values, and what fits them.

    With `within`, only domains that contain this one or are contained in it.
    """
    if within is not None and level <= within.level:
        found = within.ancestor(level)
        return [DomainFit(found, capacities.of(found))]
    if within is None:
        parents: Iterable[Domain] = tree.at(level - 1) if level else (tree.root,)
    else:
        parents = [within]
        for _ in range(level - within.level - 1):
            parents = [child for domain in parents for child in domain.children]
    return below(capacities, parents)


def below(capacities: Capacities, parents: Iterable[Domain]) -> list[DomainFit]:
    """Return the children of all parents, and what fits them."""
    found: list[DomainFit] = []
    for parent in parents:
        found += map(DomainFit, parent.children, capacities.children(parent))
    return found
