# SPDX-License-Identifier: Apache-2.0
"""What cohorts stand at: their place, their share, and what all queues below them hold."""

from __future__ import annotations

from collections import Counter

from kuota.api.base import Key
from kuota.engine.amounts import Amounts, add_into
from kuota.engine.tree import Node

from .board import Board, in_units
from .gauges_queue import cohorts_above, share_of
from .metric import CLUSTER_QUEUE, COHORT
from .series import Labels


def read_cohorts(board: Board) -> None:
    """Read all cohorts, also those that are only named. Those in a cycle have no subtree."""
    for name, node in board.engine.state.tree.cohorts.items():
        custom = board.custom.values(COHORT, Key("", name))
        board.put("kueue_cohort_info", 1, (name, *cohorts_above(node)), custom)
        if node.cyclic:
            continue
        if board.shows("kueue_cohort_weighted_share"):
            board.put("kueue_cohort_weighted_share", share_of(node), (name,), custom)
        if board.shows("kueue_cohort_subtree_quota"):
            _read_subtree(board, node, custom)


def _read_subtree(board: Board, node: Node, custom: Labels) -> None:
    """Read quota and use of all below. Nothing has no series, as in Kueue."""
    reserved: Amounts = {}
    admitted: Counter[Labels] = Counter()
    for name in sorted(node.leaf_names):
        queue = board.engine.state.queues[name]
        own = board.custom.values(CLUSTER_QUEUE, Key("", name))
        admitted[own] += queue.running.tally(admitted=True).count
        add_into(reserved, queue.running.tally().amounts)
    quota = {column: cell.subtree for column, cell in node.cells.items()}
    for name, amounts in (("quota", quota), ("resource_reservations", reserved)):
        for column, amount in amounts.items():
            if amount > 0:
                labels = (node.name, column.flavor, column.resource)
                value = in_units(amount, column.resource)
                board.put(f"kueue_cohort_subtree_{name}", value, labels, custom)
    for own, count in admitted.items():
        name = "kueue_cohort_subtree_admitted_active_workloads"
        board.put(name, count, (node.name,), own)
