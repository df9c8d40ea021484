# SPDX-License-Identifier: Apache-2.0
"""The status of queues as JSON: what they use, and whether they are active."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.quantity import text
from kuota.engine.activity import Obstacle
from kuota.engine.usage import QueueUse


def flavors_json(use: QueueUse, *, shared: bool) -> list[Json]:
    """Usage grouped by flavor. `shared` queues (ClusterQueues) also tell what they borrow."""
    flavors: dict[str, list[Json]] = {}
    for each in use.columns:
        name = each.column.resource
        entry: Json = {"name": name, "total": text(each.total, name)}
        if shared:
            entry["borrowed"] = text(each.borrowed, name)
        flavors.setdefault(each.column.flavor, []).append(entry)
    return [{"name": flavor, "resources": resources} for flavor, resources in flavors.items()]


def active_condition(obstacles: tuple[Obstacle, ...]) -> tuple[bool, str, str]:
    """Status, reason and message of condition Active. The first obstacle gives the reason."""
    if not obstacles:
        return True, "Ready", "Can admit new workloads"
    words = "; ".join(str(each) for each in obstacles)
    return False, obstacles[0].reason.value, f"Cannot admit new workloads: {words}"
