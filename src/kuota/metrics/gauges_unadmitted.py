# SPDX-License-Identifier: Apache-2.0
"""Why workloads are not admitted, as their own conditions say, counted by queue and reason."""

from __future__ import annotations

from collections import Counter

from kuota.api.base import Key, condition, is_true
from kuota.api.workload import Workload
from kuota.bridge.variants import parent_of

from .board import Board
from .catalog_local import PREFIX
from .metric import CLUSTER_QUEUE, LOCAL_QUEUE


def read_unadmitted(board: Board) -> None:
    """Read every Workload that is neither admitted nor finished, and says why. Variants do not
    count: it is their parent that waits.
    """
    if not board.shows("kueue_unadmitted_workloads"):
        return
    counts: Counter[tuple[Key, str, str, str]] = Counter()
    local_queues = board.engine.state.local_queues
    for each in board.objects.workloads():
        found = _reasons(each)
        local = Key(each.metadata.namespace, each.spec.queue_name)
        if found is not None and local in local_queues and parent_of(each.metadata) is None:
            counts[local, local_queues[local].cluster_queue, *found] += 1
    shared: Counter[tuple[str, str, str]] = Counter()
    for (local, queue, reason, cause), count in counts.items():
        shared[queue, reason, cause] += count
        if board.measured(local):
            labels = (local.name, local.namespace, queue, reason, cause)
            custom = board.custom.values(LOCAL_QUEUE, local)
            board.put(f"{PREFIX}unadmitted_workloads", count, labels, custom)
    for (queue, reason, cause), count in shared.items():
        if queue in board.engine.state.queues:
            custom = board.custom.values(CLUSTER_QUEUE, Key("", queue))
            board.put("kueue_unadmitted_workloads", count, (queue, reason, cause), custom)


def _reasons(obj: Workload) -> tuple[str, str] | None:
    """The reasons of Admitted=False and QuotaReserved=False; None for one that does not say."""
    conditions = obj.status.conditions
    admitted = condition(conditions, "Admitted")
    if admitted is None or admitted.status != "False" or is_true(conditions, "Finished"):
        return None
    reserved = condition(conditions, "QuotaReserved")
    cause = reserved.reason if reserved is not None and reserved.status != "True" else ""
    return admitted.reason, cause
