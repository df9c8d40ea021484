# SPDX-License-Identifier: Apache-2.0
"""Positions of pending workloads in ClusterQueues and LocalQueues (PendingWorkloadsSummary)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Protocol

from kuota.api.base import Json, Key
from kuota.engine.engine import Engine
from kuota.engine.model import Struct, Workload

from .documents import ApiGroup, ServedResource, Subresource, object_schema

DEFAULT_LIMIT = 1000
LARGEST_LIMIT = 100_000


class PageRequest(Struct):
    """The requested page. A negative value counts as 0; a large limit is capped."""

    offset: int = 0
    limit: int = DEFAULT_LIMIT

    def of(self, line: Iterable[Position]) -> list[Position]:
        start = max(0, self.offset)
        return list(islice(line, start, start + min(max(0, self.limit), LARGEST_LIMIT)))


class Position(Struct):
    """A pending workload and its positions."""

    workload: Workload
    in_cluster_queue: int
    in_local_queue: int

    @property
    def priority(self) -> int:
        """Its own priority. The order uses the effective priority, including the boost."""
        return self.workload.priority - self.workload.boost


def in_cluster_queue(engine: Engine, name: str, window: PageRequest) -> list[Position] | None:
    """Return the positions of a ClusterQueue in any state; None if it does not exist."""
    return window.of(_line(engine, name)) if name in engine.queues else None


def in_local_queue(engine: Engine, key: Key, window: PageRequest) -> list[Position] | None:
    """Return the positions of one LocalQueue; None if it does not exist."""
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
"""The preferred version first. Both have the same schema."""
KIND = "PendingWorkloadsSummary"
SUBRESOURCE = "pendingworkloads"

_OF_OWNER = ("apiVersion", "kind", "name", "uid")


def _schemas(ref: Callable[[str], str]) -> Json:
    number: Json = {"type": "integer", "format": "int32"}
    text: Json = {"type": "string"}
    anything: Json = {"type": "object"}
    one = object_schema(
        metadata=anything,
        priority=number,
        localQueueName=text,
        positionInClusterQueue=number,
        positionInLocalQueue=number,
    )
    items = {"type": "array", "items": {"$ref": ref("PendingWorkload")}}
    many = object_schema(apiVersion=text, kind=text, metadata=anything, items=items)
    return {"PendingWorkload": one, KIND: many}


_PAGES = (Subresource(SUBRESOURCE, KIND, ("limit", "offset")),)

API = ApiGroup(
    name=GROUP,
    versions=VERSIONS,
    resources=(
        ServedResource("clusterqueues", "ClusterQueue", False, _PAGES),
        ServedResource("localqueues", "LocalQueue", True, _PAGES),
    ),
    schemas=_schemas,
    package="io.x-k8s.kueue.visibility",
)
"""Kueue's visibility API."""


class MetadataLookup(Protocol):
    """Access to stored objects."""

    def metadata(self, kind: str, key: Key) -> Json:
        """Return the metadata of a Workload; empty if it no longer exists."""


def summary(line: Iterable[Position], objects: MetadataLookup, version: str) -> Json:
    """Return the summary of these positions."""
    return {
        "kind": KIND,
        "apiVersion": f"{GROUP}/{version}",
        "metadata": {},
        "items": [item(each, objects) for each in line],
    }


def item(position: Position, objects: MetadataLookup) -> Json:
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
    """Return the part of a Workload's metadata that identifies its owner."""
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
