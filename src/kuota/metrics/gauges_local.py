# SPDX-License-Identifier: Apache-2.0
"""What LocalQueues stand at, where they have metrics of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kuota.api.base import Key
from kuota.engine.amounts import Amounts, add_into
from kuota.engine.model import LocalQueue
from kuota.engine.roster import Running

from .board import Board, in_units
from .catalog_local import PREFIX
from .metric import LOCAL_QUEUE, WORKLOAD
from .series import Labels
from .waiting import Tally

_STATES = ("True", "False", "Unknown")


def read_local_queues(board: Board, waiting: Mapping[Key, Tally]) -> None:
    """Read all LocalQueues that are measured."""
    state = board.engine.state
    measured = [key for key in state.local_queues if board.measured(key)]
    if not measured:
        return
    running = _running(board)
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
        _read_use(board, state.local_queues[key], running.get(key, []), custom)
        _read_status(board, key, custom)


def _running(board: Board) -> dict[Key, list[Running]]:
    """Who holds quota in the ClusterQueue that their LocalQueue points at, by LocalQueue."""
    found: dict[Key, list[Running]] = {}
    state = board.engine.state
    for name, queue in state.queues.items():
        for each in queue.running.values():
            local = each.workload.local_queue
            spec = state.local_queues.get(local)
            if spec is not None and spec.cluster_queue == name:
                found.setdefault(local, []).append(each)
    return found


def _read_use(board: Board, spec: LocalQueue, running: list[Running], custom: Labels) -> None:
    at = (spec.key.name, spec.key.namespace)
    admitted = [each for each in running if each.workload.admitted]
    board.put(f"{PREFIX}reserving_active_workloads", len(running), at, custom)
    counts: Counter[Labels] = Counter(board.custom.values(WORKLOAD, each.key) for each in admitted)
    if not board.custom.names(WORKLOAD):
        counts[()] += 0
    for own, count in counts.items():
        board.put(f"{PREFIX}admitted_active_workloads", count, at, (*custom, *own))
    queue = board.engine.state.queues.get(spec.cluster_queue)
    columns = [c for group in queue.spec.groups for c in group.quotas] if queue else []
    for name, those in (("reservation", running), ("usage", admitted)):
        total: Amounts = {}
        for each in those:
            add_into(total, each.usage)
        for column in columns:
            value = in_units(total.get(column, 0), column.resource)
            labels = (*at, column.flavor, column.resource)
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
