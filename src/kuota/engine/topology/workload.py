# SPDX-License-Identifier: Apache-2.0
"""Places all pod sets of one workload on the nodes of one flavor.

Pod sets are placed in order, and the usage of earlier ones is assumed for later ones. Two pod sets
of one group are placed together: the smaller one is the leader. Only the constraints of the larger
one, the workers, count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kuota.api.gates import Gate

from .assignment import LeafAssignment
from .elastic import resized
from .place import Outcome, Placer, PodsToPlace
from .placement_failure import PlacementFailure
from .replacement import replaced


def place(placer: Placer, requests: Sequence[PodsToPlace]) -> Outcome:
    """Return the place of each pod set. After a failure, later pod sets are not placed."""
    outcome: Outcome = {}
    groups = _groups(requests)
    for index, group in enumerate(groups):
        workers, leader = _roles(group)
        kept = None
        if placer.on(Gate.ElasticJobsViaWorkloadSlicesWithTAS):
            kept = resized(placer, workers, leader)
        found = kept if kept is not None else placer.find(workers, leader)
        outcome |= found
        if any(isinstance(each, PlacementFailure) for each in found.values()):
            break
        if kept is None and (placer.shared or index + 1 < len(groups)):
            for request in group:
                placer.assume(_assigned(found, request), request)
    return outcome


def replace_node(
    placer: Placer,
    requests: Sequence[PodsToPlace],
    existing: Mapping[str, LeafAssignment],
    node: str,
    *,
    movable: bool = True,
) -> Outcome:
    """Replace a failed node in the existing assignments of the pod sets.

    A workload that is not `movable`, because it consists of one plain Pod, keeps its assignment.
    """
    outcome: Outcome = {}
    for request in requests:
        assigned = existing.get(request.name)
        if assigned is None:
            continue
        if not movable:
            outcome[request.name] = assigned
            continue
        found = replaced(placer, request, assigned, node)
        if isinstance(found, PlacementFailure):
            outcome[request.name] = found
            break
        outcome[request.name], added = found
        placer.assume(added, request)
    return outcome


def _groups(requests: Sequence[PodsToPlace]) -> list[list[PodsToPlace]]:
    """Return the pod sets that are placed together, in the order of their first members."""
    groups: dict[object, list[PodsToPlace]] = {}
    for index, request in enumerate(requests):
        groups.setdefault(request.group or index, []).append(request)
    return list(groups.values())


def _roles(group: list[PodsToPlace]) -> tuple[PodsToPlace, PodsToPlace | None]:
    """Return workers and leader: the larger pod set has the workers, the first one if equal."""
    if len(group) == 1:
        return group[0], None
    first, second = group[:2]
    return (second, first) if second.count > first.count else (first, second)


def _assigned(outcome: Outcome, request: PodsToPlace) -> LeafAssignment:
    found = outcome.get(request.name)
    return found if isinstance(found, LeafAssignment) else LeafAssignment()
