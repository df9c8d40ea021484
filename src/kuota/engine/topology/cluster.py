# SPDX-License-Identifier: Apache-2.0
"""The nodes, the pods on them and the placed workloads, by flavor.

Nodes belong to each flavor whose labels and levels they have. Where leaves are nodes, the usage of
a workload counts for all flavors that share the node (gate TASHandleOverlappingFlavors). Usage is
kept even while its node is gone, so that it counts again when the node returns.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from kuota.api.base import Key
from kuota.api.core import Toleration
from kuota.engine.model import Node, PodUsage

from .assignment import LeafAssignment
from .capacity import PODS, CapacityVectors, Vector, limiting, summed
from .flavor import TopologyFlavor
from .tree import DomainId

K = TypeVar("K", bound=Hashable)


class ClusterCapacity:
    """The capacity of all nodes. `overlapping` lets flavors see each other's usage of a node."""

    def __init__(self, *, overlapping: bool = True) -> None:
        self.flavors: dict[str, TopologyFlavor] = {}
        self.nodes: dict[str, Node] = {}
        self._overlapping = overlapping
        self._vectors = CapacityVectors()
        self._pods: dict[Key, tuple[str, Vector]] = {}
        self._pods_on: dict[str, Vector] = {}
        self._used: dict[str, dict[DomainId, Vector]] = {}

    def put_flavor(
        self,
        name: str,
        topology: str,
        levels: Sequence[str],
        labels: Mapping[str, str],
        tolerations: Sequence[Toleration] = (),
    ) -> None:
        """Add or replace a flavor. Other levels or labels make a new tree; usage is kept."""
        known = self.flavors.get(name)
        if known is not None and known.tree.selects(levels, labels):
            known.topology, known.tolerations = topology, tuple(tolerations)
            return
        self.drop_flavor(name)
        self.flavors[name] = flavor = TopologyFlavor(
            topology, levels, labels, tolerations, self._vectors
        )
        for node in self.nodes.values():
            flavor.tree.put(node, self._capacity(node), partial(self._used_by, name))
        self._show_usage(name, flavor)

    def drop_flavor(self, name: str) -> None:
        flavor = self.flavors.pop(name, None)
        if flavor is not None:
            for node in self.nodes:
                flavor.tree.drop(node)
            self._show_usage(name, flavor)

    def _show_usage(self, name: str, flavor: TopologyFlavor) -> None:
        """Update the flavors that see the usage of a flavor which was added or removed."""
        if not (self._overlapping and flavor.tree.by_host):
            return
        for other, each in self.flavors.items():
            if other != name and each.tree.by_host:
                for id in self._used.get(name, ()):
                    self._use(other, id)

    def put_node(self, node: Node) -> set[str]:
        """Add or replace a node. Return the flavors whose domains changed."""
        if self.nodes.get(node.name) == node:
            return set()
        before = self._flavors_with(node.name)
        self.nodes[node.name] = node
        self._renew(node.name)
        return before | self._flavors_with(node.name)

    def drop_node(self, name: str) -> set[str]:
        """Remove a node. Return the flavors whose domains changed."""
        before = self._flavors_with(name)
        self.nodes.pop(name, None)
        for flavor in before:
            self.flavors[flavor].tree.drop(name)
        return before

    def _flavors_with(self, node: str) -> set[str]:
        found = self.flavors.items()
        return {name for name, flavor in found if flavor.tree.leaf_of(node) is not None}

    def put_pod(self, pod: PodUsage) -> set[str]:
        """Add or replace an unplaced pod. Return the flavors whose domains changed."""
        amounts = {**pod.requests, PODS: pod.requests.get(PODS, 0) + 1}
        vector = self._vectors.vector(amounts)
        before = self._pods.get(pod.key)
        if before == (pod.node, vector):
            return set()
        changed = self.drop_pod(pod.key)
        self._pods[pod.key] = (pod.node, vector)
        self._add_pod(pod.node, vector, 1)
        return changed | self._flavors_with(pod.node)

    def drop_pod(self, key: Key) -> set[str]:
        """Remove a pod. Return the flavors whose domains changed."""
        node, vector = self._pods.pop(key, ("", ()))
        if node:
            self._add_pod(node, vector, -1)
        return self._flavors_with(node)

    def charge(
        self, flavor: str, assignment: LeafAssignment, requests: Mapping[str, int], sign: int = 1
    ) -> None:
        """Add the usage of placed pods with these requests each; with `sign` -1, remove it."""
        one = self._vectors.vector({**requests, PODS: requests.get(PODS, 0) + 1})
        own = self._used.setdefault(flavor, {})
        sharing = self._sharing(flavor)
        for domain in assignment.domains:
            id = tuple(domain.values)
            _add(own, id, one, sign * domain.count)
            for name in sharing:
                self._use(name, id)

    def has_room(self, flavor: str, usage: Mapping[DomainId, Mapping[str, int]]) -> bool:
        """Whether the leaves of a flavor exist and have this much free capacity."""
        known = self.flavors.get(flavor)
        if known is None:
            return False
        for id, amounts in usage.items():
            leaf = known.tree.find(id)
            if leaf is None:
                return False
            free = self._vectors.amounts[leaf.free]
            if limiting(free, self._vectors.sparse(amounts)) is not None:
                return False
        return True

    def sharing(self, flavors: Iterable[str]) -> set[str]:
        """Return the known flavors that see the usage of these flavors."""
        return {name for each in flavors for name in self._sharing(each)}

    def _sharing(self, flavor: str) -> list[str]:
        """Return the known flavors, this one included, that see the flavor's usage."""
        known = self.flavors.get(flavor)
        if known is None:
            return []
        if not (self._overlapping and known.tree.by_host):
            return [flavor]
        return [name for name, each in self.flavors.items() if each.tree.by_host]

    def _use(self, flavor: str, id: DomainId) -> None:
        """Update the usage of a leaf, if it exists."""
        tree = self.flavors[flavor].tree
        leaf = tree.find(id)
        if leaf is not None:
            tree.use(leaf, self._used_by(flavor, id))

    def _used_by(self, flavor: str, id: DomainId) -> Vector:
        """Return the usage of a leaf that counts for a flavor."""
        total: Vector = ()
        for name in self._sharing(flavor):
            total = summed(total, self._used.get(name, {}).get(id, ()))
        return total

    def _add_pod(self, node: str, vector: Vector, sign: int) -> None:
        _add(self._pods_on, node, vector, sign)
        if node in self.nodes:
            self._renew(node)

    def _renew(self, name: str) -> None:
        node = self.nodes[name]
        capacity = self._capacity(node)
        for each, flavor in self.flavors.items():
            flavor.tree.put(node, capacity, partial(self._used_by, each))

    def _capacity(self, node: Node) -> Vector:
        own = self._vectors.vector(node.allocatable)
        return summed(own, self._pods_on.get(node.name, ()), -1)


def _add(total: dict[K, Vector], key: K, vector: Vector, times: int) -> None:
    """Add a vector to a total, `times` times. A total of zero is removed."""
    value = summed(total.get(key, ()), vector, times)
    if value:
        total[key] = value
    else:
        total.pop(key, None)
