# SPDX-License-Identifier: Apache-2.0
"""Rules of the API server about what may change in a stored object (CEL on old and new)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..base import Json
from ..faults import FieldError
from .relations import HOSTNAME, level_names
from .report import child, immutable, mapping, text
from .same import same
from .workload_status import condition_true, reserved

_ANEW = "create a new object under another name"


def transition_faults(obj: Json, old: Json, *, older: bool = False) -> Iterator[FieldError]:
    """Faults of the step from `old` to `obj`, both v1beta2; `older`: it was asked in v1beta1."""
    kind = text(obj.get("kind"))
    if kind == "Topology":
        yield from _topology(obj, old, older)
    elif kind in _TRANSITIONS:
        yield from _TRANSITIONS[kind](obj, old)


def _workload(obj: Json, old: Json) -> Iterator[FieldError]:
    spec, before = child(obj, "spec"), child(old, "spec")
    release = "it must give up its quota first (set spec.active to false)"
    if reserved(old):
        yield from _priority_class(spec, before, release)
    if reserved(old) and reserved(obj):
        why = "while quota is reserved"
        yield from _frozen(spec, before, "spec", "queueName", why, release)
    if condition_true(old, "Admitted") and condition_true(obj, "Admitted"):
        field = "maximumExecutionTimeSeconds"
        yield from _frozen(spec, before, "spec", field, "while admitted", release)
    was, now = child(old, "status").get("clusterName"), child(obj, "status").get("clusterName")
    if was and now and was != now:
        yield immutable("status", now, "in clusterName once it is set", "clear it first")


def _priority_class(spec: Json, old: Json, fix: str) -> Iterator[FieldError]:
    path, why = "spec.priorityClassRef", "while quota is reserved"
    before, after = old.get("priorityClassRef"), spec.get("priorityClassRef")
    if (before is None) != (after is None):
        verb = "added" if before is None else "removed"
        yield immutable(path, after, f"({verb}) {why}", fix)
        return
    old_ref, ref = mapping(before), mapping(after)
    for field in ("group", "kind"):
        yield from _frozen(ref, old_ref, path, field, why, fix)
    if ref.get("kind") == "PriorityClass":
        yield from _frozen(ref, old_ref, path, "name", why, fix)


def _frozen(
    after: Json, before: Json, path: str, field: str, why: str, fix: str
) -> Iterator[FieldError]:
    if not same(before.get(field), after.get(field)):
        yield immutable(f"{path}.{field}", after.get(field), why, fix)


def _local_queue(obj: Json, old: Json) -> Iterator[FieldError]:
    """The rule is on the field itself, so it applies only while the field stays set."""
    after, before = child(obj, "spec"), child(old, "spec")
    if before.get("clusterQueue") is not None and after.get("clusterQueue") is not None:
        yield from _frozen(after, before, "spec", "clusterQueue", "once it is set", _ANEW)


def _admission_check(obj: Json, old: Json) -> Iterator[FieldError]:
    after, before = child(obj, "spec"), child(old, "spec")
    yield from _frozen(after, before, "spec", "controllerName", "after creation", _ANEW)


def _resource_flavor(obj: Json, old: Json) -> Iterator[FieldError]:
    before: Any = child(old, "spec").get("topologyName")
    after: Any = child(obj, "spec").get("topologyName")
    if before and before != after:
        yield immutable("spec", after, "in topologyName once it is set", _ANEW)


def _topology(obj: Json, old: Json, older: bool) -> Iterator[FieldError]:
    before, after = level_names(old), level_names(obj)
    editable = not older and before[-1:] == [HOSTNAME] and after[-1:] == [HOSTNAME]
    if before != after and not editable:
        why = "in v1beta1" if older else f"unless {HOSTNAME} is last before and after"
        yield immutable("spec.levels", after, why, _ANEW)


_TRANSITIONS: dict[str, Callable[[Json, Json], Iterator[FieldError]]] = {
    "Workload": _workload,
    "LocalQueue": _local_queue,
    "AdmissionCheck": _admission_check,
    "ResourceFlavor": _resource_flavor,
}
