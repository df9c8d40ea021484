# SPDX-License-Identifier: Apache-2.0
"""Who waits before whom, in a ClusterQueue and in a LocalQueue. Decides nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

from kuota.api.base import Key
from kuota.engine.engine import Engine
from kuota.engine.model import Struct, Workload

DEFAULT_LIMIT = 1000
LARGEST_LIMIT = 100_000


class Window(Struct):
    """Which part of a line is asked for. Less than nothing is nothing; too much is cut."""

    offset: int = 0
    limit: int = DEFAULT_LIMIT

    def of(self, line: Iterable[Position]) -> list[Position]:
        start = max(0, self.offset)
        return list(islice(line, start, start + min(max(0, self.limit), LARGEST_LIMIT)))


class Position(Struct):
    """A workload that waits, and how many wait before it."""

    workload: Workload
    in_cluster_queue: int
    in_local_queue: int

    @property
    def priority(self) -> int:
        """Its own priority. The order goes by the effective one, with its boost."""
        return self.workload.priority - self.workload.boost


def in_cluster_queue(engine: Engine, name: str, window: Window) -> list[Position] | None:
    """The line of a ClusterQueue, parked workloads included; None if there is no such queue."""
    return window.of(_line(engine, name)) if name in engine.queues else None


def in_local_queue(engine: Engine, key: Key, window: Window) -> list[Position] | None:
    """Of that line only those of one LocalQueue; None if there is no such queue."""
    spec = engine.state.local_queues.get(key)
    if spec is None:
        return None
    if spec.cluster_queue not in engine.queues:
        return []
    line = _line(engine, spec.cluster_queue)
    return window.of(each for each in line if each.workload.local_queue == key)


def _line(engine: Engine, name: str) -> Iterator[Position]:
    seen: Counter[Key] = Counter()
    for index, workload in enumerate(engine.queues[name].ordered()):
        local = workload.local_queue
        yield Position(workload=workload, in_cluster_queue=index, in_local_queue=seen[local])
        seen[local] += 1
