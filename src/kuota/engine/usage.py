# SPDX-License-Identifier: Apache-2.0
"""How much of its quota a ClusterQueue or LocalQueue uses, flavor by flavor, as it is published."""

from __future__ import annotations

from collections.abc import Iterable

from kuota.api.base import Key

from .amounts import Amounts, FlavorResource, add_into
from .model import Struct
from .snapshot import Queue, Running


class Use(Struct):
    """One column of a queue: what is used, and how much of that exceeds the nominal quota."""

    column: FlavorResource
    total: int
    borrowed: int = 0


class QueueUse(Struct):
    """Use of a queue by workloads that hold quota, or only by those that are admitted."""

    workloads: int
    columns: tuple[Use, ...]


def reserved(queue: Queue, local_queue: Key | None = None) -> QueueUse:
    """What workloads hold in a ClusterQueue, or of it those of one LocalQueue."""
    return _use(queue, _of(queue, local_queue), shared=local_queue is None)


def admitted(queue: Queue, local_queue: Key | None = None) -> QueueUse:
    """The same, counting only workloads that have passed their checks and may run."""
    running = [each for each in _of(queue, local_queue) if each.workload.admitted]
    return _use(queue, running, shared=local_queue is None)


def _of(queue: Queue, local_queue: Key | None) -> list[Running]:
    return [
        each
        for each in queue.running.values()
        if local_queue is None or each.workload.local_queue == local_queue
    ]


def _use(queue: Queue, running: Iterable[Running], *, shared: bool) -> QueueUse:
    """Every declared column in the order of the spec. Only a ClusterQueue in a cohort borrows."""
    borrows = shared and queue.node.parent is not None
    total: Amounts = {}
    count = 0
    for each in running:
        count += 1
        add_into(total, each.usage)
    columns = tuple(
        Use(
            column=column,
            total=total.get(column, 0),
            borrowed=max(0, total.get(column, 0) - quota.nominal) if borrows else 0,
        )
        for group in queue.spec.groups
        for column, quota in group.quotas.items()
    )
    return QueueUse(workloads=count, columns=columns)
