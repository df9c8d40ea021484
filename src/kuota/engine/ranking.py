# SPDX-License-Identifier: Apache-2.0
"""When a pending workload is tried: its queue timestamp, its backoff, and relevant changes."""

from __future__ import annotations

from kuota.api.gates import Gate

from .model import Instant, Workload
from .policy import Policy
from .reasons import EvictionReason, PreemptionReason


def queue_timestamp(workload: Workload, policy: Policy) -> Instant:
    """Return the time by which a workload is ordered: its creation, or its eviction."""
    evicted = workload.evicted
    if evicted is not None:
        if evicted.reason == EvictionReason.PODS_READY_TIMEOUT and policy.by_eviction:
            return evicted.at
        if evicted.reason == EvictionReason.ADMISSION_CHECK:
            return evicted.at
    preempted = workload.preempted
    if (
        preempted is not None
        and preempted.reason == PreemptionReason.RECLAIM_WHILE_BORROWING
        and not policy.on(Gate.PrioritySortingWithinCohort)
    ):
        return preempted.at + 0.001
    return workload.created


def backoff_over(workload: Workload, now: Instant) -> bool:
    """Whether the workload is not in backoff."""
    if workload.requeued is False:
        return False
    return workload.requeue_at is None or workload.requeue_at <= now


def relevant_change(old: Workload, new: Workload) -> bool:
    """Whether an inadmissible workload may be admissible after this change."""
    return (
        old.generation != new.generation
        or old.priority != new.priority
        or old.queue != new.queue
        or old.scheduling_hash != new.scheduling_hash
        or old.closed_gates != new.closed_gates
        or old.requeued != new.requeued
        or (old.requeue_at is not None and new.requeue_at is None)
        or old.evicted != new.evicted
        or old.reclaimable != new.reclaimable
        or old.allowed_flavors != new.allowed_flavors
        or old.pod_sets != new.pod_sets
        or old.faults != new.faults
    )


def releases_quota(old: Workload, new: Workload) -> bool:
    """Whether the change may have released quota."""
    if old.finished:
        return False
    if new.finished > old.finished or new.active < old.active:
        return True
    if old.reservation is None:
        return False
    return (
        new.reservation is None
        or new.reclaimable != old.reclaimable
        or new.priority != old.priority
        or any(a.count < b.count for a, b in zip(new.pod_sets, old.pod_sets, strict=False))
    )
