# SPDX-License-Identifier: Apache-2.0
"""A line of workloads as the API tells it: a PendingWorkloadsSummary."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Protocol

from kuota.api.base import Json, Key

from .pending import Position

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
