# SPDX-License-Identifier: Apache-2.0
"""The topology request of a pod set in terms of the levels of a tree.

A request names a required or preferred level, or is unconstrained, and may divide the pods into
slices, in up to three nested layers. A request with slices only searches from the highest level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from kuota.api.workload import SliceTopologyConstraint, TopologyRequest

from .fit import Demand, Profile
from .placement_failure import PlacementFailure, PlacementFailureCause
from .view import Slicing


def layers(request: TopologyRequest | None) -> Sequence[SliceTopologyConstraint]:
    """Return the slice layers, the outermost one first, from either form of the request."""
    if request is None:
        return ()
    if request.podset_slice_required_topology_constraints:
        return request.podset_slice_required_topology_constraints
    if request.pod_set_slice_required_topology is None:
        return ()
    level, size = request.pod_set_slice_required_topology, request.pod_set_slice_size or 0
    return (SliceTopologyConstraint(topology=level, size=size),)


def requested_level(request: TopologyRequest | None, levels: Sequence[str]) -> str | None:
    """Return the level where the search begins, or None if the request names none."""
    if request is None:
        return None
    if request.required is not None:
        return request.required
    if request.preferred is not None:
        return request.preferred
    if layers(request):
        return levels[0]
    return levels[-1] if request.unconstrained else None


def has_levels(request: TopologyRequest | None, levels: Sequence[str]) -> bool:
    """Whether the request names a level, and the topology has all levels that it names."""
    level = requested_level(request, levels) if levels else None
    return level in levels and all(each.topology in levels for each in layers(request))


def demand(
    request: TopologyRequest | None,
    count: int,
    levels: Sequence[str],
    *,
    implied: bool = False,
    leaders: int = 0,
    mixed: bool = True,
    by_score: bool = False,
) -> Demand | PlacementFailure:
    """Return what the request demands of a topology with these levels.

    Without a request, an implied demand is unconstrained. `mixed` says whether unconstrained pods
    use the profile least free capacity (gate TASProfileMixed).
    """
    fault = next(_faults(request, levels, implied), None)
    if fault is not None:
        return fault
    sliced = layers(request)
    level = requested_level(request, levels) or levels[-1]
    preferred = request is not None and request.preferred is not None
    required = request is not None and request.required is not None
    unconstrained = implied or bool(
        request is not None
        and (request.unconstrained or (sliced and not required and not preferred))
    )
    return Demand(
        count=count,
        level=levels.index(level),
        slicing=slicing(sliced, levels),
        layers=tuple((levels.index(each.topology), each.size) for each in sliced),
        leaders=leaders,
        required=required,
        unconstrained=unconstrained,
        profile=Profile(least_free=unconstrained and mixed, by_score=by_score),
    )


def slicing(sliced: Sequence[SliceTopologyConstraint], levels: Sequence[str]) -> Slicing:
    """Return valid layers by level.

    Levels between two layers distribute groups of the lower layer's size.
    """
    if not sliced:
        return Slicing(len(levels) - 1)
    outer = levels.index(sliced[0].topology)
    inner: list[tuple[int, int]] = []
    above = outer
    for layer in sliced[1:]:
        at = levels.index(layer.topology)
        inner += ((level, layer.size) for level in range(above + 1, at + 1))
        above = at
    return Slicing(outer, sliced[0].size, tuple(inner))


def _faults(
    request: TopologyRequest | None, levels: Sequence[str], implied: bool
) -> Iterator[PlacementFailure]:
    sliced = layers(request)
    if sliced and sliced[0].size <= 0:
        yield PlacementFailure(cause=PlacementFailureCause.NO_SLICE_SIZE, level=sliced[0].topology)
    level = requested_level(request, levels)
    if level is None:
        if not implied:
            yield PlacementFailure(cause=PlacementFailureCause.NO_LEVEL_REQUESTED)
        return
    if level not in levels:
        yield PlacementFailure(cause=PlacementFailureCause.UNKNOWN_LEVEL, level=level)
    for each in sliced:
        if each.topology not in levels:
            yield PlacementFailure(
                cause=PlacementFailureCause.UNKNOWN_SLICE_LEVEL, level=each.topology
            )
    if sliced and levels.index(level) > levels.index(sliced[0].topology):
        yield PlacementFailure(
            cause=PlacementFailureCause.SLICE_ABOVE_LEVEL, level=sliced[0].topology, detail=level
        )
    yield from _layer_faults(sliced, levels)


def _layer_faults(
    sliced: Sequence[SliceTopologyConstraint], levels: Sequence[str]
) -> Iterator[PlacementFailure]:
    for outer, inner in pairwise(sliced):
        if levels.index(inner.topology) <= levels.index(outer.topology):
            yield PlacementFailure(
                cause=PlacementFailureCause.LAYER_NOT_BELOW,
                level=inner.topology,
                detail=outer.topology,
            )
        if inner.size <= 0:
            yield PlacementFailure(cause=PlacementFailureCause.NO_SLICE_SIZE, level=inner.topology)
        elif outer.size % inner.size:
            yield PlacementFailure(
                cause=PlacementFailureCause.LAYER_SIZE, level=inner.topology, detail=str(outer.size)
            )
