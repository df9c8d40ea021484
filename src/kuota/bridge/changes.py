# SPDX-License-Identifier: Apache-2.0
"""Which changes of an object require a reconciliation, and what has changed.

None stands for an object that does not exist yet, or no longer.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable

from kuota.api.base import Json
from kuota.api.kueue import ClusterQueue
from kuota.api.rules.metadata import PREFIX
from kuota.api.rules.report import child, elements, mapping, text


def only_status_changed(old: Json | None, new: Json | None) -> bool:
    """Whether at most the status, or metadata that no decision depends on, has changed."""
    if old is None or new is None:
        return False
    return old.get("spec") == new.get("spec") and deleting(old) == deleting(new)


def deleting(obj: Json) -> bool:
    return bool(child(obj, "metadata").get("deletionTimestamp"))


def finalizer_changes(old: Json | None, new: Json | None) -> bool:
    """Whether the finalizer may have to be added or removed: the object is new or being deleted."""
    return new is not None and (old is None or deleting(new))


def priority_value_changed(old: Json | None, new: Json | None) -> bool:
    """Whether a priority class has a value that its Workloads may lack.

    A deleted class has none.
    """
    return new is not None and (old is None or old.get("value") != new.get("value"))


def unreferenced(old: Iterable[str], new: Collection[str], used: Container[str]) -> list[str]:
    """Return the names that a queue no longer refers to and that no other queue refers to."""
    return sorted({name for name in old if name not in new and name not in used})


def flavors_of(queue: ClusterQueue | None) -> set[str]:
    """Return the flavors that a ClusterQueue names."""
    groups = (queue.spec.resource_groups if queue is not None else None) or ()
    return {flavor.name for group in groups for flavor in group.flavors or ()}


def checks_of(queue: ClusterQueue | None) -> set[str]:
    """Return the admission checks that a ClusterQueue names."""
    strategy = queue.spec.admission_checks_strategy if queue is not None else None
    return {rule.name for rule in (strategy.admission_checks if strategy else None) or ()}


def removed_gates(old: Json, new: Json) -> set[str]:
    """Return the scheduling gates of Kueue that a pod had and does not have any more."""
    return {each for each in _gates(old) - _gates(new) if each.startswith(PREFIX)}


def _gates(pod: Json) -> set[str]:
    gates = elements(child(pod, "spec").get("schedulingGates"))
    return {text(mapping(each).get("name")) for each in gates}
