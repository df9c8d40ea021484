# SPDX-License-Identifier: Apache-2.0
"""The scan over the flavors of one resource group.

A flavor is evaluated as a whole: first whether the pods could run on its nodes, then every resource
against quota. Flavor fungibility decides where the scan stops; the scan progress decides where it
starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from kuota.api.match import SelectorError
from kuota.api.quantity import add, sub

from .amounts import Amounts, FlavorResource, Requests
from .assignment import AssignmentMode, FlavorAssignment, FlavorAttempt, OracleResult, ScanProgress
from .bounds import binding, lowest_fit
from .eligible import obstacle
from .fungibility import (
    FIT,
    MODES,
    NO_FIT,
    POSSIBILITIES,
    PREEMPTION_MODES,
    GranularMode,
    good_enough,
    preferred,
)
from .model import Fungibility, PodSetReservation, Workload
from .reasons import SEVERITY, Reason, RejectionCause, WaitReason
from .resource_index import PODS, GroupIndex
from .snapshot import Queue, Snapshot
from .tree import available

Oracle = Callable[[Workload, Queue, FlavorResource, int, Snapshot], OracleResult]
"""What preemption can achieve for one column and amount."""

Pinned = Sequence[Mapping[str, str]]
"""Per pod set, the flavor that each resource must keep."""

GranularModes = dict[str, GranularMode]
"""The mode of each resource on one flavor."""

_NO_FIT: GranularMode = (NO_FIT, 0)
_FIT: GranularMode = (FIT, 0)
_WAIT_REASONS = {
    RejectionCause.EXCEEDS_MAX: WaitReason.EXCEEDS_MAX_QUOTA,
    RejectionCause.INSUFFICIENT: WaitReason.WAITING_FOR_QUOTA,
}


class FlavorResult:
    """The result for one flavor. Without granular modes, quota was not evaluated."""

    __slots__ = ("flavor", "granular_mode", "granular_modes", "reasons")

    def __init__(
        self,
        flavor: str,
        granular_mode: GranularMode,
        granular_modes: GranularModes,
        reasons: Sequence[Reason],
    ) -> None:
        self.flavor = flavor
        self.granular_mode = granular_mode
        self.granular_modes = granular_modes
        self.reasons = reasons

    def choices(self, tried: int | None) -> dict[str, FlavorAssignment]:
        """Return this flavor for all its resources, each with its own mode and height."""
        return {
            resource: FlavorAssignment(
                flavor=self.flavor, mode=MODES[mode], height=height, tried=tried
            )
            for resource, (mode, height) in self.granular_modes.items()
        }

    def attempt(self) -> FlavorAttempt:
        """Return the worst mode and the greatest height of all resources."""
        mode = self.granular_mode[0]
        height = max((each for _, each in self.granular_modes.values()), default=0)
        if mode is FIT and not self.reasons:
            return _fitting(self.flavor, height)
        return FlavorAttempt(
            flavor=self.flavor,
            mode=MODES[mode],
            height=height,
            no_fit=_most_severe(self.reasons) if mode is NO_FIT else None,
            reasons=tuple(self.reasons),
            preemption=POSSIBILITIES[mode],
        )


class ScanResult:
    """The result of a scan: the chosen flavor, if any, and the result for every flavor tried.

    `error` is why the scan ended early: the affinity of the pods is malformed.
    """

    __slots__ = ("chosen", "error", "results", "tried")

    def __init__(
        self,
        chosen: FlavorResult | None,
        results: list[FlavorResult],
        tried: int | None = None,
        error: str = "",
    ) -> None:
        self.chosen = chosen
        self.results = results
        self.tried = tried
        self.error = error

    def reasons(self) -> list[Reason]:
        """Return why the flavor is not a plain fit; empty if it is."""
        if self.chosen is not None and self.chosen.granular_mode[0] is FIT:
            return []
        return [reason for result in self.results for reason in result.reasons]

    def attempts(self) -> list[FlavorAttempt]:
        return [result.attempt() for result in self.results]


class FlavorScan:
    """The scans for one workload.

    `usage` is what earlier pod sets of the workload were assigned; it counts as assumed. `held` is
    the assignment of the replaced slice per pod set; its flavors must not change.
    """

    def __init__(
        self,
        workload: Workload,
        queue: Queue,
        snapshot: Snapshot,
        oracle: Oracle,
        *,
        fungibility: Fungibility | None,
        progress: ScanProgress | None = None,
        pinned: Pinned | None = None,
        held: Sequence[PodSetReservation | None] | None = None,
    ) -> None:
        self.workload = workload
        self.queue = queue
        self.node = queue.node
        self.snapshot = snapshot
        self.oracle = oracle
        self.fungibility = fungibility
        self.progress = progress
        self.pinned = pinned
        self.held = held
        self.usage: Amounts = {}

    def scan(
        self,
        group: GroupIndex,
        resources: Sequence[str],
        requests: Requests,
        members: Sequence[int],
    ) -> ScanResult:
        """Return the best flavor for these resources of one group, requested by the member pod
        sets.

        The scan progress of the first resource applies.
        """
        fungibility = self.fungibility
        flavors = group.flavors
        best: FlavorResult | None = None
        results: list[FlavorResult] = []
        for index in range(self._start(flavors, resources[0], members[0]), len(flavors)):
            try:
                result = self._evaluate(flavors[index], group, resources, requests, members)
            except SelectorError as error:
                results.append(FlavorResult(flavors[index], _NO_FIT, {}, ()))
                return ScanResult(None, results, error=str(error))
            results.append(result)
            if good_enough(result.granular_mode, fungibility):
                last = index == len(flavors) - 1
                return ScanResult(result, results, None if last or fungibility is None else index)
            if preferred(
                result.granular_mode, best.granular_mode if best else _NO_FIT, fungibility
            ):
                best = result
        return ScanResult(best, results)

    def _start(self, flavors: Sequence[str], resource: str, pod_set: int) -> int:
        if self.progress is None or self.fungibility is None:
            return 0
        start = self.progress.start(pod_set, resource)
        return start if start < len(flavors) else 0

    def _evaluate(
        self,
        flavor: str,
        group: GroupIndex,
        resources: Sequence[str],
        requests: Requests,
        members: Sequence[int],
    ) -> FlavorResult:
        reason = self._obstacle(flavor, group, resources, members)
        if reason is not None:
            return FlavorResult(flavor, _NO_FIT, {}, (reason,))
        columns = group.columns[flavor]
        # The queue's preference decides which resource is worst, even if the gate FlavorFungibility
        # is off.
        fungibility = self.queue.spec.fungibility
        overall = _FIT
        granular_modes: GranularModes = {}
        reasons: list[Reason] = []
        for resource in resources:
            granular_mode = self._granular_mode(
                columns[resource], requests[resource], members, reasons
            )
            granular_modes[resource] = granular_mode
            if granular_mode != overall and preferred(overall, granular_mode, fungibility):
                overall = granular_mode
        return FlavorResult(flavor, overall, granular_modes, reasons)

    def _obstacle(
        self, name: str, group: GroupIndex, resources: Sequence[str], members: Sequence[int]
    ) -> Reason | None:
        """Return why the flavor cannot be used, regardless of quota."""
        if self.pinned is not None and not self._keeps_pins(name, resources, members):
            return Reason(cause=RejectionCause.PINNED, flavor=name)
        allowed = self.workload.allowed_flavors
        if allowed is not None and name not in allowed:
            return Reason(cause=RejectionCause.RESTRICTED, flavor=name)
        flavor = self.snapshot.flavors.get(name)
        pod_sets = self.workload.pod_sets
        for member in members:
            pod_set = pod_sets[member]
            if (
                flavor is None
                or flavor.labels
                or flavor.taints
                or flavor.topology
                or pod_set.topology is not None
            ):
                reason = obstacle(name, pod_set, group.spec, self.queue, self.snapshot)
                if reason is not None:
                    return reason
        return None

    def _keeps_pins(self, flavor: str, resources: Sequence[str], members: Sequence[int]) -> bool:
        pinned = self.pinned or ()
        return all(
            pinned[member].get(resource, flavor) == flavor
            for member in members
            if member < len(pinned)
            for resource in resources
        )

    def _granular_mode(
        self,
        column: FlavorResource,
        requested: int,
        members: Sequence[int],
        reasons: list[Reason],
    ) -> GranularMode:
        """Return the mode of one resource on one flavor, and append its obstacles to `reasons`."""
        other = None if self.held is None else self._other_flavor(column, members)
        if other is None:
            return self._quota_mode(column, requested, reasons)
        reasons.append(_reason(RejectionCause.SLICE_FLAVOR, column, detail=other[0]))
        # As in Kueue, the quota that the pods would need on this flavor is evaluated as well.
        return NO_FIT, self._quota_mode(column, add(requested, other[1]), reasons)[1]

    def _quota_mode(
        self, column: FlavorResource, requested: int, reasons: list[Reason]
    ) -> GranularMode:
        node = self.node
        cell = node.cells.get(column) or node.cell(column)
        assumed = self.usage.get(column, 0)
        amount = add(assumed, requested) if assumed else requested
        if amount > cell.potential:
            asked = {"assumed": assumed, "requested": requested, "limit": cell.potential}
            reasons.append(_reason(RejectionCause.EXCEEDS_MAX, column, **asked))
            return _NO_FIT
        height, higher = lowest_fit(node, column, amount) if node.parent else (0, False)
        room = max(0, available(cell))
        if amount <= room:
            return (FIT, height) if height else _FIT
        asked = {"assumed": assumed, "requested": requested, "limit": room}
        missing, where = sub(amount, room), binding(node, column).name
        reasons.append(
            _reason(RejectionCause.INSUFFICIENT, column, missing=missing, where=where, **asked)
        )
        if not (cell.nominal >= amount or higher or self._preempts_while_borrowing()):
            return NO_FIT, height
        result = self.oracle(self.workload, self.queue, column, amount, self.snapshot)
        return PREEMPTION_MODES[result.possibility], result.height

    def _other_flavor(
        self, column: FlavorResource, members: Sequence[int]
    ) -> tuple[str, int] | None:
        """Return another flavor that the replaced slice uses, and the amount that it has there.

        The flavor is "" if the slice has none for a resource that its successor requests.
        """
        held, resource = self.held or (), column.resource
        for at, member in enumerate(members):
            requests = self.workload.pod_sets[member].requests
            if resource not in requests and resource != PODS:
                continue
            assigned = held[member]
            flavor = assigned.flavors.get(resource, "") if assigned is not None else ""
            if flavor != column.flavor:
                rest = (held[each] for each in members[at:])
                return flavor, sum(each.requests.get(resource, 0) for each in rest if each)
        return None

    def _preempts_while_borrowing(self) -> bool:
        rules = self.queue.spec.preemption
        if rules.borrow_within_cohort:
            return True
        fair = self.snapshot.policy.fair_sharing is not None
        return fair and rules.reclaim_within_cohort != "Never"


def _most_severe(reasons: Sequence[Reason]) -> WaitReason:
    return max(
        (_WAIT_REASONS.get(each.cause, WaitReason.NO_MATCHING_FLAVOR) for each in reasons),
        key=SEVERITY.index,
        default=WaitReason.NO_MATCHING_FLAVOR,
    )


def _reason(cause: RejectionCause, column: FlavorResource, **fields: Any) -> Reason:
    return Reason(cause=cause, flavor=column.flavor, resource=column.resource, **fields)


@lru_cache(1 << 14)
def _fitting(flavor: str, height: int) -> FlavorAttempt:
    return FlavorAttempt(flavor=flavor, mode=AssignmentMode.FIT, height=height)
