# SPDX-License-Identifier: Apache-2.0
"""How much of its quota a ClusterQueue or LocalQueue uses, flavor by flavor, as it is published."""

from __future__ import annotations

from kuota.api.base import Key
from kuota.api.quantity import UNLIMITED

from .amounts import FlavorResource
from .model import Struct
from .roster import Tally
from .snapshot import Queue


class Use(Struct):
    """One column of a queue: what is used, and how much of that exceeds the nominal quota."""

    column: FlavorResource
    total: int
    borrowed: int = 0


class QueueUse(Struct):
    """Use of a queue by workloads that hold quota, or only by those that are admitted."""

    workloads: int = 0
    columns: tuple[Use, ...] = ()


def reserved(queue: Queue, local_queue: Key | None = None) -> QueueUse:
    """What workloads hold in a ClusterQueue, or of it those of one LocalQueue."""
    return _use(queue, queue.running.tally(local_queue), shared=local_queue is None)


def admitted(queue: Queue, local_queue: Key | None = None) -> QueueUse:
    """The same, counting only workloads that have passed their checks and may run."""
    tally = queue.running.tally(local_queue, admitted=True)
    return _use(queue, tally, shared=local_queue is None)


def _use(queue: Queue, tally: Tally, *, shared: bool) -> QueueUse:
    """Every declared column in the order of the spec. Only a ClusterQueue in a cohort borrows."""
    borrows = shared and queue.node.parent is not None
    columns = []
    for group in queue.spec.groups:
        for column, quota in group.quotas.items():
            total = min(tally.amounts.get(column, 0), UNLIMITED)
            borrowed = max(0, total - quota.nominal) if borrows else 0
            columns.append(Use(column=column, total=total, borrowed=borrowed))
    return QueueUse(workloads=tally.count, columns=tuple(columns))
