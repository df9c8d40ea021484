# SPDX-License-Identifier: Apache-2.0
"""Who waits where, counted in one pass over all that wait."""

from __future__ import annotations

from collections import Counter

from kuota.api.base import Key
from kuota.engine.amounts import Requests
from kuota.engine.model import Workload
from kuota.engine.pending import Place

from .board import Board
from .metric import WORKLOAD
from .series import Labels

ACTIVE = "active"
INADMISSIBLE = "inadmissible"


class Tally:
    """Those who wait in one queue, by status: how many, of which kinds, with which labels.

    All that wait in an inactive ClusterQueue are inadmissible.
    """

    __slots__ = ("classes", "counts", "labels", "requests")

    def __init__(self) -> None:
        self.counts: dict[str, float] = {ACTIVE: 0, INADMISSIBLE: 0}
        self.classes: dict[str, set[str | Key]] = {ACTIVE: set(), INADMISSIBLE: set()}
        self.labels: Counter[tuple[str, Labels]] = Counter()
        self.requests: Requests = {}

    def add(self, workload: Workload, status: str, labels: Labels) -> None:
        self.counts[status] += 1
        self.classes[status].add(workload.class_id or workload.key)
        if labels:
            self.labels[status, labels] += 1

    def ask(self, workload: Workload) -> None:
        for pod_set in workload.pod_sets:
            for resource, amount in pod_set.requests.items():
                self.requests[resource] = self.requests.get(resource, 0) + amount


def waiting(board: Board) -> tuple[dict[str, Tally], dict[Key, Tally]]:
    """Those who wait by ClusterQueue, and by LocalQueue."""
    engine = board.engine
    by_name = {name: Tally() for name in engine.state.queues}
    by_key: dict[Key, Tally] = {}
    labelled = bool(board.custom.names(WORKLOAD))
    summed = board.shows("kueue_cluster_queue_resource_pending")
    for key, spec in engine.state.local_queues.items():
        own = by_key[key] = Tally()
        name = spec.cluster_queue
        if name not in by_name or name not in engine.queues:
            continue
        shared, queue, active = by_name[name], engine.queues[name], engine.state.pops(name)
        for workload in engine.queues.members(key):
            place = queue.place(workload.key)
            if place is None:
                continue
            status = ACTIVE if active and place is not Place.PARKED else INADMISSIBLE
            labels = board.custom.values(WORKLOAD, workload.key) if labelled else ()
            own.add(workload, status, ())
            shared.add(workload, status, labels)
            if summed:
                shared.ask(workload)
    return by_name, by_key
