# SPDX-License-Identifier: Apache-2.0
"""Nomination: which heads take part in a cycle, with which flavors and victims.

Every head is evaluated on the same snapshot; `settle` decides later which of them get the quota. A
workload that does not fit completely and allows partial admission is tried with fewer pods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from kuota.api.gates import Gate
from kuota.api.match import matches

from .assignment import AssignmentMode, ScanProgress, WorkloadAssignment
from .decisions import Wait, WaitCause
from .entry import Entry, Head
from .flavors import Pinned, assign
from .model import Namespace, Workload
from .placed_assignment import placed_after, placement_test
from .policy import Policy
from .preempt import Target, oracle, targets
from .reasons import RequeueReason, WaitReason
from .snapshot import ChargedWorkload, Queue, Snapshot

T = TypeVar("T")


def partial(workload: Workload, try_counts: Callable[[list[int]], T | None]) -> T | None:
    """Return the result for the largest size that works; None if no size works.

    Sizes reduce all pod sets in proportion, from the counts of the spec to the minimum. The binary
    search assumes that every size below one that works also works.
    """
    full = [pod_set.count for pod_set in workload.pod_sets]
    spare = [
        0 if pod_set.min_count is None else max(0, pod_set.count - pod_set.min_count)
        for pod_set in workload.pod_sets
    ]
    steps = sum(spare)
    if steps == 0:
        return None
    best: T | None = None
    low, high = 0, steps + 1
    while low < high:
        step = (low + high) // 2
        found = try_counts(counts_at(step, full, spare))
        if found is None:
            low = step + 1
        else:
            best, high = found, step
    return best


def counts_at(step: int, full: list[int], spare: list[int]) -> list[int]:
    """Return the counts after `step` of as many steps as there are spare pods."""
    steps = sum(spare)
    return [count - less * step // steps for count, less in zip(full, spare, strict=True)]


_FAILED_CHECKS = frozenset({"Retry", "Rejected"})


def nominate(
    head: Head, snapshot: Snapshot, namespaces: Mapping[str, Namespace]
) -> Entry | Wait | None:
    """Return an entry, the reason why the head waits, or None if it is not pending."""
    workload = head.workload
    queue = snapshot.queues.get(head.cluster_queue)
    if queue is not None and workload.key in queue.running and not head.second_pass:
        return None
    rejection = _rejection(head, queue, namespaces)
    if rejection is not None or queue is None:
        return rejection
    entry = Entry(head, queue, snapshot.policy)
    entry.replaced = replaced_slice(workload, queue)
    entry.assignment, entry.targets = plan(entry, snapshot, _valid_progress(head, queue, snapshot))
    if entry.assignment.mode is AssignmentMode.NO_FIT:
        entry.replaced = None
    return entry


def _rejection(head: Head, queue: Queue | None, namespaces: Mapping[str, Namespace]) -> Wait | None:
    """Return why the head is rejected before quota is evaluated; the first obstacle counts."""
    workload = head.workload
    if not _FAILED_CHECKS.isdisjoint(workload.checks.values()):
        return head.wait(WaitReason.PENDING_EVALUATION, WaitCause.CHECKS_FAILED)
    if queue is None:
        return head.wait(WaitReason.MISCONFIGURED, WaitCause.QUEUE_MISSING)
    if not queue.active:
        return head.wait(WaitReason.SUSPENDED, WaitCause.QUEUE_INACTIVE)
    namespace = namespaces.get(workload.key.namespace)
    if namespace is None:
        return head.wait(WaitReason.MISCONFIGURED, WaitCause.NAMESPACE_MISSING)
    if not matches(queue.spec.namespace_selector, namespace.labels):
        requeue = RequeueReason.NAMESPACE_MISMATCH
        return head.wait(WaitReason.MISCONFIGURED, WaitCause.NAMESPACE_MISMATCH, requeue)
    if workload.faults:
        return head.wait(WaitReason.MISCONFIGURED, WaitCause.INVALID, details=workload.faults)
    return None


def replaced_slice(workload: Workload, queue: Queue) -> ChargedWorkload | None:
    """Return the charged slice that an elastic workload replaces, if it is in the same queue."""
    return queue.running.get(workload.replaces) if workload.replaces is not None else None


def outdated(
    progress: ScanProgress, head: Head, generation: int, cycle: int, policy: Policy
) -> bool:
    """Whether the scan has to start over."""
    if policy.on(Gate.FlavorFungibilityPreserveScanProgress):
        before, after = progress.scheduling_hash, head.workload.scheduling_hash
        if before and after and before != after:
            return True
        if cycle - progress.cycle <= 1:
            return False
    return generation > progress.generation


def _valid_progress(head: Head, queue: Queue, snapshot: Snapshot) -> ScanProgress | None:
    progress = head.progress
    if progress is None or outdated(
        progress, head, queue.node.generation, snapshot.cycle, snapshot.policy
    ):
        return None
    return progress


Plan = tuple[WorkloadAssignment, tuple[Target, ...]]


def plan(
    entry: Entry, snapshot: Snapshot, progress: ScanProgress | None, pinned: Pinned | None = None
) -> Plan:
    """Return flavors and victims for all pods or, with partial admission, for fewer."""
    workload, queue = entry.workload, entry.queue
    new = entry.replaced is None and workload.reservation is None
    shrinks = new and snapshot.policy.on(Gate.PartialAdmission)

    def attempt(counts: Sequence[int] | None) -> Plan:
        found = assign(
            workload,
            queue,
            snapshot,
            oracle,
            counts=counts,
            progress=progress,
            pinned=pinned,
            replaced=entry.replaced,
        )
        if found.mode is not AssignmentMode.PREEMPT:
            return found, ()
        if workload.replaces_nodes:
            # Others are not preempted to replace a failed node.
            return found, ()
        context = workload, queue, snapshot, entry.replaced
        fits = placement_test(found, *context)
        # A workload with a reservation has its quota already.
        amounts = found.usage if workload.reservation is None else {}
        victims = targets(workload, queue, found.needed, amounts, snapshot, fits)
        gone = [each.running for each in victims]
        return placed_after(gone, found, *context), victims

    def successful(counts: Sequence[int]) -> Plan | None:
        found, victims = attempt(counts)
        return (found, victims) if found.mode is AssignmentMode.FIT or victims else None

    full, victims = attempt(None)
    if full.mode is AssignmentMode.FIT or victims or not shrinks:
        return full, victims
    return partial(workload, successful) or (full, ())
