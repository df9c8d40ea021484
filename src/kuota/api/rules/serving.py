# SPDX-License-Identifier: Apache-2.0
"""Validates Deployments, StatefulSets and LeaderWorkerSets by the rules common to all of them."""

from __future__ import annotations

from collections.abc import Iterator

from .. import names
from ..base import Json
from ..faults import FieldError, forbidden, immutable, malformed
from ..gates import Gates
from .job_common import QUEUE_NAME, priority_faults, queue_name
from .metadata import (
    ELASTIC_JOB,
    annotation_path,
    elastic,
    gated_by_faults,
    gated_by_update_faults,
    label,
    label_path,
)
from .report import child, integer

MAX_REPLICAS = 1_000_000
"""How many replicas a LeaderWorkerSet may have."""


def serving_faults(obj: Json, old: Json | None, gates: Gates) -> Iterator[FieldError]:
    """Yield the faults of a new object, or of a change from `old`."""
    queue, path = label(obj, QUEUE_NAME), label_path(QUEUE_NAME)
    if queue is not None:
        yield from malformed(path, queue, names.dns_subdomain(queue))
    if elastic(obj, gates):
        message = f"{obj.get('kind')} cannot be elastic"
        yield forbidden(annotation_path(ELASTIC_JOB), message, "remove the annotation")
    yield from gated_by_faults(obj, gates)
    if old is None:
        return
    idle = not ready_replicas(old)
    if queue_name(obj) != queue_name(old) and (not idle or not queue_name(obj)):
        fix = "delete the object and create it again" if idle else "scale it to zero first"
        yield immutable(path, queue_name(obj), "while pods are ready, nor be removed", fix)
    yield from priority_faults(obj, old, idle)
    yield from gated_by_update_faults(obj, old, gates)


def ready_replicas(obj: Json) -> int:
    return integer(child(obj, "status").get("readyReplicas")) or 0


def replicas(obj: Json) -> int:
    """Return the number of replicas, by default 1."""
    found = integer(child(obj, "spec").get("replicas"))
    return 1 if found is None else found
