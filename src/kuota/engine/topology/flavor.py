# SPDX-License-Identifier: Apache-2.0
"""A flavor with a topology: its tree, and the views that placements on it share.

Views are kept for the pods that were placed last, because workloads of one kind come in numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import msgspec

from kuota.api.core import Toleration
from kuota.engine.amounts import Requests

from .capacity import PODS, CapacityVectors, PodRequests, Vector, changed
from .nodes import NodeConstraints, NodeFilter
from .tree import Domain, DomainId, Leaf, TopologyTree, TreeObserver
from .view import Capacities, CapacityView, Fit, OverlaidCapacities, Slicing

_KEPT = 64
"""How many views and how many filters of one flavor are kept."""

Kept = TypeVar("Kept", bound=TreeObserver)


class TopologyFlavor:
    """The domains of a flavor and what fits them. `topology` is the name of its Topology."""

    def __init__(
        self,
        topology: str,
        levels: Sequence[str],
        labels: Mapping[str, str],
        tolerations: Sequence[Toleration],
        vectors: CapacityVectors,
    ) -> None:
        self.topology = topology
        self.tolerations = tuple(tolerations)
        self.tree = TopologyTree(levels, labels, vectors)
        self._filters: dict[Hashable, NodeFilter] = {}
        self._views: dict[Hashable, CapacityView] = {}

    def pod_requests(self, requests: Requests, leader: Requests | None = None) -> PodRequests:
        """Return the requests of pods by column, including one unit of `pods` each."""
        vectors = self.tree.vectors
        own = vectors.sparse(_with_pod(requests))
        return PodRequests(own, None if leader is None else vectors.sparse(_with_pod(leader)))

    def view(
        self, kind: PodRequests, wanted: NodeConstraints, slicing: Slicing, *, empty: bool = False
    ) -> CapacityView:
        """Return an up-to-date view for pods of a kind with constraints on nodes."""
        constraints = msgspec.json.encode(wanted) if self.tree.by_host else b""
        nodes = self._filters.pop(constraints, None) or NodeFilter(self.tree, wanted)
        self._keep(self._filters, constraints, nodes)
        key = (kind, constraints, slicing, empty)
        view = self._views.pop(key, None)
        if view is None or view.nodes is not nodes:
            view = CapacityView(self.tree, kind, nodes, slicing, empty=empty)
        self._keep(self._views, key, view)
        view.refresh()
        return view

    def _keep(self, kept: dict[Hashable, Kept], key: Hashable, value: Kept) -> None:
        """Store a value as the one used last, and forget the one that was not used the longest."""
        kept[key] = value
        if len(kept) > _KEPT:
            del kept[next(iter(kept))]
        self.tree.observers = [*self._filters.values(), *self._views.values()]

    def left(self, view: CapacityView, leaf: Leaf, usage: Mapping[DomainId, Requests]) -> Vector:
        """Return the capacity of a leaf that would be left if this usage were added."""
        amounts = usage.get(leaf.id)
        capacity = view.capacity(leaf)
        return changed(capacity, self.tree.vectors.sparse(amounts), -1) if amounts else capacity

    def assuming(self, view: CapacityView, usage: Mapping[DomainId, Requests]) -> Capacities:
        """Return the capacities of a view if this usage were added."""
        replaced: dict[Domain, Fit] = {}
        for id in usage:
            leaf = self.tree.find(id)
            if leaf is None or leaf in view.nodes.excluded:
                continue
            left = self.left(view, leaf, usage)
            score = view.nodes.scores.get(leaf, 0)
            replaced[leaf] = msgspec.structs.replace(view.leaf_fit(left), score=score)
        return OverlaidCapacities(view, view, replaced) if replaced else view


def _with_pod(requests: Requests) -> Requests:
    return {**requests, PODS: requests.get(PODS, 0) + 1}
