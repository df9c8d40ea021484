# SPDX-License-Identifier: Apache-2.0
"""Who comes first by time: the queue timestamp of a workload."""

from __future__ import annotations

from kuota.api.gates import Gate

from .model import Instant, Workload
from .policy import Policy
from .reasons import EvictionReason, PreemptionReason


def queue_timestamp(workload: Workload, policy: Policy) -> Instant:
    """The instant a workload is ranked by: its creation, unless an eviction sent it back."""
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
