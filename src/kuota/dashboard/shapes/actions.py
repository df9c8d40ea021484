# SPDX-License-Identifier: Apache-2.0
"""Requests of actions and their result."""

from __future__ import annotations

from enum import StrEnum

from .base import Shape


class ActionName(StrEnum):
    HOLD = "hold"
    RELEASE = "release"
    SET_PRIORITY = "setPriority"
    STOP_QUEUE = "stopQueue"
    RESUME_QUEUE = "resumeQueue"


class ActionRequest(Shape, forbid_unknown_fields=True):
    """An action on a Workload, ClusterQueue or LocalQueue.

    `priority_class` belongs to `setPriority`: the name of a WorkloadPriorityClass.
    `drain` belongs to `stopQueue`: whether admitted workloads are evicted, too.
    """

    action: ActionName
    kind: str
    name: str
    namespace: str = ""
    priority_class: str | None = None
    drain: bool | None = None


class ActionResult(Shape):
    """What was done, as a sentence."""

    message: str
