# SPDX-License-Identifier: Apache-2.0
"""Describes the control plane that warnings depend on: the kinds it queues, and its nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ..base import Struct
from ..config.frameworks import BATCH_JOB, FRAMEWORKS

GroupKind = tuple[str, str]
BATCH_JOB_KIND: GroupKind = ("batch", "Job")
Names = Callable[[], Collection[str] | None]
"""Returns None while the names are unknown. No warnings about the names are then reported."""
BUILT = frozenset({BATCH_JOB})
"""The integrations that Kuota has a controller for."""
_NOT_BUILT = frozenset(
    (gvk.group, gvk.kind) for name, gvk in FRAMEWORKS.items() if name not in BUILT
)


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


def queued_kinds(managed: Iterable[GroupKind]) -> frozenset[GroupKind]:
    """Return those of the enabled kinds that a controller queues.

    Kinds of external frameworks are included, because their controllers run elsewhere.
    """
    return frozenset(managed) - _NOT_BUILT
