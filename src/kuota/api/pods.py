# SPDX-License-Identifier: Apache-2.0
"""What one pod says of itself: whose rights its processes have, its group, whether it is over."""

from __future__ import annotations

from .base import Json

RUN_AS = "kuota.dev/run-as-uid"
"""The user whose rights a pod's processes have: the server writes it, the runner obeys."""

GROUP_NAME = "kueue.x-k8s.io/pod-group-name"

ENDED = ("Succeeded", "Failed")
"""The phases of a pod that ran to its end, well or badly."""


def is_terminated(pod: Json) -> bool:
    """Whether the pod ran to its end, well or badly."""
    return (pod.get("status") or {}).get("phase") in ENDED
