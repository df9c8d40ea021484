# SPDX-License-Identifier: Apache-2.0
"""The integration of pod placement into flavor assignment.

`Snapshot.placement` decides whether and where pods of a topology flavor can be placed. This module
determines which pods need a placement and how the result changes an assignment. `NoPlacement` is
used when nodes are not part of the model: it accepts everything and places nothing, so only quota
decides. `UnknownNodes` is used before the nodes are listed: it rejects everything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from kuota.api.gates import Gate
from kuota.api.topology_codec import on_node
from kuota.api.workload import PodSetAssignment as ApiPodSetAssignment
from kuota.api.workload import TopologyAssignment

from .assignment import Assignment, Attempt, Mode, PodSetAssignment
from .model import PodSet, Struct, Workload
from .reasons import Cause, Reason, WaitReason
from .usage import PlacedPods

if TYPE_CHECKING:
    from .snapshot import Queue, Running, Snapshot

NO_FLAVOR = "the pod set requests a topology, but no flavor with a topology was assigned"
TWO_FLAVORS = "the pod set requests a topology, but flavors with different topologies were assigned"


class PlacementRequest(Struct):
    """Pods of one pod set to place on the nodes of one topology flavor."""

    pod_set: PodSet
    count: int
    flavor: str


class PlacementResult(Struct):
    """The result of a placement by pod set: topology assignments, or why there are none.

    `places` is what the assigned pods use.
    """

    assigned: dict[str, TopologyAssignment] = {}
    rejected: dict[str, str] = {}
    places: dict[str, PlacedPods] = {}


class Placement(Protocol):
    """Places pods on the nodes of topology flavors, given the usage in the snapshot."""

    def place(
        self, workload: Workload, requests: Sequence[PlacementRequest], *, empty: bool = False
    ) -> PlacementResult:
        """Place all requests together. With `empty`, assume that no other pods run."""
        ...


NODES_NOT_LISTED = "the nodes of the cluster are not known yet"


class UnknownNodes:
    """Rejects every request, because the nodes are not known yet."""

    def place(
        self, workload: Workload, requests: Sequence[PlacementRequest], *, empty: bool = False
    ) -> PlacementResult:
        return PlacementResult(rejected={e.pod_set.name: NODES_NOT_LISTED for e in requests})


class NoPlacement:
    """A placement without nodes."""

    def place(
        self, workload: Workload, requests: Sequence[PlacementRequest], *, empty: bool = False
    ) -> PlacementResult:
        return PlacementResult()


def explicit(pod_set: PodSet) -> bool:
    """Whether the pods request a topology. A group name alone does not count."""
    asked = pod_set.topology
    return asked is not None and bool(
        asked.unconstrained
        or asked.required is not None
        or asked.preferred is not None
        or asked.pod_set_slice_required_topology is not None
        or asked.podset_slice_required_topology_constraints
    )


def levels(pod_set: PodSet) -> Iterator[str]:
    """Yield every topology level that the pods name."""
    asked = pod_set.topology
    if asked is None:
        return
    for level in (asked.required, asked.preferred, asked.pod_set_slice_required_topology):
        if level is not None:
            yield level
    for layer in asked.podset_slice_required_topology_constraints or ():
        yield layer.topology


def topology_only(queue: Queue, snapshot: Snapshot) -> bool:
    """Whether every flavor of the queue has a loaded topology, so that all pods are placed.

    As in Kueue, this holds for a queue without flavors.
    """
    return all(
        has_topology(name, snapshot) for group in queue.spec.groups for name in group.flavors
    )


def has_topology(flavor: str, snapshot: Snapshot) -> bool:
    found = snapshot.flavors.get(flavor)
    return found is not None and bool(found.topology) and found.topology in snapshot.topologies


def placed(
    assignment: Assignment, workload: Workload, queue: Queue, snapshot: Snapshot
) -> Assignment:
    """Return the assignment with its pods placed, or with a lower mode where that fails."""
    if not _concerned(workload, queue, snapshot):
        return assignment
    if assignment.mode is Mode.NO_FIT:
        return assignment
    requests, broken = _requests(assignment, workload, queue, snapshot)
    if broken:
        pod_sets = tuple(
            replace(each, error=broken.get(each.name, each.error)) for each in assignment.pod_sets
        )
        no_fit = WaitReason.NO_MATCHING_FLAVOR
        return replace(assignment, mode=Mode.NO_FIT, no_fit=no_fit, pod_sets=pod_sets)
    if not requests:
        return assignment
    if assignment.mode is Mode.FIT:
        assignment = _with_placements(assignment, snapshot.placement.place(workload, requests))
    if assignment.mode is Mode.PREEMPT and not workload.unhealthy_nodes:
        rejected = snapshot.placement.place(workload, requests, empty=True).rejected
        if rejected:
            # The pods do not fit even in an empty cluster.
            no_fit = WaitReason.TOPOLOGY_PLACEMENT_FAILED
            return _lowered(assignment, Mode.NO_FIT, rejected, mode=Mode.NO_FIT, no_fit=no_fit)
        # All pods to place need preemption, because free quota may be fragmented.
        names = dict.fromkeys((request.pod_set.name for request in requests), "")
        assignment = _lowered(assignment, Mode.PREEMPT, names)
    return assignment


def _concerned(workload: Workload, queue: Queue, snapshot: Snapshot) -> bool:
    """A fast check that skips queues without topology."""
    plain = not snapshot.topologies and queue.spec.groups
    if plain and all(each.topology is None for each in workload.pod_sets):
        return False
    return snapshot.policy.on(Gate.TopologyAwareScheduling)


def _requests(
    assignment: Assignment, workload: Workload, queue: Queue, snapshot: Snapshot
) -> tuple[list[PlacementRequest], dict[str, str]]:
    """Return what has to be placed, and the pod sets for which no request can be made."""
    implied = topology_only(queue, snapshot)
    requests: list[PlacementRequest] = []
    broken: dict[str, str] = {}
    by_name = {each.name: each for each in workload.pod_sets}
    for given in assignment.pod_sets:
        pod_set = by_name.get(given.name)
        if pod_set is None or given.count == 0 or not (implied or explicit(pod_set)):
            continue
        if given.topology is not None and not _on_failed_node(given, workload):
            continue
        chosen = {choice.flavor for choice in given.flavors.values()}
        flavors = sorted(name for name in chosen if has_topology(name, snapshot))
        if len(flavors) == 1:
            requests.append(PlacementRequest(pod_set=pod_set, count=given.count, flavor=flavors[0]))
        else:
            broken[pod_set.name] = TWO_FLAVORS if flavors else NO_FLAVOR
    return requests, broken


def _on_failed_node(given: PodSetAssignment, workload: Workload) -> bool:
    stored = ApiPodSetAssignment(topology_assignment=given.topology)
    return any(on_node(stored, node) for node in workload.unhealthy_nodes)


def _with_placements(assignment: Assignment, places: PlacementResult) -> Assignment:
    """Return the assignment with placements, or with mode PREEMPT if some were rejected."""
    if places.rejected:
        return _lowered(assignment, Mode.PREEMPT, places.rejected, mode=Mode.PREEMPT)
    return _placed_at(assignment, places)


def _placed_at(assignment: Assignment, places: PlacementResult) -> Assignment:
    assigned = places.assigned
    pod_sets = [
        replace(each, topology=assigned.get(each.name, each.topology))
        for each in assignment.pod_sets
    ]
    return replace(assignment, pod_sets=tuple(pod_sets), places=tuple(places.places.values()))


def placement_test(
    assignment: Assignment, workload: Workload, queue: Queue, snapshot: Snapshot
) -> Callable[[], bool] | None:
    """Return a test whether the pods can be placed now, or None if none has to be placed."""
    if not _concerned(workload, queue, snapshot):
        return None
    requests, _ = _requests(assignment, workload, queue, snapshot)
    if not requests:
        return None
    return lambda: not snapshot.placement.place(workload, requests).rejected


def placed_after(
    victims: Sequence[Running],
    assignment: Assignment,
    workload: Workload,
    queue: Queue,
    snapshot: Snapshot,
) -> Assignment:
    """Return the assignment with the places that it reserves while it waits for its victims.

    Without victims, it reserves what it would get in an empty cluster, so that workloads of lower
    priority do not take the places and are preempted in the next cycle.
    """
    if not _concerned(workload, queue, snapshot) or workload.unhealthy_nodes:
        return assignment
    requests, _ = _requests(assignment, workload, queue, snapshot)
    if not requests:
        return assignment
    with snapshot.trial():
        for victim in victims:
            snapshot.remove(victim)
        return _placed_at(
            assignment, snapshot.placement.place(workload, requests, empty=not victims)
        )


def _lowered(
    assignment: Assignment, to: Mode, why: Mapping[str, str], **fields: object
) -> Assignment:
    """Return the assignment with these fields, and with the pod sets in `why` lowered to a mode."""
    pod_sets = tuple(
        _rejected(each, to, why[each.name]) if each.name in why else each
        for each in assignment.pod_sets
    )
    return replace(assignment, pod_sets=pod_sets, **fields)


def _rejected(given: PodSetAssignment, mode: Mode, why: str) -> PodSetAssignment:
    reasons, attempts = given.reasons, given.attempts
    if why:
        reason = Reason(cause=Cause.PLACEMENT, detail=why)
        reasons = reasons if reason in reasons else (*reasons, reason)
        attempts = tuple(_rejected_attempt(each, mode, reason) for each in attempts)
    flavors = {resource: replace(choice, mode=mode) for resource, choice in given.flavors.items()}
    return replace(given, flavors=flavors, reasons=reasons, attempts=attempts)


def _rejected_attempt(attempt: Attempt, mode: Mode, reason: Reason) -> Attempt:
    if mode is not Mode.NO_FIT or attempt.mode is Mode.NO_FIT:
        return attempt
    return replace(
        attempt,
        mode=mode,
        no_fit=WaitReason.TOPOLOGY_PLACEMENT_FAILED,
        reasons=(*attempt.reasons, reason),
    )
