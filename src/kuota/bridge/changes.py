# SPDX-License-Identifier: Apache-2.0
"""Which changes of an object call for a look at it, or at what it refers to.

None stands for an object before it was there, or after it is gone.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from kuota.api.base import Json
from kuota.api.kueue import ClusterQueue
from kuota.api.rules.report import child


def settled(old: Json | None, new: Json | None) -> bool:
    """Whether at most the status, or metadata that nobody decides by, has changed."""
    if old is None or new is None:
        return False
    return old.get("spec") == new.get("spec") and deleting(old) == deleting(new)


def deleting(obj: Json) -> bool:
    return bool(child(obj, "metadata").get("deletionTimestamp"))


def to_hold(old: Json | None, new: Json | None) -> bool:
    """Whether the finalizer of an object of quota may have to come or go: it is new, or leaves."""
    return new is not None and (old is None or deleting(new))


def revalued(old: Json | None, new: Json | None) -> bool:
    """Whether a priority class has a value that its Workloads may not have. Its end has none."""
    return new is not None and (old is None or old.get("value") != new.get("value"))


def let_go(old: Iterable[str], new: Collection[str], used: Container[str]) -> list[str]:
    """What a queue referred to and does no more, nor does any other queue, by name."""
    return sorted({name for name in old if name not in new and name not in used})


def flavors_of(queue: ClusterQueue | None) -> set[str]:
    """The flavors that a ClusterQueue names."""
    groups = (queue.spec.resource_groups if queue is not None else None) or ()
    return {flavor.name for group in groups for flavor in group.flavors or ()}


def checks_of(queue: ClusterQueue | None) -> set[str]:
    """The admission checks that a ClusterQueue names."""
    strategy = queue.spec.admission_checks_strategy if queue is not None else None
    return {rule.name for rule in (strategy.admission_checks if strategy else None) or ()}
