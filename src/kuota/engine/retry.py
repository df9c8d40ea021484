# SPDX-License-Identifier: Apache-2.0
"""When a workload that was refused may be tried again, and which changes are worth a try."""

from __future__ import annotations

from .model import Instant, Workload


def backoff_over(workload: Workload, now: Instant) -> bool:
    """Whether nothing but room keeps the workload from being tried."""
    if workload.requeued is False:
        return False
    return workload.requeue_at is None or workload.requeue_at <= now


def relevant_change(old: Workload, new: Workload) -> bool:
    """Whether a parked workload may fare otherwise than when it was parked."""
    return (
        old.generation != new.generation
        or old.priority != new.priority
        or old.queue != new.queue
        or old.class_id != new.class_id
        or old.closed_gates != new.closed_gates
        or old.requeued != new.requeued
        or (old.requeue_at is not None and new.requeue_at is None)
        or old.evicted != new.evicted
        or old.reclaimable != new.reclaimable
        or old.allowed_flavors != new.allowed_flavors
        or old.pod_sets != new.pod_sets
        or old.faults != new.faults
    )
