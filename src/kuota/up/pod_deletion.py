# SPDX-License-Identifier: Apache-2.0
"""Keeps deleted pods in the API until the runner has ended their processes."""

from __future__ import annotations

from kuota.api.base import Json, Key
from kuota.api.core import is_terminated
from kuota.api.rules.report import child, text
from kuota.kube.resources import NODES
from kuota.runner.nodes import is_ours
from kuota.server.deletion import PodDeletion
from kuota.server.store import Store

MAX_GRACE_S = 300
"""The default of the longest grace period. Preemption waits for it, and so does the next Job."""


def pod_deletion(store: Store, max_grace_s: int = MAX_GRACE_S) -> PodDeletion:
    """Return how pods are deleted on this machine."""

    def occupied(pod: Json) -> bool:
        node = text(child(pod, "spec").get("nodeName"))
        if not node or is_terminated(pod):
            return False
        if child(pod, "status").get("startTime"):
            return True
        found = store.get(NODES.name, Key("", node))
        return found is not None and is_ours(found)

    return PodDeletion(occupied, max_grace_s)
