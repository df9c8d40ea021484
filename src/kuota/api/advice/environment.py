# SPDX-License-Identifier: Apache-2.0
"""Describes the control plane that warnings depend on: the kinds it queues, and its nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ..base import Struct

GroupKind = tuple[str, str]
BATCH_JOB_KIND: GroupKind = ("batch", "Job")
Names = Callable[[], Collection[str] | None]
"""Returns None while the names are unknown. No warnings about the names are then reported."""


def _unknown() -> None:
    return None


class Environment(Struct):
    """One control plane.

    `queued` are the kinds whose objects wait for quota. `node_labels` returns the label keys of
    all nodes, and `topology_levels` the levels of all Topologies.
    """

    queued: frozenset[GroupKind] = frozenset({BATCH_JOB_KIND})
    pulls_images: bool = True
    node_labels: Names = _unknown
    topology_levels: Names = _unknown


ANY_CLUSTER = Environment()
