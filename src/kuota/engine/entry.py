# SPDX-License-Identifier: Apache-2.0
"""A workload in one cycle, from the head of its queue to a decision."""

from __future__ import annotations

import msgspec

from .assignment import ScanProgress, WorkloadAssignment
from .decisions import Wait, WaitCause
from .model import Instant, Workload
from .policy import Policy
from .preempt import Target
from .ranking import queue_timestamp
from .reasons import RequeueReason, WaitReason
from .snapshot import ChargedWorkload, Queue
from .usage import Usage, added_places


class Head(msgspec.Struct, frozen=True):
    """The head of a queue. A `preemptor` waits for evictions that were issued for it."""

    workload: Workload
    cluster_queue: str
    progress: ScanProgress | None = None
    preemptor: bool = False
    second_pass: bool = False

    def wait(
        self,
        reason: WaitReason,
        why: WaitCause,
        requeue: RequeueReason = RequeueReason.GENERIC,
        details: tuple[str, ...] = (),
    ) -> Wait:
        """Return the decision to wait, made before quota was evaluated."""
        return Wait(
            workload=self.workload,
            cluster_queue=self.cluster_queue,
            reason=reason,
            why=why,
            requeue=requeue,
            details=details,
        )


class Entry:
    """A nominated head: its flavor assignment and the workloads to preempt for it."""

    __slots__ = ("assignment", "head", "queue", "replaced", "targets", "timestamp", "workload")

    def __init__(self, head: Head, queue: Queue, policy: Policy) -> None:
        self.head = head
        self.workload = head.workload
        self.queue = queue
        self.timestamp: Instant = queue_timestamp(head.workload, policy)
        self.assignment = WorkloadAssignment.nothing()
        self.targets: tuple[Target, ...] = ()
        self.replaced: ChargedWorkload | None = None

    @property
    def usage(self) -> Usage:
        """The usage that admission adds.

        On a second pass these are only new places; for a slice, it is the difference to the slice
        that it replaces.
        """
        places, held = self.assignment.places, self.workload.reservation
        if held is not None:
            return Usage(places=added_places(places, held))
        replaced = self.replaced.workload.reservation if self.replaced is not None else None
        if replaced is not None and places:
            places = added_places(places, replaced)
        return Usage(quota=self.assignment.usage, places=places)

    def __repr__(self) -> str:
        return f"Entry({self.workload.key} {self.assignment.mode} in {self.queue.name})"
