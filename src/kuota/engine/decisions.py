# SPDX-License-Identifier: Apache-2.0
"""The closed list of decisions of a cycle. Each decision carries its reason as data.

Conditions, events and explanations are derived from these values in `kuota.bridge`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from kuota.api.base import Key

from .amounts import Amounts
from .assignment import WorkloadAssignment
from .model import Instant, PodSetReservation, Reservation, Struct, Workload
from .reasons import EvictionReason, PreemptionReason, RequeueReason, WaitReason


class WaitCause(StrEnum):
    """The detailed reason why a workload waits; more specific than the reason of its condition."""

    NO_FIT = "NoFit"
    NO_CANDIDATES = "NoCandidates"
    LOST_RACE = "LostRace"
    OVERLAP = "Overlap"
    DEFERRED = "Deferred"
    GATED = "Gated"
    NOT_READY = "NotReady"
    CHECKS_FAILED = "ChecksFailed"
    QUEUE_INACTIVE = "QueueInactive"
    QUEUE_MISSING = "QueueMissing"
    NAMESPACE_MISSING = "NamespaceMissing"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    INVALID = "Invalid"
    BETTER_SIBLING = "BetterSibling"
    FLAVOR_TOO_LOW = "FlavorTooLow"
    SECOND_PASS = "SecondPass"
    CLASS_REJECTED = "ClassRejected"
    INTERNAL_ERROR = "InternalError"


class Victim(Struct):
    """A running workload to preempt, and the reason. `leaving` means that it is already evicted."""

    workload: Workload
    cluster_queue: str
    path: str
    reason: PreemptionReason
    leaving: bool = False


class Admit(Struct):
    """Reserve quota. `checks` are the admission checks that the chosen flavors require.

    `replaced` is the slice that this workload replaces. It is finished, not evicted.
    """

    workload: Workload
    cluster_queue: str
    assignment: WorkloadAssignment
    checks: tuple[str, ...] = ()
    second_pass: bool = False
    replaced: Workload | None = None

    @property
    def usage(self) -> Amounts:
        """The usage that the workload is charged."""
        return self.assignment.usage if self.replaced is None else self.assignment.granted

    def reservation(self, since: Instant | None = None) -> Reservation:
        """Return the reservation. Without a time it counts as the most recent one."""
        given = tuple(
            PodSetReservation(
                name=each.name,
                flavors={name: choice.flavor for name, choice in each.flavors.items()},
                requests=each.requests,
                count=each.count,
                topology=each.topology,
                delayed_topology=each.delayed_topology,
            )
            for each in self.assignment.pod_sets
        )
        queue, usage = self.cluster_queue, self.usage
        return Reservation(cluster_queue=queue, pod_sets=given, usage=usage, since=since)

    @property
    def admitted(self) -> bool:
        """Whether the workload is Admitted at once, not only QuotaReserved.

        Every required check must be listed, every listed check Ready, and every pod placed.
        """
        states = self.workload.checks
        ready = states.keys() >= set(self.checks) and set(states.values()) <= {"Ready"}
        return ready and not any(each.topology_pending for each in self.assignment.pod_sets)


class Preempt(Struct):
    """Evict the victims. The workload waits for the quota that they release."""

    workload: Workload
    cluster_queue: str
    path: str
    assignment: WorkloadAssignment
    victims: tuple[Victim, ...]


class Migrate(Struct):
    """Evict the sibling variant on a less preferred flavor, then wait for its quota.

    `leaving` is true if the sibling is already being evicted.
    """

    workload: Workload
    cluster_queue: str
    assignment: WorkloadAssignment
    sibling: Workload
    leaving: bool = False


class Evict(Struct):
    """Evict one workload for a reason that concerns only itself."""

    workload: Workload
    cluster_queue: str
    reason: EvictionReason
    detail: str = ""


class Wait(Struct):
    """Do not admit the workload now.

    `reason` is written to the condition; `requeue` determines where the workload waits. Without an
    assignment the workload was rejected before quota was evaluated.
    """

    workload: Workload
    cluster_queue: str
    reason: WaitReason
    why: WaitCause
    requeue: RequeueReason = RequeueReason.GENERIC
    assignment: WorkloadAssignment | None = None
    details: tuple[str, ...] = ()


Decision = Admit | Preempt | Migrate | Evict | Wait


class Failure(NamedTuple):
    """An unexpected exception while a workload was processed."""

    key: Key
    error: Exception


class CycleResult(msgspec.Struct, frozen=True):
    """The decisions of one cycle, two counters for metrics, and unexpected failures.

    `skipped_preemptions` counts by ClusterQueue; `recomputations` by ClusterQueue and result. The
    caller reports the failures; their workloads wait.
    """

    decisions: tuple[Decision, ...] = ()
    skipped_preemptions: dict[str, int] = {}
    recomputations: dict[tuple[str, str], int] = {}
    failures: tuple[Failure, ...] = ()
