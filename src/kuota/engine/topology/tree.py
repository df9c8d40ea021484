# SPDX-License-Identifier: Apache-2.0
"""The tree of topology domains of one flavor, kept up to date node by node.

A leaf is a node if the lowest level is the hostname, and otherwise the nodes with the same values
for all levels. Children are sorted by value, so that a walk through the tree yields domains in
the order of their values, which breaks all ties of a placement.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kuota.api.topology_codec import by_hostname
from kuota.engine.model import Node

from .capacity import CapacityVectors, Vector, summed

DomainId = tuple[str, ...]
"""The values of a leaf as stored in assignments: all levels, or the hostname alone."""


class Domain:
    """A domain with its `values` from the highest level down to its own one.

    `changed` is the tree's time of the last change of a leaf in the domain.
    """

    __slots__ = ("changed", "children", "level", "parent", "values")

    def __init__(self, values: DomainId, parent: Domain | None) -> None:
        self.values = values
        self.parent = parent
        self.level = len(values) - 1
        self.children: list[Domain] = []
        self.changed = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {','.join(self.values)}>"

    @property
    def name(self) -> str:
        return self.values[-1] if self.values else ""

    def ancestor(self, level: int) -> Domain:
        """Return the domain of this level that contains this one."""
        found = self
        while found.level > level and found.parent is not None:
            found = found.parent
        return found

    def within(self, other: Domain) -> bool:
        """Whether this is the other domain or one that it contains."""
        return self.values[: len(other.values)] == other.values

    def child(self, name: str) -> Domain | None:
        at = bisect_left(self.children, name, key=_name)
        found = self.children[at] if at < len(self.children) else None
        return found if found is not None and found.name == name else None

    def add(self, child: Domain) -> None:
        self.children.insert(bisect_left(self.children, child.name, key=_name), child)

    def remove(self, child: Domain) -> None:
        del self.children[bisect_left(self.children, child.name, key=_name)]


def _name(domain: Domain) -> str:
    return domain.values[-1]


class Leaf(Domain):
    """A domain of the lowest level.

    `capacity` is what its nodes can allocate, less the pods that the topology does not manage.
    `used` is the usage of placed workloads. `empty` and `free` are the numbers of the vectors
    `capacity` and `capacity - used`.
    """

    __slots__ = ("capacity", "empty", "free", "id", "nodes", "used")

    def __init__(self, id: DomainId, values: DomainId, parent: Domain) -> None:
        super().__init__(values, parent)
        self.id = id
        self.nodes: dict[str, tuple[Node, Vector]] = {}
        self.capacity: Vector = ()
        self.used: Vector = ()
        self.empty = -1
        self.free = -1

    @property
    def node(self) -> Node:
        """The node whose labels and taints count. Only a hostname label that is not unique makes
        it one of several; the first by name is chosen."""
        return self.nodes[min(self.nodes)][0]


class TreeObserver(Protocol):
    """Is told about leaves that are new or whose nodes changed, and about removed domains."""

    def changed(self, leaf: Leaf) -> None: ...

    def removed(self, domain: Domain) -> None: ...


class TopologyTree:
    """The domains of the nodes that have the given labels and a value for every level.

    `time` increases with each change, and `capacity_time` with each change of nodes.
    """

    def __init__(
        self, levels: Sequence[str], labels: Mapping[str, str], vectors: CapacityVectors
    ) -> None:
        self.levels = tuple(levels)
        self.labels = dict(labels)
        self.vectors = vectors
        self.root = Domain((), None)
        self.leaves: dict[DomainId, Leaf] = {}
        self.time = 0
        self.capacity_time = 0
        self.observers: list[TreeObserver] = []
        self._leaf_by_node: dict[str, Leaf] = {}

    def selects(self, levels: Sequence[str], labels: Mapping[str, str]) -> bool:
        """Whether the tree is the one for these levels and labels of nodes."""
        return self.levels == tuple(levels) and self.labels == dict(labels)

    @property
    def by_host(self) -> bool:
        """Whether each leaf is a node, so that selectors and taints of nodes apply."""
        return by_hostname(self.levels)

    def accepts(self, node: Node) -> bool:
        """Whether the node belongs to the tree: usable, with the flavor's labels and all levels."""
        have = node.labels
        return (
            node.usable
            and all(have.get(key) == value for key, value in self.labels.items())
            and all(level in have for level in self.levels)
        )

    def leaf_of(self, node: str) -> Leaf | None:
        return self._leaf_by_node.get(node)

    def find(self, id: Sequence[str]) -> Leaf | None:
        """Return the leaf with these stored values, or None if it has no nodes."""
        return self.leaves.get(tuple(id))

    def at(self, level: int) -> list[Domain]:
        """Return the domains of a level in the order of their values."""
        found = self.root.children
        for _ in range(level):
            found = [child for domain in found for child in domain.children]
        return found

    def put(self, node: Node, capacity: Vector, used: Callable[[DomainId], Vector]) -> None:
        """Add or replace a node. `used` returns the usage of a leaf, for a leaf that is new."""
        before = self._leaf_by_node.get(node.name)
        if not self.accepts(node):
            if before is not None:
                self._remove_node(before, node.name)
            return
        values = tuple(node.labels[level] for level in self.levels)
        id = values[-1:] if self.by_host else values
        if before is not None and before.id != id:
            self._remove_node(before, node.name)
        leaf = self.leaves.get(id) or self._add_leaf(id, values, used(id))
        old = leaf.nodes.get(node.name)
        leaf.nodes[node.name] = (node, capacity)
        self._leaf_by_node[node.name] = leaf
        total = summed(leaf.capacity, old[1], -1) if old else leaf.capacity
        self._resize(leaf, summed(total, capacity), leaf.used)
        self._relocate(leaf)
        self.capacity_time = self.time

    def drop(self, node: str) -> None:
        """Remove a node. A domain without nodes disappears."""
        leaf = self._leaf_by_node.get(node)
        if leaf is not None:
            self._remove_node(leaf, node)

    def use(self, leaf: Leaf, used: Vector) -> None:
        """Set the usage of placed workloads on a leaf."""
        self._resize(leaf, leaf.capacity, used)

    def _add_leaf(self, id: DomainId, values: DomainId, used: Vector) -> Leaf:
        parent = self._parent(values)
        self.leaves[id] = leaf = Leaf(id, values, parent)
        leaf.used = used
        parent.add(leaf)
        return leaf

    def _parent(self, values: DomainId) -> Domain:
        parent = self.root
        for depth in range(1, len(values)):
            child = parent.child(values[depth - 1])
            if child is None:
                child = Domain(values[:depth], parent)
                parent.add(child)
            parent = child
        return parent

    def _remove_node(self, leaf: Leaf, node: str) -> None:
        _, capacity = leaf.nodes.pop(node)
        del self._leaf_by_node[node]
        self.capacity_time = self.time + 1
        if leaf.nodes:
            self._resize(leaf, summed(leaf.capacity, capacity, -1), leaf.used)
            self._relocate(leaf)
            return
        self._mark_changed(leaf)
        del self.leaves[leaf.id]
        self.vectors.release(leaf.empty)
        self.vectors.release(leaf.free)
        self._prune(leaf)

    def _prune(self, domain: Domain) -> None:
        """Remove a domain without children, and its ancestors that lose their last child."""
        while domain.parent is not None and not domain.children:
            domain.parent.remove(domain)
            for observer in self.observers:
                observer.removed(domain)
            domain = domain.parent

    def _relocate(self, leaf: Leaf) -> None:
        """Move the leaf to where the labels of its node say, and report the change."""
        values = tuple(leaf.node.labels[level] for level in self.levels)
        if values != leaf.values:
            self._mark_changed(leaf)
            before, parent = leaf.ancestor(leaf.level - 1), self._parent(values)
            before.remove(leaf)
            leaf.values, leaf.parent = values, parent
            parent.add(leaf)
            self._prune(before)
            self._mark_changed(leaf)
        for observer in self.observers:
            observer.changed(leaf)

    def _resize(self, leaf: Leaf, capacity: Vector, used: Vector) -> None:
        """Set the amounts of a leaf. New numbers are acquired before old ones are released."""
        before = (leaf.empty, leaf.free)
        leaf.capacity, leaf.used = capacity, used
        leaf.empty = self.vectors.acquire(capacity)
        leaf.free = self.vectors.acquire(summed(capacity, used, -1))
        for number in before:
            if number >= 0:
                self.vectors.release(number)
        self._mark_changed(leaf)

    def _mark_changed(self, leaf: Leaf) -> None:
        self.time += 1
        domain: Domain | None = leaf
        while domain is not None:
            domain.changed = self.time
            domain = domain.parent
