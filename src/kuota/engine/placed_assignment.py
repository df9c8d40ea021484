# SPDX-License-Identifier: Apache-2.0
"""The placement of pods as a part of flavor assignment.

This module determines which pods of an assignment need a placement, and how the result changes the
assignment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kuota.api.gates import Gate
from kuota.api.kueue import MULTIKUEUE, PROVISIONING
from kuota.api.topology_codec import on_node
from kuota.api.workload import PodSetAssignment as ApiPodSetAssignment
from kuota.api.workload import TopologyAssignment

from .assignment import (
    AssignmentMode,
    FlavorAttempt,
    PodSetAssignment,
    WorkloadAssignment,
    no_fit_reason,
)
from .model import PodSet, Workload
from .placement import (
    NoPlacement,
    PlacementRequest,
    PlacementResult,
    explicit,
    has_topology,
    topology_only,
)
from .reasons import SEVERITY, Reason, RejectionCause, WaitReason

if TYPE_CHECKING:
    from .snapshot import ChargedWorkload, Queue, Snapshot

NO_FLAVOR = "the pod set requests a topology, but no flavor with a topology was assigned"
TWO_FLAVORS = "the pod set requests a topology, but flavors with different topologies were assigned"
ELASTIC = "an elastic workload supports only unconstrained topology requests, not {} ones"


def placed(
    assignment: WorkloadAssignment,
    workload: Workload,
    queue: Queue,
    snapshot: Snapshot,
    replaced: ChargedWorkload | None = None,
) -> WorkloadAssignment:
    """Return the assignment with its pods placed, or with a lower mode where that fails.

    Pods whose placement is delayed are marked so. With a `replaced` slice, its pods keep their
    places.
    """
    if assignment.mode is AssignmentMode.NO_FIT or not _uses_topology(workload, queue, snapshot):
        return assignment
    found = PlacementRequests(assignment, workload, queue, snapshot, replaced)
    if found.faults:
        return _faulty(assignment, found.faults)
    if found.delayed:
        assignment = _delayed(assignment, found.delayed)
    if not found.requests:
        return assignment
    if assignment.mode is AssignmentMode.FIT:
        assignment = _with_placements(assignment, found.place())
    if assignment.mode is AssignmentMode.PREEMPT and not workload.replaces_nodes:
        rejected = found.place(empty=True).rejected
        if rejected:
            return _unplaceable(assignment, queue, found.requests, rejected)
        # All pods to place need preemption, because free quota may be fragmented.
        names = dict.fromkeys((request.pod_set.name for request in found.requests), "")
        assignment = _lowered(assignment, AssignmentMode.PREEMPT, names)
    return assignment


def _faulty(assignment: WorkloadAssignment, faults: Mapping[str, str]) -> WorkloadAssignment:
    pod_sets = tuple(
        replace(each, error=faults.get(each.name, each.error)) for each in assignment.pod_sets
    )
    no_fit = WaitReason.NO_MATCHING_FLAVOR
    return replace(assignment, mode=AssignmentMode.NO_FIT, no_fit=no_fit, pod_sets=pod_sets)


def _delayed(assignment: WorkloadAssignment, names: Collection[str]) -> WorkloadAssignment:
    pod_sets = tuple(
        replace(each, delayed_topology="Pending") if each.name in names else each
        for each in assignment.pod_sets
    )
    return replace(assignment, pod_sets=pod_sets)


def _uses_topology(workload: Workload, queue: Queue, snapshot: Snapshot) -> bool:
    """A fast check that skips queues without topology."""
    plain = not snapshot.topologies and queue.spec.groups
    if plain and all(each.topology is None for each in workload.pod_sets):
        return False
    return snapshot.policy.on(Gate.TopologyAwareScheduling)


class PlacementRequests:
    """What has to be placed for an assignment.

    `faults` are the pod sets for which no request can be made, with the reason. The pod sets in
    `delayed` are placed in a second pass: by ProvisioningRequests after the nodes exist, with
    MultiKueue on a worker cluster.
    """

    def __init__(
        self,
        assignment: WorkloadAssignment,
        workload: Workload,
        queue: Queue,
        snapshot: Snapshot,
        replaced: ChargedWorkload | None = None,
    ) -> None:
        self.requests: list[PlacementRequest] = []
        self.faults: dict[str, str] = {}
        self.delayed: set[str] = set()
        self._workload = workload
        self._queue = queue
        self._snapshot = snapshot
        self._replaced = replaced
        implied = topology_only(queue, snapshot)
        by_name = {each.name: each for each in workload.pod_sets}
        for given in assignment.pod_sets:
            pod_set = by_name.get(given.name)
            if pod_set is None or given.count == 0 or not (implied or explicit(pod_set)):
                continue
            if given.topology is None or _on_failed_node(given, workload):
                self._add(given, pod_set)

    def _add(self, given: PodSetAssignment, pod_set: PodSet) -> None:
        snapshot, workload = self._snapshot, self._workload
        unsupported = self._unsupported(pod_set)
        chosen = {choice.flavor for choice in given.flavors.values()}
        flavors = sorted(name for name in chosen if has_topology(name, snapshot))
        if unsupported:
            self.faults[pod_set.name] = ELASTIC.format(unsupported)
        elif len(flavors) != 1:
            self.faults[pod_set.name] = TWO_FLAVORS if flavors else NO_FLAVOR
        elif _placed_later(self._queue, flavors[0], workload, snapshot):
            self.delayed.add(pod_set.name)
        else:
            request = PlacementRequest(
                pod_set=pod_set,
                count=given.count,
                flavor=flavors[0],
                updates=workload.pod_set_updates.get(pod_set.name, ()),
                previous=self._previous(pod_set.name),
            )
            self.requests.append(request)

    def _unsupported(self, pod_set: PodSet) -> str:
        """Return the kind of topology request that an elastic workload may not have."""
        asked = pod_set.topology
        if not self._resizes or asked is None:
            return ""
        if asked.required is not None:
            return "required"
        return "preferred" if asked.preferred is not None else ""

    @property
    def _resizes(self) -> bool:
        gate = Gate.ElasticJobsViaWorkloadSlicesWithTAS
        return self._workload.elastic and self._snapshot.policy.on(gate)

    def _previous(self, pod_set: str) -> TopologyAssignment | None:
        held = self._replaced.workload.reservation if self._replaced is not None else None
        if held is None or not self._resizes:
            return None
        return next((each.topology for each in held.pod_sets if each.name == pod_set), None)

    def place(self, *, empty: bool = False) -> PlacementResult:
        """Place all requests. The places of the replaced slice are free for its successor."""
        with self._without_replaced():
            return self._snapshot.placement.place(self._workload, self.requests, empty=empty)

    def fit(self) -> bool:
        """Whether all requests can be placed."""
        with self._without_replaced():
            return self._snapshot.placement.fits(self._workload, self.requests)

    @contextmanager
    def _without_replaced(self) -> Iterator[None]:
        snapshot, replaced = self._snapshot, self._replaced
        if replaced is None or not replaced.usage.places:
            yield
            return
        with snapshot.trial():
            snapshot.remove(replaced)
            yield


def _placed_later(queue: Queue, flavor: str, workload: Workload, snapshot: Snapshot) -> bool:
    """Whether an admission check determines first where pods on the flavor can run."""
    if isinstance(snapshot.placement, NoPlacement):
        return False
    for rule in queue.spec.checks:
        check = snapshot.checks.get(rule.name)
        if check is None:
            continue
        if check.controller == MULTIKUEUE:
            return True
        covers = rule.covers(frozenset((flavor,)))
        if covers and check.controller == PROVISIONING and workload.reservation is None:
            return True
    return False


def _on_failed_node(given: PodSetAssignment, workload: Workload) -> bool:
    stored = ApiPodSetAssignment(topology_assignment=given.topology)
    return any(on_node(stored, node) for node in workload.unhealthy_nodes)


def _with_placements(assignment: WorkloadAssignment, places: PlacementResult) -> WorkloadAssignment:
    """Return the assignment with placements, or with mode PREEMPT if some were rejected."""
    if places.rejected:
        return _lowered(
            assignment, AssignmentMode.PREEMPT, places.rejected, mode=AssignmentMode.PREEMPT
        )
    return _placed_at(assignment, places)


def _placed_at(assignment: WorkloadAssignment, places: PlacementResult) -> WorkloadAssignment:
    pod_sets = tuple(_with_topology(each, places.assigned) for each in assignment.pod_sets)
    return replace(assignment, pod_sets=pod_sets, places=tuple(places.places.values()))


def _with_topology(
    given: PodSetAssignment, assigned: Mapping[str, TopologyAssignment]
) -> PodSetAssignment:
    topology = assigned.get(given.name)
    if topology is None:
        return given
    delayed = "Ready" if given.delayed_topology else ""
    return replace(given, topology=topology, delayed_topology=delayed)


def placement_test(
    assignment: WorkloadAssignment,
    workload: Workload,
    queue: Queue,
    snapshot: Snapshot,
    replaced: ChargedWorkload | None = None,
) -> Callable[[], bool] | None:
    """Return a test whether the pods can be placed now, or None if none has to be placed."""
    if not _uses_topology(workload, queue, snapshot):
        return None
    found = PlacementRequests(assignment, workload, queue, snapshot, replaced)
    if not found.requests:
        return None
    return found.fit


def placed_after(
    victims: Sequence[ChargedWorkload],
    assignment: WorkloadAssignment,
    workload: Workload,
    queue: Queue,
    snapshot: Snapshot,
    replaced: ChargedWorkload | None = None,
) -> WorkloadAssignment:
    """Return the assignment with the places that it reserves while it waits for its victims.

    Without victims, it reserves what it would get in an empty cluster, so that workloads of lower
    priority do not take the places and are preempted in the next cycle.
    """
    if not _uses_topology(workload, queue, snapshot) or workload.replaces_nodes:
        return assignment
    found = PlacementRequests(assignment, workload, queue, snapshot, replaced)
    if not found.requests:
        return assignment
    with snapshot.trial():
        for victim in victims:
            snapshot.remove(victim)
        return _placed_at(assignment, found.place(empty=not victims))


def _lowered(
    assignment: WorkloadAssignment, to: AssignmentMode, why: Mapping[str, str], **fields: object
) -> WorkloadAssignment:
    """Return the assignment with these fields, and with the pod sets in `why` lowered to a mode."""
    pod_sets = tuple(
        _rejected(each, to, why[each.name]) if each.name in why else each
        for each in assignment.pod_sets
    )
    return replace(assignment, pod_sets=pod_sets, **fields)


def _rejected(given: PodSetAssignment, mode: AssignmentMode, why: str) -> PodSetAssignment:
    reasons = given.reasons
    if why:
        reason = _placement_reason(why)
        reasons = reasons if reason in reasons else (*reasons, reason)
    flavors = {resource: replace(choice, mode=mode) for resource, choice in given.flavors.items()}
    return replace(given, flavors=flavors, reasons=reasons)


def _unplaceable(
    assignment: WorkloadAssignment,
    queue: Queue,
    requests: Sequence[PlacementRequest],
    why: Mapping[str, str],
) -> WorkloadAssignment:
    """Return the assignment with the pod sets in `why` rejected: no empty cluster has room.

    Of the flavors that were tried, only the one without room for the pods is rejected.
    """
    mode, full_flavor = AssignmentMode.NO_FIT, WaitReason.TOPOLOGY_PLACEMENT_FAILED
    full = {(each.pod_set.name, each.flavor) for each in requests if each.pod_set.name in why}

    def attempted(given: PodSetAssignment, attempt: FlavorAttempt) -> FlavorAttempt:
        if (given.name, attempt.flavor) not in full:
            return attempt
        reasons = (*attempt.reasons, _placement_reason(why[given.name]))
        return replace(attempt, mode=mode, no_fit=full_flavor, reasons=reasons)

    pod_sets = tuple(
        replace(given, attempts=tuple(attempted(given, each) for each in given.attempts))
        for given in assignment.pod_sets
    )
    no_fit = max(
        (_no_fit(each, queue) for each in pod_sets if each.name in why), key=SEVERITY.index
    )
    return _lowered(replace(assignment, pod_sets=pod_sets), mode, why, mode=mode, no_fit=no_fit)


def _no_fit(given: PodSetAssignment, queue: Queue) -> WaitReason:
    return no_fit_reason(
        [each for each in given.attempts if each.flavor in group.flavors]
        for group in queue.spec.groups
    )


def _placement_reason(why: str) -> Reason:
    return Reason(cause=RejectionCause.PLACEMENT, detail=why)
