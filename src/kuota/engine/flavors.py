# SPDX-License-Identifier: Apache-2.0
"""Flavor assignment: the flavor of every resource of every pod set.

Pod sets are processed in order, and pod sets of a named group together. Each sees what earlier ones
were assigned. The search ends at the first pod set without an assignment. It has no side effects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kuota.api.gates import Gate
from kuota.api.quantity import add, sub
from kuota.api.resources import rescaled

from .amounts import FlavorResource, Requests
from .assignment import (
    AssignmentMode,
    FlavorAssignment,
    FlavorAttempt,
    PodSetAssignment,
    ScanProgress,
    WorkloadAssignment,
    no_fit_reason,
)
from .model import PodSet, PodSetReservation, Workload
from .placed_assignment import placed
from .placement import has_topology
from .reasons import Reason, RejectionCause, WaitReason
from .resource_index import PODS, GroupIndex, ResourceIndex, resource_index, visiting_order
from .scan import FlavorScan, Oracle, Pinned
from .snapshot import ChargedWorkload, Queue, Snapshot

__all__ = ["Oracle", "Pinned", "assign"]


def assign(
    workload: Workload,
    queue: Queue,
    snapshot: Snapshot,
    oracle: Oracle,
    *,
    counts: Sequence[int] | None = None,
    progress: ScanProgress | None = None,
    pinned: Pinned | None = None,
    replaced: ChargedWorkload | None = None,
) -> WorkloadAssignment:
    """Return the flavors that a workload would get in a queue, and how well they fit.

    `counts` are the pods of each pod set; by default all that are not reclaimed. Only `pinned`
    flavors are tried. With a `replaced` slice, the usage is the difference to that slice. A
    workload with a reservation keeps its flavors without a search.
    """
    if workload.reservation is not None:
        found = _kept(workload.reservation.pod_sets)
    else:
        fungible = snapshot.policy.on(_FUNGIBLE)
        scan = FlavorScan(
            workload,
            queue,
            snapshot,
            oracle,
            fungibility=queue.spec.fungibility if fungible else None,
            progress=progress,
            pinned=pinned,
            held=_held(workload, replaced),
        )
        found = _Search(scan, counts).assignment()
    return placed(found, workload, queue, snapshot, replaced)


_ALONE = ((0,),)
_FUNGIBLE = Gate.FlavorFungibility
_FIT, _NO_FIT = AssignmentMode.FIT, AssignmentMode.NO_FIT


class _Outcome:
    """The result for one group of pod sets. A failure has no flavors and ends the search."""

    __slots__ = ("attempts", "error", "flavors", "no_fit", "reasons", "scans")

    def __init__(self) -> None:
        self.flavors: dict[str, FlavorAssignment] = {}
        self.reasons: list[Reason] = []
        self.attempts: list[FlavorAttempt] = []
        self.no_fit: WaitReason | None = None
        self.error = ""
        self.scans: list[list[FlavorAttempt]] = []

    def fail(self, reasons: list[Reason]) -> None:
        """Record a failure. Only the first failure is reported."""
        self.flavors = {}
        self.reasons = reasons
        self.no_fit = no_fit_reason(self.scans)

    def give_up(self, error: str) -> None:
        """Record an invalid pod spec, which is not a problem of flavors."""
        self.fail([])
        self.error = error


class _Search:
    """The search over the pod sets and resources of one workload."""

    def __init__(self, scan: FlavorScan, counts: Sequence[int] | None) -> None:
        workload = scan.workload
        self.scan = scan
        self.workload = workload
        self.index: ResourceIndex = resource_index(scan.queue.spec)
        self.counts = [each.pods for each in workload.pod_sets]
        if counts is not None:
            # A pod set whose pods have all finished has no pods to assign.
            self.counts = [left and count for left, count in zip(self.counts, counts, strict=True)]
        self.requests = [
            _requests(each, count, self.index.counts_pods)
            for each, count in zip(workload.pod_sets, self.counts, strict=True)
        ]

    def assignment(self) -> WorkloadAssignment:
        given: dict[int, PodSetAssignment] = {}
        mode = _FIT if self.workload.pod_sets else _NO_FIT
        height = 0
        no_fit: WaitReason | None = None
        for members in _groups(self.workload.pod_sets):
            outcome = self._outcome(members)
            for member in members:
                got = given[member] = self._given(member, outcome)
                if outcome.reasons or outcome.error:
                    mode = min(mode, got.mode)
            for choice in outcome.flavors.values():
                height = max(height, choice.height)
            no_fit = outcome.no_fit
            if no_fit is not None:
                break
            self._charge(members, given)
        return WorkloadAssignment(
            pod_sets=tuple([given[index] for index in sorted(given)]),
            usage=self.scan.usage,
            mode=mode,
            height=height,
            no_fit=no_fit,
            progress=self._progress(given),
        )

    def _outcome(self, members: Sequence[int]) -> _Outcome:
        """Return one flavor per resource for all members, or the failure of the first group."""
        outcome = _Outcome()
        wanted = self.requests[members[0]] if len(members) == 1 else self._sum(members)
        asked = self._differences(wanted, members)
        groups = self.index.groups
        order = visiting_order(tuple(wanted))
        for resource in order:
            if resource in outcome.flavors:
                continue
            group = groups.get(resource)
            if group is not None:
                together = [each for each in order if groups.get(each) is group]
                self._fill(outcome, group, together, asked, members)
            elif wanted[resource] > 0 and not self._ignores_undeclared():
                outcome.fail([_undeclared(resource)])
            if outcome.no_fit is not None:
                break
        return outcome

    def _fill(
        self,
        outcome: _Outcome,
        group: GroupIndex,
        resources: list[str],
        asked: Requests,
        members: Sequence[int],
    ) -> None:
        """Add the result for one resource group."""
        found = self.scan.scan(group, resources, asked, members)
        attempts = found.attempts()
        outcome.attempts += attempts
        outcome.scans.append(attempts)
        if found.error:
            outcome.give_up(found.error)
        elif found.chosen is None:
            outcome.fail(found.reasons() or [_undeclared(resources[0])])
        else:
            outcome.flavors |= found.chosen.choices(found.tried)
            outcome.reasons += found.reasons()

    def _ignores_undeclared(self) -> bool:
        policy = self.scan.snapshot.policy
        return policy.ignore_undeclared and policy.on(Gate.QuotaCheckStrategy)

    def _sum(self, members: Sequence[int]) -> Requests:
        total: Requests = {}
        for member in members:
            for resource, amount in self.requests[member].items():
                total[resource] = add(total.get(resource, 0), amount)
        return total

    def _differences(self, wanted: Requests, members: Iterable[int]) -> Requests:
        """Return what is requested beyond the usage of the replaced slice."""
        held = self.scan.held
        if held is None:
            return wanted
        asked = dict(wanted)
        for assigned in (held[member] for member in members):
            for resource, amount in assigned.requests.items() if assigned is not None else ():
                if resource in asked:
                    asked[resource] = sub(asked[resource], amount)
        return asked

    def _given(self, member: int, outcome: _Outcome) -> PodSetAssignment:
        """Return the assignment of one member: flavors for the resources that it requests.

        A member without requests gets the topology flavors of its group.
        """
        pod_set = self.workload.pod_sets[member]
        requests = self.requests[member]
        flavors = outcome.flavors
        if pod_set.group and not requests:
            snapshot = self.scan.snapshot
            flavors = {
                resource: choice
                for resource, choice in flavors.items()
                if has_topology(choice.flavor, snapshot)
            }
        elif pod_set.group:
            flavors = {
                resource: choice for resource, choice in flavors.items() if resource in requests
            }
        return PodSetAssignment(
            name=pod_set.name,
            count=self.counts[member],
            requests=requests,
            flavors=flavors,
            reasons=tuple(outcome.reasons),
            attempts=tuple(outcome.attempts),
            error=outcome.error,
        )

    def _charge(self, members: Sequence[int], given: dict[int, PodSetAssignment]) -> None:
        """Add what the members were assigned to the usage assumed for later pod sets."""
        usage = self.scan.usage
        groups = self.index.groups
        for member in members:
            asked = self._differences(self.requests[member], (member,))
            for resource, choice in given[member].flavors.items():
                if resource in asked:
                    column = groups[resource].columns[choice.flavor][resource]
                    usage[column] = add(usage.get(column, 0), asked[resource])

    def _progress(self, given: dict[int, PodSetAssignment]) -> ScanProgress:
        scan = self.scan
        if scan.fungibility is None:
            return ScanProgress()
        tried: list[dict[str, int | None]] = [{} for _ in self.workload.pod_sets]
        for index, got in given.items():
            tried[index] = {name: choice.tried for name, choice in got.flavors.items()}
        return ScanProgress(
            tried=tuple(tried),
            cycle=scan.snapshot.cycle,
            generation=scan.node.generation,
            scheduling_hash=self.workload.scheduling_hash,
        )


def _undeclared(resource: str) -> Reason:
    return Reason(cause=RejectionCause.UNDECLARED, resource=resource)


def _requests(pod_set: PodSet, count: int, counts_pods: bool) -> Requests:
    requests = pod_set.requests
    if count != pod_set.pods:
        requests = rescaled(requests, pod_set.pods, count)
    return {**requests, PODS: count} if counts_pods else requests


def _groups(pod_sets: Sequence[PodSet]) -> Sequence[Sequence[int]]:
    """Return the indices of pod sets that are assigned together, in order of first appearance."""
    if len(pod_sets) == 1:
        return _ALONE
    groups: list[list[int]] = []
    named: dict[str, list[int]] = {}
    for index, pod_set in enumerate(pod_sets):
        if pod_set.group in named:
            named[pod_set.group].append(index)
            continue
        groups.append([index])
        if pod_set.group:
            named[pod_set.group] = groups[-1]
    return groups


def _held(
    workload: Workload, replaced: ChargedWorkload | None
) -> list[PodSetReservation | None] | None:
    """Return the assignments of the replaced slice in the order of the workload's pod sets."""
    if replaced is None or replaced.workload.reservation is None:
        return None
    by_name = {each.name: each for each in replaced.workload.reservation.pod_sets}
    return [by_name.get(each.name) for each in workload.pod_sets]


def _kept(assigned: Sequence[PodSetReservation]) -> WorkloadAssignment:
    """Return the recorded flavors of a workload that has a reservation."""
    usage: dict[FlavorResource, int] = {}
    for each in assigned:
        for resource, flavor in each.flavors.items():
            column = FlavorResource(flavor, resource)
            usage[column] = add(usage.get(column, 0), each.requests.get(resource, 0))
    return WorkloadAssignment(
        pod_sets=tuple(
            PodSetAssignment(
                name=each.name,
                count=each.count,
                requests=each.requests,
                flavors={
                    resource: FlavorAssignment(flavor=flavor, mode=AssignmentMode.FIT)
                    for resource, flavor in each.flavors.items()
                },
                topology=each.topology,
                delayed_topology=each.delayed_topology,
            )
            for each in assigned
        ),
        usage=usage,
        mode=AssignmentMode.FIT,
    )
