# SPDX-License-Identifier: Apache-2.0
"""What a workload uses: quota by flavor and resource, and capacity of topology domains.

Both are charged and released together, so that whoever removes a workload in a trial frees its
quota and its nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from kuota.api.resources import pod_amounts
from kuota.api.topology_codec import AssignedDomain
from kuota.api.workload import TopologyAssignment

from .amounts import Amounts, Requests
from .model import PodSet, PodSetReservation, Reservation, Struct, Workload
from .topology.assignment import LeafAssignment, add_usage, read
from .topology.assignment import usage as placed_usage
from .topology.cluster import ClusterCapacity
from .topology.tree import DomainId


class PlacedPods(Struct):
    """Pods of a pod set on the domains of a flavor. `requests` are those of one pod."""

    pod_set: str
    flavor: str
    requests: Requests
    assignment: LeafAssignment


class Usage(Struct):
    """Quota, and the pods that are placed on domains of a topology."""

    quota: Amounts = {}
    places: tuple[PlacedPods, ...] = ()


NO_USAGE = Usage()


def usage_of(workload: Workload, reservation: Reservation) -> Usage:
    """Return the usage of a workload with this reservation."""
    by_name = {each.name: each for each in workload.pod_sets}
    places = [
        place for given in reservation.pod_sets for place in _places(given, by_name.get(given.name))
    ]
    return Usage(quota=reservation.usage, places=tuple(places))


def _places(given: PodSetReservation, pod_set: PodSet | None) -> Sequence[PlacedPods]:
    """Return the places on each assigned flavor; only flavors with a topology count them."""
    if given.topology is None:
        return ()
    placed, requests = _left(read(given.topology), given.count), requests_of(given, pod_set)
    flavors = sorted(set(given.flavors.values()))
    return [
        PlacedPods(pod_set=given.name, flavor=each, requests=requests, assignment=placed)
        for each in flavors
    ]


def _left(placed: LeafAssignment, count: int) -> LeafAssignment:
    """Return the most pods that may be left on each domain if only `count` pods are left.

    Reclaimable pods have finished, but it is not known which domains they have left. A domain has
    at most as many pods as there are left in total.
    """
    if count >= placed.pods:
        return placed
    kept = (AssignedDomain(each.values, min(each.count, count)) for each in placed.domains)
    return LeafAssignment(levels=placed.levels, domains=tuple(each for each in kept if each.count))


def requests_of(given: PodSetReservation, pod_set: PodSet | None) -> Requests:
    """Return the requests of one pod: those of its spec, which quota may see differently."""
    if pod_set is not None and pod_set.template.spec.containers is not None:
        return pod_amounts(pod_set.template.spec)
    return {name: amount // max(1, given.count) for name, amount in given.requests.items()}


def same_places(before: Reservation | None, after: Reservation) -> bool:
    """Whether two reservations place the same pods on the same domains."""
    return before is not None and _topologies(before) == _topologies(after)


def _topologies(held: Reservation) -> list[tuple[str, int, TopologyAssignment]]:
    return [(each.name, each.count, each.topology) for each in held.pod_sets if each.topology]


def added_places(places: Sequence[PlacedPods], held: Reservation) -> tuple[PlacedPods, ...]:
    """Return the places without those that the same pod sets have in the reservation.

    Places that the reservation has and the new ones lack are not released: they count until the
    new ones are stored.
    """
    known = {each.name: each.topology for each in held.pod_sets if each.topology is not None}
    added = (_without(each, known.get(each.pod_set)) for each in places)
    return tuple(each for each in added if each.assignment.domains)


def _without(place: PlacedPods, held: TopologyAssignment | None) -> PlacedPods:
    if held is None:
        return place
    counts: dict[tuple[str, ...], int] = {}
    for domain in read(held).domains:
        id = tuple(domain.values)
        counts[id] = counts.get(id, 0) + domain.count
    added = (
        AssignedDomain(each.values, each.count - counts.get(tuple(each.values), 0))
        for each in place.assignment.domains
    )
    domains = tuple(each for each in added if each.count > 0)
    assignment = LeafAssignment(levels=place.assignment.levels, domains=domains)
    return replace(place, assignment=assignment)


def places_fit(cluster: ClusterCapacity, places: Sequence[PlacedPods]) -> bool:
    """Whether the nodes have room for all places together."""
    by_flavor: dict[str, dict[DomainId, Requests]] = {}
    for place in places:
        total = by_flavor.setdefault(place.flavor, {})
        add_usage(total, placed_usage(place.assignment, place.requests))
    return all(cluster.has_room(flavor, total) for flavor, total in by_flavor.items())


def charge_places(cluster: ClusterCapacity, usage: Usage, sign: int) -> None:
    """Add the placed pods to the usage of the nodes; with `sign` -1, remove them."""
    for place in usage.places:
        cluster.charge(place.flavor, place.assignment, place.requests, sign)
