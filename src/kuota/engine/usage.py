# SPDX-License-Identifier: Apache-2.0
"""What a workload uses: quota by flavor and resource, and capacity of topology domains.

Both are charged and released together, so that whoever removes a workload in a trial frees its
quota and its nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from kuota.api.resources import pod_amounts
from kuota.api.workload import TopologyAssignment

from .amounts import Amounts, Requests
from .model import Assigned, PodSet, Reservation, Struct, Workload
from .topology.assignment import Assignment, read
from .topology.cluster import Cluster


class PlacedPods(Struct):
    """Pods on the domains of a flavor. `requests` are those of one pod."""

    flavor: str
    requests: Requests
    assignment: Assignment


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


def _places(given: Assigned, pod_set: PodSet | None) -> Sequence[PlacedPods]:
    """Return the places on each assigned flavor; only flavors with a topology count them."""
    if given.topology is None:
        return ()
    placed, requests = read(given.topology), requests_of(given, pod_set)
    flavors = sorted(set(given.flavors.values()))
    return [PlacedPods(flavor=each, requests=requests, assignment=placed) for each in flavors]


def requests_of(given: Assigned, pod_set: PodSet | None) -> Requests:
    """Return the requests of one pod: those of its spec, which quota may see differently."""
    if pod_set is not None and pod_set.template.spec.containers is not None:
        return pod_amounts(pod_set.template.spec)
    return {name: amount // max(1, given.count) for name, amount in given.requests.items()}


def same_places(before: Reservation | None, after: Reservation) -> bool:
    """Whether two reservations place the same pods on the same domains."""
    return before is not None and _topologies(before) == _topologies(after)


def _topologies(held: Reservation) -> list[tuple[str, int, TopologyAssignment]]:
    return [(each.name, each.count, each.topology) for each in held.pod_sets if each.topology]


def charge_places(cluster: Cluster, usage: Usage, sign: int) -> None:
    """Add the placed pods to the usage of the nodes; with `sign` -1, remove them."""
    for place in usage.places:
        cluster.charge(place.flavor, place.assignment, place.requests, sign)
