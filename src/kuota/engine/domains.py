# SPDX-License-Identifier: Apache-2.0
"""The capacity of nodes by flavor, and the ClusterQueues that a change of it concerns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum, auto

from kuota.api.base import Key

from .index import Index
from .model import Node, PodUsage, ResourceFlavor, Topology
from .node_placement import NodePlacement, PlacementCache
from .placement import NoPlacement, Placement, UnknownNodes
from .policy import Policy
from .topology.cluster import ClusterCapacity
from .usage import Usage, charge_places


class NodeKnowledge(Enum):
    """What is known about nodes, and so whether pods can be placed.

    While nodes are AWAITED, work that needs a placement waits: some nodes may be unknown, and so
    may what runs on them. If they are IGNORED, quota alone decides.
    """

    LISTED = auto()
    AWAITED = auto()
    IGNORED = auto()


class TopologyDomains:
    """Keeps the domains of flavors with a topology. Refers to the objects of the engine's state.

    Methods that change something return the names of the ClusterQueues that it concerns.
    """

    def __init__(
        self,
        flavors: Mapping[str, ResourceFlavor],
        topologies: Mapping[str, Topology],
        by_flavor: Index[str, str],
        *,
        overlapping: bool,
    ) -> None:
        self.cluster = ClusterCapacity(overlapping=overlapping)
        self.nodes = NodeKnowledge.LISTED
        self._kept = PlacementCache()
        self._flavors = flavors
        self._topologies = topologies
        self._by_flavor = by_flavor

    def placement(self, policy: Policy) -> Placement:
        """Return what places pods."""
        match self.nodes:
            case NodeKnowledge.LISTED:
                return NodePlacement(self.cluster, policy, self._kept)
            case NodeKnowledge.AWAITED:
                return UnknownNodes()
            case NodeKnowledge.IGNORED:
                return NoPlacement()

    def rebuild(self, flavors: Iterable[str]) -> set[str]:
        """Build the domains of flavors whose topology is known, and forget those of others."""
        names = list(flavors)
        for name in names:
            flavor = self._flavors.get(name)
            topology = self._topologies.get(flavor.topology) if flavor is not None else None
            if flavor is None or topology is None or not topology.levels:
                self.cluster.drop_flavor(name)
                continue
            named = topology.name, topology.levels, flavor.labels, flavor.tolerations
            self.cluster.put_flavor(name, *named)
        return self.using(names)

    def with_topology(self, name: str) -> list[str]:
        """Return the flavors with this topology."""
        return [each.name for each in self._flavors.values() if each.topology == name]

    def using(self, flavors: Iterable[str]) -> set[str]:
        """Return the ClusterQueues that use one of the flavors."""
        return {queue for flavor in flavors for queue in self._by_flavor.of(flavor)}

    def placing(self) -> set[str]:
        """Return the ClusterQueues that use any flavor with domains."""
        return self.using(self.cluster.flavors)

    def put(self, value: Node | PodUsage) -> set[str]:
        """Add or replace a node, or a pod that no topology places."""
        if isinstance(value, Node):
            return self.using(self.cluster.put_node(value))
        return self.using(self.cluster.put_pod(value))

    def drop(self, key: Key) -> set[str]:
        """Remove a node, or a pod, which has a namespace."""
        if key.namespace:
            return self.using(self.cluster.drop_pod(key))
        return self.using(self.cluster.drop_node(key.name))

    def charge(self, usage: Usage, sign: int) -> set[str]:
        """Change the usage of nodes, which concerns all queues that use these flavors."""
        if not usage.places:
            return set()
        charge_places(self.cluster, usage, sign)
        return self.using(self.cluster.sharing(each.flavor for each in usage.places))
