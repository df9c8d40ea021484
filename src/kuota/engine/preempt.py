# SPDX-License-Identifier: Apache-2.0
"""Preemption: which workloads to evict so that a workload fits.

There are two searches, `classical` and `fair_preempt`; the policy selects one. This module only
selects victims; the cycle decides whether to evict them.
"""

from __future__ import annotations

from collections.abc import Callable

from . import classical, fair_preempt
from .amounts import Amounts, FlavorResource
from .assignment import OracleResult, PreemptionPossibility
from .bounds import lowest_fit
from .candidates import NEVER, PreemptionRequest, Target
from .model import Workload
from .snapshot import Queue, Snapshot

__all__ = ["OracleResult", "PreemptionPossibility", "Target", "oracle", "targets"]


def targets(
    workload: Workload,
    queue: Queue,
    needed: frozenset[FlavorResource],
    amounts: Amounts,
    snapshot: Snapshot,
    fits: Callable[[], bool] | None = None,
) -> tuple[Target, ...]:
    """Return the victims that make the whole request fit, or nothing. The snapshot is unchanged.

    Every victim uses at least one of the `needed` columns. After the quota fits, `fits` is called
    with the victims removed from the snapshot, to test whether the pods can be placed.
    """
    if not _preemption_enabled(queue):
        return ()
    request = PreemptionRequest(workload, queue, needed, amounts, snapshot, fits)
    if snapshot.policy.fair_sharing is None:
        return classical.victims(request)
    return fair_preempt.victims(request)


def oracle(
    workload: Workload, queue: Queue, column: FlavorResource, amount: int, snapshot: Snapshot
) -> OracleResult:
    """Return what preemption can achieve for one column alone.

    All columns together may still fail.
    """
    found = targets(workload, queue, frozenset((column,)), {column: amount}, snapshot)
    if not found:
        return OracleResult(
            PreemptionPossibility.NO_CANDIDATES, lowest_fit(queue.node, column, amount)[0]
        )
    with snapshot.trial():
        for target in found:
            snapshot.remove(target.running)
        height, _ = lowest_fit(queue.node, column, amount)
    own = any(target.running.queue == queue.name for target in found)
    return OracleResult(
        PreemptionPossibility.PREEMPT if own else PreemptionPossibility.RECLAIM, height
    )


def _preemption_enabled(queue: Queue) -> bool:
    rules = queue.spec.preemption
    if rules.within_cluster_queue not in NEVER:
        return True
    return queue.node.parent is not None and rules.reclaim_within_cohort not in NEVER
