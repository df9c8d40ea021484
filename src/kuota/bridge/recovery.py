# SPDX-License-Identifier: Apache-2.0
"""When to delete a pod on an unreachable node, so that its quota and its job are not blocked.

This applies to all pods that opted in by an annotation, whether Kueue manages them or not, after
their grace period and an additional delay, while their node is unreachable.
"""

from __future__ import annotations

from datetime import datetime

from kuota.api.base import Json, condition
from kuota.api.core import Node, Pod
from kuota.api.match import has_taint_key
from kuota.api.rules.metadata import PREFIX
from kuota.engine.model import Struct

from .conditions import failed_status

SAFE_TO_DELETE = f"{PREFIX}safe-to-forcefully-delete"
GRACE_S = 60.0
"""The additional delay after the pod's own grace period."""
TAINT = "node.kubernetes.io/unreachable"
FAILED = "KueueFailureRecovery"
REASON = "KueueForcefullyDeleted"


class Recovery(Struct):
    """What to do with a pod: write `status`, if any, and then delete it.

    `requeue_after_s` is when to check again instead; None if only a change requires it.
    """

    delete: bool = False
    status: Json = {}
    note: str = ""
    requeue_after_s: float | None = None


def is_recoverable(pod: Pod) -> bool:
    """Whether a pod may be deleted: it opted in and is terminating."""
    meta = pod.metadata
    leaving = meta.deletion_timestamp is not None and not _deleted_without_grace(pod)
    return leaving and meta.annotation(SAFE_TO_DELETE) == "true"


def recovery(pod: Pod, node: Node | None, now: float) -> Recovery:
    """Return what to do with a pod now."""
    if not is_recoverable(pod):
        return Recovery()
    left_s = _due(pod.metadata.deletion_timestamp) - now
    if left_s > 0:
        return Recovery(requeue_after_s=left_s)
    if node is None or not unreachable(node):
        return Recovery()
    note = f"Force-deleted: node {node.metadata.name} is unreachable"
    return Recovery(delete=True, status=_failed(pod, note, now), note=note)


def unreachable(node: Node) -> bool:
    return has_taint_key(node.spec.taints, TAINT)


def _due(deletion: datetime | None) -> float:
    return deletion.timestamp() + GRACE_S if deletion is not None else 0.0


def _failed(pod: Pod, note: str, now: float) -> Json:
    """Return the status of a pod that cannot report any more; empty if it is already set.

    A pod that ended keeps its phase.
    """
    if condition(pod.status.conditions, FAILED) is not None:
        return {}
    status = failed_status(pod, FAILED, REASON, note, now)
    return status | {"phase": pod.status.phase} if _has_ended(pod) else status


def _deleted_without_grace(pod: Pod) -> bool:
    """Whether it was deleted without a grace period. Finalizers may still keep the object."""
    return _has_ended(pod) and pod.metadata.deletion_grace_period_seconds == 0


def _has_ended(pod: Pod) -> bool:
    return pod.status.phase in ("Failed", "Succeeded")
