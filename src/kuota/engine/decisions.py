# SPDX-License-Identifier: Apache-2.0
"""The closed list of what a cycle decides. Each decision carries its reason as data.

Conditions, events and explanations are views of these values, made in `kuota.bridge`.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from kuota.api.base import Key

from .amounts import Amounts
from .assignment import Assignment
from .model import Assigned, Instant, Reservation, Struct, Workload
from .reasons import EvictionReason, PreemptionReason, RequeueReason, WaitReason


class Why(StrEnum):
    """What exactly keeps a workload waiting, finer than the reason of its condition."""

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
    """A running workload that has to go, and why it. `leaving` ones are on their way already."""

    workload: Workload
    cluster_queue: str
    path: str
    reason: PreemptionReason
    leaving: bool = False


class Admit(Struct):
    """Reserve quota. `checks` are the admission checks that the chosen flavors require.

    `replaced` is the slice that this workload takes over from; it is finished, not evicted.
    """

    workload: Workload
    cluster_queue: str
    assignment: Assignment
    checks: tuple[str, ...] = ()
    second_pass: bool = False
    replaced: Workload | None = None

    @property
    def usage(self) -> Amounts:
        """What the workload is charged from now on."""
        return self.assignment.usage if self.replaced is None else self.assignment.granted

    def reservation(self, since: Instant | None = None) -> Reservation:
        """What the workload holds. Without a time, it is as new as any."""
        given = tuple(
            Assigned(
                name=each.name,
                flavors={name: choice.flavor for name, choice in each.flavors.items()},
                requests=each.requests,
                count=each.count,
            )
            for each in self.assignment.pod_sets
        )
        queue, usage = self.cluster_queue, self.usage
        return Reservation(cluster_queue=queue, pod_sets=given, usage=usage, since=since)

    @property
    def whole(self) -> bool:
        """Whether quota was all that was missing: no check is left to be passed."""
        return all(self.workload.checks.get(name) == "Ready" for name in self.checks)


class Preempt(Struct):
    """Evict the victims; the workload waits for the room they leave."""

    workload: Workload
    cluster_queue: str
    path: str
    assignment: Assignment
    victims: tuple[Victim, ...]


class Migrate(Struct):
    """Evict the sibling variant that runs on a less preferred flavor, then wait for its room.

    `leaving` is true of a sibling that was told to go before.
    """

    workload: Workload
    cluster_queue: str
    assignment: Assignment
    sibling: Workload
    leaving: bool = False


class Evict(Struct):
    """Take a workload's quota away for a reason of its own."""

    workload: Workload
    cluster_queue: str
    reason: EvictionReason
    detail: str = ""


class Wait(Struct):
    """Not now. `reason` goes into the condition, `requeue` says where the workload waits.

    Without an assignment the workload was turned away before quota was looked at.
    """

    workload: Workload
    cluster_queue: str
    reason: WaitReason
    why: Why
    requeue: RequeueReason = RequeueReason.GENERIC
    assignment: Assignment | None = None
    details: tuple[str, ...] = ()


Decision = Admit | Preempt | Migrate | Evict | Wait


class Failure(NamedTuple):
    """A bug that showed when it was a workload's turn."""

    key: Key
    error: Exception


class Outcome(msgspec.Struct, frozen=True):
    """What one cycle decided, two counts that are published as metrics, and unexpected failures.

    Preemptions given up, by ClusterQueue; searches for other victims, by ClusterQueue and result.
    Whoever has the engine reports the failures; their workloads wait.
    """

    decisions: tuple[Decision, ...] = ()
    skipped_preemptions: dict[str, int] = {}
    recomputations: dict[tuple[str, str], int] = {}
    failures: tuple[Failure, ...] = ()
