# SPDX-License-Identifier: Apache-2.0
"""Which domain of a topology assignment each gated pod is sent to.

If every pod of a pod set has a valid and unique rank, the pod of rank r gets the r-th place of the
assignment, so that neighbouring ranks are close to each other. Otherwise the gaps that running pods
leave are filled in the order of the domains.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from kuota.api.match import integer
from kuota.api.podset import TOPOLOGY_GATE
from kuota.api.topology_codec import AssignedDomain, expand, node_of
from kuota.api.workload import PodSetAssignment, TopologyAssignment, TopologyRequest, Workload
from kuota.engine.model import Struct

from .workload_pods import INDEX_OFFSET, WorkloadPod

Place = tuple[str, ...]
"""The values of a domain, one per level of the assignment."""
Placed = tuple[WorkloadPod, Mapping[str, str]]
"""A pod, and the node labels of its domain."""


class OffsetInvalid(ValueError):
    """The annotation with the first index of a pod set is not an integer."""


def assigned(obj: Workload) -> bool:
    """Whether some pod set has a topology assignment."""
    return any(each.topology_assignment is not None for each in obj.assignments)


def places(obj: Workload, pods: Sequence[WorkloadPod]) -> Iterator[Placed]:
    """Yield the gated pods of an admitted Workload that have a place, with their node labels.

    `pods` are those that have not ended. No domain gets more pods than it was assigned. Places on
    unhealthy nodes are left free until they are replaced. Raises OffsetInvalid.
    """
    unhealthy = {each.name for each in obj.status.unhealthy_nodes or ()}
    indexes = _first_indexes(obj)
    for each in obj.assignments:
        topology = each.topology_assignment
        members = [pod for pod in pods if pod.pod_set == each.name]
        if topology is None or not any(pod.gated(TOPOLOGY_GATE) for pod in members):
            continue
        levels = tuple(topology.levels or ())
        request, size = _request(obj, each.name), _count(obj, each)
        ranks = _Ranks(request=request, size=size, first=indexes[each.name])
        for pod, place in _chosen(topology, levels, members, ranks):
            if node_of(levels, place) not in unhealthy:
                yield pod, dict(zip(levels, place, strict=False))


class _Ranks(Struct):
    """How ranks are read: the labels, the size of the pod set, and the index of its first pod."""

    request: TopologyRequest | None
    size: int
    first: int


def _chosen(
    topology: TopologyAssignment,
    levels: Place,
    members: Sequence[WorkloadPod],
    ranks: _Ranks,
) -> Iterator[tuple[WorkloadPod, Place]]:
    domains = [each for each in expand(topology) if each.count > 0]
    ranked = _by_rank(domains, levels, members, ranks)
    if ranked is None:
        ranked = _by_gaps(domains, levels, members)
    return ((pod, place) for pod, place in ranked if pod.gated(TOPOLOGY_GATE))


def _by_gaps(
    domains: Sequence[AssignedDomain], levels: Place, members: Sequence[WorkloadPod]
) -> list[tuple[WorkloadPod, Place]]:
    """Fill each domain up to its count. Pods that wait for other reasons are not counted."""
    gated = (pod for pod in members if pod.gated(TOPOLOGY_GATE))
    taken = Counter(_place(pod, levels) for pod in members if not pod.gated(TOPOLOGY_GATE))
    found = []
    for domain in domains:
        place = tuple(domain.values)
        occupied = min(taken[place], domain.count)
        taken[place] -= occupied
        found += [(pod, place) for pod in islice(gated, domain.count - occupied)]
    return found


def _by_rank(
    domains: Sequence[AssignedDomain],
    levels: Place,
    members: Sequence[WorkloadPod],
    ranks: _Ranks,
) -> list[tuple[WorkloadPod, Place]] | None:
    """Return the place of each pod by its rank; None if ranks cannot be used.

    They cannot if one is missing, invalid or not unique, if one has no place, or if a pod runs in
    another domain than its rank says.
    """
    all_places = [tuple(each.values) for each in domains for _ in range(each.count)]
    found: dict[int, tuple[WorkloadPod, Place]] = {}
    for pod in members:
        rank = _rank(pod, ranks)
        if rank is None or rank in found or rank >= len(all_places):
            return None
        place = all_places[rank]
        if not pod.gated(TOPOLOGY_GATE) and _place(pod, levels) != place:
            return None
        found[rank] = pod, place
    return list(found.values())


def _rank(pod: WorkloadPod, ranks: _Ranks) -> int | None:
    """Return the rank of a pod in its pod set, from 0; None if it has none."""
    request, size = ranks.request, ranks.size
    if request is None or request.pod_index_label is None:
        return None
    offset = ranks.first + (_offset(pod) or 0)
    index = _below(pod.labels.get(request.pod_index_label), size + offset)
    if index is None:
        return None
    rank = index - offset
    if request.sub_group_index_label is not None:
        groups = request.sub_group_count or 0
        group = _below(pod.labels.get(request.sub_group_index_label), groups)
        if group is None or index >= size // groups:
            return None
        rank += group * (size // groups)
    return rank if 0 <= rank < size else None


def _below(value: str | None, bound: int) -> int | None:
    """Parse an unsigned integer below a bound. Return None if the text is not one."""
    if value is None or not value[:1].isdigit():
        return None
    found = integer(value)
    return found if found is not None and found < bound else None


def _place(pod: WorkloadPod, levels: Place) -> Place:
    """Return the domain that a pod without the gate was sent to."""
    return tuple(pod.node_selector.get(level, "") for level in levels)


def _offset(pod: WorkloadPod) -> int | None:
    text = pod.annotations.get(INDEX_OFFSET)
    if text is None:
        return None
    found = integer(text)
    if found is None:
        raise OffsetInvalid(
            f"pod {pod.key} has the annotation {INDEX_OFFSET}: {text}; correct it to an integer"
        )
    return found


def _first_indexes(obj: Workload) -> dict[str, int]:
    """Return the index of the first pod of each pod set.

    In a group of two pod sets, such as a leader and its workers, the smaller one comes first.
    """
    groups: dict[str, list[PodSetAssignment]] = {}
    for at, each in enumerate(obj.assignments):
        request = _request(obj, each.name)
        named = request.pod_set_group_name if request is not None else None
        groups.setdefault(f"name {named}" if named is not None else f"at {at}", []).append(each)
    found = {each.name: 0 for each in obj.assignments}
    for members in groups.values():
        if len(members) > 1:
            first, second = sorted(members[:2], key=lambda each: _count(obj, each))
            found[second.name] = _count(obj, first)
    return found


def _request(obj: Workload, name: str) -> TopologyRequest | None:
    sets = obj.spec.pod_sets or ()
    return next((each.topology_request for each in sets if each.name == name), None)


def _count(obj: Workload, assignment: PodSetAssignment) -> int:
    if assignment.count is not None:
        return assignment.count
    sets = obj.spec.pod_sets or ()
    return next((each.count for each in sets if each.name == assignment.name), 0)
