# SPDX-License-Identifier: Apache-2.0
"""Replaces a failed node of an existing assignment and keeps the places of all other pods.

The new place must satisfy the request together with the pods that stay. If a level is required, it
is in the same domain of that level. If the missing pods are not whole slices, it is in the domain
of the slice that they leave incomplete; with nested layers, of the innermost incomplete one.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kuota.api.workload import SliceTopologyConstraint, TopologyRequest

from .assignment import LeafAssignment, leaves, merged, stale, without
from .place import Placer, PodsToPlace
from .placement_failure import PlacementFailure, PlacementFailureCause
from .slices import layers
from .tree import Domain, TopologyTree


def replaced(
    placer: Placer, request: PodsToPlace, existing: LeafAssignment, node: str
) -> tuple[LeafAssignment, LeafAssignment] | PlacementFailure:
    """Return the assignment with the failed node replaced, and the new places alone."""
    tree, topology = placer.flavor.tree, placer.flavor.topology
    rest, missing = without(existing, node)
    gone = stale(tree, rest)
    if gone is not None:
        return PlacementFailure(
            cause=PlacementFailureCause.STALE_DOMAIN, topology=topology, detail=gone
        )
    lost = replace(request, count=missing)
    sliced = layers(request.topology)
    incomplete = bool(sliced) and sliced[0].size > 0 and missing % sliced[0].size > 0
    if incomplete:
        within = _incomplete_domain(tree, sliced, rest, missing)
        if within is not None:
            lost = replace(lost, topology=_repair(request.topology, sliced, missing))
    else:
        within = _required_domain(tree, request.topology, rest)
    found = placer.find(lost, within=within)[request.name]
    if isinstance(found, PlacementFailure):
        return found
    if not found.domains:
        return PlacementFailure(
            cause=PlacementFailureCause.NO_REPLACEMENT, topology=topology, detail=node
        )
    return merged(tree, found, rest), found


def _required_domain(
    tree: TopologyTree, request: TopologyRequest | None, rest: LeafAssignment
) -> Domain | None:
    """Return the domain of the required level with the pods that stay; None if any will do."""
    if request is None or request.required not in tree.levels or not rest.domains:
        return None
    leaf, _ = leaves(tree, rest)[0]
    return leaf.ancestor(tree.levels.index(request.required))


def _incomplete_domain(
    tree: TopologyTree,
    sliced: Sequence[SliceTopologyConstraint],
    rest: LeafAssignment,
    missing: int,
) -> Domain | None:
    """Return the first domain whose slice the missing pods complete, or None."""
    broken = [each for each in sliced if each.size > 0 and missing % each.size]
    layer = broken[-1]
    if layer.topology not in tree.levels:
        return None
    level = tree.levels.index(layer.topology)
    counts: dict[Domain, int] = {}
    for leaf, count in leaves(tree, rest):
        domain = leaf.ancestor(level)
        counts[domain] = counts.get(domain, 0) + count
    whole = (domain for domain, count in counts.items() if not (count + missing) % layer.size)
    return min(whole, key=lambda domain: domain.values, default=None)


def _repair(
    request: TopologyRequest | None, sliced: Sequence[SliceTopologyConstraint], missing: int
) -> TopologyRequest:
    """Return the request for the missing pods: only the innermost layer of whole slices remains."""
    whole = [each for each in sliced if each.size > 0 and not missing % each.size]
    layer = whole[-1] if whole else None
    return replace(
        request or TopologyRequest(),
        podset_slice_required_topology_constraints=None,
        pod_set_slice_required_topology=layer.topology if layer else None,
        pod_set_slice_size=layer.size if layer else 1,
    )
