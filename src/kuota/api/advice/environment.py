# SPDX-License-Identifier: Apache-2.0
"""What warnings depend on besides the object: what the control plane queues, and its nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from ..base import Struct
from ..config.frameworks import BATCH_JOB, FRAMEWORKS

GroupKind = tuple[str, str]
BATCH_JOB_KIND: GroupKind = ("batch", "Job")
Names = Callable[[], Collection[str] | None]
"""Returns None while the names are not known, and then nothing is reported about them."""
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
    """The kinds, of those that a configuration enables, that some controller really queues.

    Kinds of external frameworks have a controller elsewhere.
    """
    return frozenset(managed) - _NOT_BUILT
