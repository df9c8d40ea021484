# SPDX-License-Identifier: Apache-2.0
"""When a pod on a lost node is given up: its quota, and its job's next try, wait for it in vain.

Only pods whose owner says that nothing is lost by it, after their time to go and a while more, and
only while their node cannot be reached.
"""

from __future__ import annotations

from datetime import datetime

from kuota.api.base import Json, condition
from kuota.api.core import Node, Pod
from kuota.api.match import has_taint_key
from kuota.api.rules.metadata import PREFIX
from kuota.engine.model import Struct

from .conditions import Conditions

SAFE = f"{PREFIX}safe-to-forcefully-delete"
GRACE_S = 60.0
"""How long after the end of its own grace a pod is still waited for."""
TAINT = "node.kubernetes.io/unreachable"
FAILED = "KueueFailureRecovery"
REASON = "KueueForcefullyDeleted"
_MANAGED = f"{PREFIX}managed"
_POD_SET = f"{PREFIX}podset"


class Recovery(Struct):
    """What to do about a pod: `status`, if any, is to be written before it is deleted at once.

    `requeue_after_s` says when to look again instead; None if only a change calls for it.
    """

    delete: bool = False
    status: Json = {}
    note: str = ""
    requeue_after_s: float | None = None


def concerned(pod: Pod) -> bool:
    """Whether a pod may be given up: it is ours, opted in, was told to go, and has not been."""
    meta = pod.metadata
    managed = meta.label(_MANAGED) == "true" or bool(meta.label(_POD_SET))
    leaving = meta.deletion_timestamp is not None and not _given_up(pod)
    return managed and leaving and meta.annotation(SAFE) == "true"


def recovery(pod: Pod, node: Node | None, now: float) -> Recovery:
    """What to do about a pod, as it is now."""
    if not concerned(pod):
        return Recovery()
    left_s = _due(pod.metadata.deletion_timestamp) - now
    if left_s > 0:
        return Recovery(requeue_after_s=left_s)
    if node is None or not unreachable(node):
        return Recovery()
    note = f"Deleted by force: node {node.metadata.name} cannot be reached"
    return Recovery(delete=True, status=_failed(pod, note, now), note=note)


def unreachable(node: Node) -> bool:
    return has_taint_key(node.spec.taints, TAINT)


def _due(deletion: datetime | None) -> float:
    return deletion.timestamp() + GRACE_S if deletion is not None else 0.0


def _failed(pod: Pod, note: str, now: float) -> Json:
    """The status of a pod that will not be heard of again; empty when it says so already."""
    if condition(pod.status.conditions, FAILED) is not None or _over(pod):
        return {}
    conditions = Conditions(pod.status.conditions, now, pod.metadata.generation)
    conditions.put(FAILED, True, REASON, note, observed=False)
    return {"phase": "Failed", "conditions": conditions.json()}


def _given_up(pod: Pod) -> bool:
    """Whether it was deleted at once already. Finalizers may keep what is left of it."""
    return _over(pod) and pod.metadata.deletion_grace_period_seconds == 0


def _over(pod: Pod) -> bool:
    return pod.status.phase in ("Failed", "Succeeded")
