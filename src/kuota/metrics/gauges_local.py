# SPDX-License-Identifier: Apache-2.0
"""Gauges of LocalQueues where they have metrics of their own, and of workloads by why they wait."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kuota.api.base import Key, condition, is_true
from kuota.api.workload import Workload
from kuota.bridge.queue_status import QueueUse, admitted, reserved
from kuota.bridge.variants import parent_of
from kuota.engine.model import LocalQueue

from .board import Board, PendingCounts, in_units
from .catalog import PREFIX
from .metric import CLUSTER_QUEUE, LOCAL_QUEUE, WORKLOAD
from .series import Labels

_STATES = ("True", "False", "Unknown")


def read_local_queues(board: Board, waiting: Mapping[Key, PendingCounts]) -> None:
    """Read all LocalQueues that are measured."""
    state = board.engine.state
    measured = [key for key in state.local_queues if board.measured(key)]
    if not measured:
        return
    labelled = _labelled(board)
    finished: Counter[Key] = Counter(
        each.local_queue
        for each in state.workloads.values()
        if each.finished and not each.parent_uid
    )
    for key in measured:
        custom = board.custom.values(LOCAL_QUEUE, key)
        at = (key.name, key.namespace)
        board.put_each(f"{PREFIX}pending_workloads", waiting[key].counts, at, custom)
        board.put(f"{PREFIX}finished_workloads", finished[key], at, custom)
        _read_use(board, state.local_queues[key], labelled.get(key, {}), custom)
        _read_status(board, key, custom)


def _labelled(board: Board) -> dict[Key, Counter[Labels]]:
    """Who is admitted, by LocalQueue and the Workloads' custom labels, if there are such labels."""
    found: dict[Key, Counter[Labels]] = {}
    state = board.engine.state
    for name, queue in state.queues.items() if board.custom.names(WORKLOAD) else ():
        for each in queue.running.values():
            spec = state.local_queues.get(each.workload.local_queue)
            stored = each.workload.admitted and not each.assumed
            if stored and spec is not None and spec.cluster_queue == name:
                labels = board.custom.values(WORKLOAD, each.key)
                found.setdefault(spec.key, Counter())[labels] += 1
    return found


def _read_use(
    board: Board, spec: LocalQueue, labelled: Mapping[Labels, int], custom: Labels
) -> None:
    """Read what is held in the ClusterQueue that the LocalQueue points at."""
    at = (spec.key.name, spec.key.namespace)
    queue = board.engine.state.queues.get(spec.cluster_queue)
    holding = reserved(queue, spec.key) if queue is not None else QueueUse()
    running = admitted(queue, spec.key) if queue is not None else QueueUse()
    board.put(f"{PREFIX}reserving_active_workloads", holding.workloads, at, custom)
    if not board.custom.names(WORKLOAD):
        labelled = {(): running.workloads}
    for own, count in labelled.items():
        board.put(f"{PREFIX}admitted_active_workloads", count, at, (*custom, *own))
    for name, use in (("reservation", holding), ("usage", running)):
        for each in use.columns:
            value = in_units(each.total, each.column.resource)
            labels = (*at, each.column.flavor, each.column.resource)
            board.put(f"{PREFIX}resource_{name}", value, labels, custom)


def _read_status(board: Board, key: Key, custom: Labels) -> None:
    engine = board.engine
    at, spec = (key.name, key.namespace), engine.state.local_queues[key]
    active = str(not engine.state.local_obstacles(key))
    board.put_each(f"{PREFIX}status", {each: float(each == active) for each in _STATES}, at, custom)
    ledger = engine.history.ledger
    queue = engine.state.queues.get(spec.cluster_queue)
    if ledger is not None and queue is not None and queue.spec.usage_based:
        name, labels = f"{PREFIX}admission_fair_sharing_usage", (*at, spec.cluster_queue)
        board.put(name, engine.history.use(key), labels, custom)


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
