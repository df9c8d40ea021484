# SPDX-License-Identifier: Apache-2.0
"""Describes the control plane that warnings depend on: its controllers and nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..base import Struct
from ..kueue import MULTIKUEUE, PROVISIONING

GroupKind = tuple[str, str]
BATCH_JOB_KIND: GroupKind = ("batch", "Job")
Names = Callable[[], Collection[str] | None]
"""Returns None while the names are unknown. No warnings about the names are then reported."""
NamesIn = Callable[[str], Collection[str] | None]
"""The same for the names in a namespace."""


def _unknown(_namespace: str = "") -> None:
    return None


class Environment(Struct):
    """One control plane.

    `queued` are the kinds whose objects wait for quota. `node_labels` returns the label keys of
    all nodes, `topology_levels` the levels of all Topologies, `local_queues` the LocalQueues of a
    namespace, and `priority_classes` all WorkloadPriorityClasses. `check_controllers` are the names
    of its admission check controllers.
    """

    queued: frozenset[GroupKind] = frozenset({BATCH_JOB_KIND})
    pulls_images: bool = True
    node_labels: Names = _unknown
    topology_levels: Names = _unknown
    local_queues: NamesIn = _unknown
    priority_classes: Names = _unknown
    check_controllers: frozenset[str] = frozenset({MULTIKUEUE, PROVISIONING})


ANY_CLUSTER = Environment()
