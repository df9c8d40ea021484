# SPDX-License-Identifier: Apache-2.0
"""Who waits before whom in a ClusterQueue and in a LocalQueue, as a PendingWorkloadsSummary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Protocol

from kuota.api.base import Json, Key
from kuota.engine.engine import Engine
from kuota.engine.model import Struct, Workload

DEFAULT_LIMIT = 1000
LARGEST_LIMIT = 100_000


class PageRequest(Struct):
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


def in_cluster_queue(engine: Engine, name: str, window: PageRequest) -> list[Position] | None:
    """The line of a ClusterQueue, parked workloads included; None if there is no such queue."""
    return window.of(_line(engine, name)) if name in engine.queues else None


def in_local_queue(engine: Engine, key: Key, window: PageRequest) -> list[Position] | None:
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


GROUP = "visibility.kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""The preferred one first. Both have the same shapes."""
KIND = "PendingWorkloadsSummary"

_OF_OWNER = ("apiVersion", "kind", "name", "uid")


class Objects(Protocol):
    """The objects as they are stored."""

    def metadata(self, kind: str, key: Key) -> Json:
        """The metadata of a Workload; empty when it is gone by now."""


def summary(line: Iterable[Position], objects: Objects, version: str) -> Json:
    """The answer that lists these."""
    return {
        "kind": KIND,
        "apiVersion": f"{GROUP}/{version}",
        "metadata": {},
        "items": [item(each, objects) for each in line],
    }


def item(position: Position, objects: Objects) -> Json:
    """One PendingWorkload."""
    workload = position.workload
    return {
        "metadata": _metadata(position, objects.metadata("Workload", workload.key)),
        "priority": position.priority,
        "localQueueName": workload.queue,
        "positionInClusterQueue": position.in_cluster_queue,
        "positionInLocalQueue": position.in_local_queue,
    }


def _metadata(position: Position, stored: Json) -> Json:
    """Of a Workload's metadata only what tells whose it is."""
    workload = position.workload
    created = datetime.fromtimestamp(workload.created, UTC)
    found: Json = {
        "name": workload.key.name,
        "namespace": workload.key.namespace,
        "creationTimestamp": stored.get("creationTimestamp") or f"{created:%Y-%m-%dT%H:%M:%SZ}",
    }
    owners = [
        {field: owner.get(field, "") for field in _OF_OWNER}
        for owner in stored.get("ownerReferences") or ()
    ]
    return found | {"ownerReferences": owners} if owners else found
