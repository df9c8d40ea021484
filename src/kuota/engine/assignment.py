# SPDX-License-Identifier: Apache-2.0
"""Flavor assignments: the flavors a workload would get, how well they fit, and what was tried."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import msgspec

from kuota.api.quantity import add
from kuota.api.workload import TopologyAssignment

from .amounts import Amounts, FlavorResource, Requests
from .model import Struct
from .reasons import SEVERITY, Reason, RejectionCause, WaitReason
from .usage import PlacedPods


class AssignmentMode(IntEnum):
    """How well an assignment fits, worst to best."""

    NO_FIT = 0
    PREEMPT = 1
    DEFERRED_FIT = 2
    FIT = 3

    def __str__(self) -> str:
        return self.name.title().replace("_", "")


class PreemptionPossibility(IntEnum):
    """What preemption can achieve for one column, worst to best.

    RECLAIM needs no victim in the own queue.
    """

    NO_CANDIDATES = 0
    PREEMPT = 1
    RECLAIM = 2

    def __str__(self) -> str:
        return self.name.title().replace("_", "")


class OracleResult(msgspec.Struct, frozen=True, gc=False):
    """The answer of the preemption oracle, and the borrowing height after the preemption."""

    possibility: PreemptionPossibility
    height: int


class FlavorAssignment(Struct):
    """The flavor assigned to one resource.

    `tried` is the index at which the scan stopped, or None if it reached the last flavor. `height`
    is the height in the tree at which the quota is available; 0 means without borrowing.
    """

    flavor: str
    mode: AssignmentMode
    height: int = 0
    tried: int | None = None


class FlavorAttempt(Struct):
    """One flavor that was tried for one resource group, with the result.

    `preemption` is what the oracle found ("NoCandidates", "Preempt", "Reclaim"), or "" if it was
    not asked.
    """

    flavor: str
    mode: AssignmentMode
    height: int = 0
    no_fit: WaitReason | None = None
    reasons: tuple[Reason, ...] = ()
    preemption: str = ""

    @property
    def rejected(self) -> bool:
        """Whether the flavor was evaluated and does not fit. Excluded flavors are not evaluated."""
        excluded = self.reasons and self.reasons[0].cause in _EXCLUDED
        return self.mode is AssignmentMode.NO_FIT and not excluded


_EXCLUDED = frozenset({RejectionCause.PINNED, RejectionCause.RESTRICTED})


def no_fit_reason(groups: Iterable[Iterable[FlavorAttempt]]) -> WaitReason:
    """Return why there is no assignment, given the attempts of each resource group.

    Every group is required, so the most severe group counts. Within a group any flavor would do, so
    the least severe rejection counts, even if another flavor fits.
    """
    found = (
        [each.no_fit for each in attempts if each.no_fit and each.rejected] for attempts in groups
    )
    mildest = (min(reasons, key=SEVERITY.index) for reasons in found if reasons)
    return max(mildest, key=SEVERITY.index, default=WaitReason.NO_MATCHING_FLAVOR)


class PodSetAssignment(Struct):
    """The assignment of one pod set. If `error` is set, the spec is invalid, and only the attempts
    until that was found are set.

    `topology` is where the pods would be placed; `kuota.engine.placement` sets it. With
    `delayed_topology` "Pending" they are placed later, and with "Ready" they were.
    """

    name: str
    count: int
    requests: Requests
    flavors: dict[str, FlavorAssignment] = {}
    reasons: tuple[Reason, ...] = ()
    attempts: tuple[FlavorAttempt, ...] = ()
    error: str = ""
    delayed_topology: str = ""
    topology: TopologyAssignment | None = None

    @property
    def topology_pending(self) -> bool:
        return self.topology is None and self.delayed_topology == "Pending"

    @property
    def mode(self) -> AssignmentMode:
        if not self.reasons and not self.error:
            return AssignmentMode.FIT
        if self.error or not self.flavors:
            return AssignmentMode.NO_FIT
        return min(each.mode for each in self.flavors.values())


class ScanProgress(Struct):
    """The position of the flavor scan for each pod set and resource; None means the last flavor.

    `cycle`, `generation` and `scheduling_hash` record when it was made, to detect outdated
    progress.
    """

    tried: tuple[dict[str, int | None], ...] = ()
    cycle: int = 0
    generation: int = 0
    scheduling_hash: str = ""

    @property
    def pending(self) -> bool:
        """Whether a scan stopped before the last flavor, so that the next one continues there."""
        return any(index is not None for each in self.tried for index in each.values())

    def start(self, pod_set: int, resource: str) -> int:
        """Return the index of the first flavor to try."""
        if pod_set >= len(self.tried):
            return 0
        index = self.tried[pod_set].get(resource)
        return 0 if index is None else index + 1


class WorkloadAssignment(Struct):
    """The flavors of a whole workload. Mode and height are those of its worst pod set.

    `usage` is what the workload would be charged: every pod set and resource with a flavor, minus
    what the replaced slice already uses. `places` are the nodes that its pods would use.
    """

    pod_sets: tuple[PodSetAssignment, ...]
    usage: Amounts
    mode: AssignmentMode
    height: int = 0
    no_fit: WaitReason | None = None
    progress: ScanProgress = ScanProgress()
    places: tuple[PlacedPods, ...] = ()

    @property
    def needed(self) -> frozenset[FlavorResource]:
        """The columns that do not fit without preemption."""
        return frozenset(
            FlavorResource(choice.flavor, resource)
            for pod_set in self.pod_sets
            for resource, choice in pod_set.flavors.items()
            if choice.mode is AssignmentMode.PREEMPT
        )

    @property
    def pinned(self) -> tuple[dict[str, str], ...]:
        """The flavor of every resource, per pod set. A recomputation must not change them."""
        return tuple(
            {resource: choice.flavor for resource, choice in pod_set.flavors.items()}
            for pod_set in self.pod_sets
        )

    @property
    def granted(self) -> Amounts:
        """Everything the pod sets are assigned, including what a replaced slice already uses."""
        total: Amounts = {}
        for pod_set in self.pod_sets:
            for resource, choice in pod_set.flavors.items():
                column = FlavorResource(choice.flavor, resource)
                total[column] = add(total.get(column, 0), pod_set.requests.get(resource, 0))
        return total

    def deferred(self) -> WorkloadAssignment:
        """Return the same flavors as a fit that waits for evictions."""
        return msgspec.structs.replace(self, mode=AssignmentMode.DEFERRED_FIT)

    @classmethod
    def nothing(cls) -> WorkloadAssignment:
        """Return the assignment of a workload that was not evaluated."""
        return cls(pod_sets=(), usage={}, mode=AssignmentMode.NO_FIT)
