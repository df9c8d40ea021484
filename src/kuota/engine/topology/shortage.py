# SPDX-License-Identifier: Apache-2.0
"""Explains why pods do not fit: how many do, and what excludes the other nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from .capacity import Vector, limiting
from .fit import Demand, InsufficientCapacity
from .nodes import NodeExclusion
from .placement_failure import (
    OTHER_DOMAIN,
    RESOURCE,
    LayerFit,
    PlacementFailure,
    PlacementFailureCause,
)
from .tree import Domain, Leaf, TopologyTree
from .view import Capacities, CapacityView, candidates


def shortage(
    tree: TopologyTree,
    view: CapacityView,
    capacities: Capacities,
    demand: Demand,
    found: InsufficientCapacity,
    left: Callable[[Leaf], Vector],
    within: Domain | None = None,
) -> PlacementFailure:
    """Return why the demand is not met. `left` returns the capacity that a leaf has left."""
    level = tree.levels[found.level]
    if found.slices is None:
        return PlacementFailure(cause=PlacementFailureCause.NO_DOMAINS, level=level)
    return PlacementFailure(
        cause=PlacementFailureCause.NOT_ENOUGH,
        level=level,
        fit=found.slices,
        wanted=demand.slices,
        sliced=demand.slicing.size > 1,
        required=demand.required,
        leader=bool(demand.leaders),
        layers=_layers(tree, capacities, demand, found.level) if demand.slicing.inner else (),
        nodes=len(tree.leaves),
        excluded=_excluded(tree, view, left, within),
    )


def _layers(
    tree: TopologyTree, capacities: Capacities, demand: Demand, level: int
) -> tuple[LayerFit, ...]:
    """Return how many slices of each layer fit the best domain of the level."""
    best = max(candidates(tree, capacities, level), key=lambda each: each.fit.slices).domain
    return tuple(
        LayerFit(
            level=tree.levels[at],
            fit=sum(each.fit.pods // size for each in candidates(tree, capacities, at, best)),
            wanted=demand.count // size,
        )
        for at, size in demand.layers
    )


def _excluded(
    tree: TopologyTree, view: CapacityView, left: Callable[[Leaf], Vector], within: Domain | None
) -> dict[NodeExclusion, int]:
    reasons: Counter[NodeExclusion] = Counter(view.nodes.excluded.values())
    for leaf in tree.leaves.values():
        if leaf in view.nodes.excluded:
            continue
        if within is not None and not leaf.within(within):
            reasons[NodeExclusion(OTHER_DOMAIN)] += 1
            continue
        column = limiting(left(leaf), view.kind.requests)
        if column is not None:
            reasons[NodeExclusion(RESOURCE, tree.vectors.resource(column))] += 1
    return dict(reasons)
