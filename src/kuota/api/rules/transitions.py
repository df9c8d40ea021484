# SPDX-License-Identifier: Apache-2.0
"""Validates updates by the rules of the API server that compare the old and the new object.

These are the rules in `kuota.api.schema.cel` that read `oldSelf`. `relations` has the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..base import Json
from ..convert import WORKLOAD_CLASS_SOURCE
from ..faults import FieldError, immutable
from ..v1beta1 import V1BETA1
from .relations import HOSTNAME, level_names
from .report import child, mapping, same, text
from .workload_status import condition_true, reserved

_ANEW = "create a new object under another name"
_RESERVED = "while quota is reserved"
_RELEASE = "it must give up its quota first (set spec.active to false)"


def transition_faults(obj: Json, old: Json) -> Iterator[FieldError]:
    """Yield the faults of an update from `old` to `obj`, by the rules of their common version."""
    transitions = _TRANSITIONS_V1BETA1 if obj.get("apiVersion") == V1BETA1 else _TRANSITIONS
    rules = transitions.get(text(obj.get("kind")))
    if rules is not None:
        yield from rules(obj, old)


def _workload(obj: Json, old: Json, *, older: bool = False) -> Iterator[FieldError]:
    was, now = child(old, "status").get("clusterName"), child(obj, "status").get("clusterName")
    if was is not None and now is not None and was != now:
        yield immutable("status", now, "in clusterName once it is set", "clear it first")
    admitted = condition_true(old, "Admitted") and condition_true(obj, "Admitted")
    spec, before = obj.get("spec"), old.get("spec")
    if spec is None or before is None:
        if reserved(old) or admitted:
            yield immutable("spec", None, f"(added or removed) {_RESERVED}", _RELEASE)
        return
    spec, before = mapping(spec), mapping(before)
    if reserved(old):
        yield from (_priority_source if older else _priority_class)(spec, before)
    if reserved(old) and reserved(obj):
        yield from _frozen(spec, before, "spec", "queueName", _RESERVED, _RELEASE)
    if admitted:
        field = "maximumExecutionTimeSeconds"
        yield from _frozen(spec, before, "spec", field, "while admitted", _RELEASE)


def _priority_class(spec: Json, old: Json) -> Iterator[FieldError]:
    path = "spec.priorityClassRef"
    before, after = old.get("priorityClassRef"), spec.get("priorityClassRef")
    if (before is None) != (after is None):
        verb = "added" if before is None else "removed"
        yield immutable(path, after, f"({verb}) {_RESERVED}", _RELEASE)
        return
    old_ref, ref = mapping(before), mapping(after)
    for field in ("group", "kind"):
        yield from _frozen(ref, old_ref, path, field, _RESERVED, _RELEASE)
    if ref.get("group") == "scheduling.k8s.io" and ref.get("kind") == "PriorityClass":
        yield from _frozen(ref, old_ref, path, "name", _RESERVED, _RELEASE)


def _priority_source(spec: Json, old: Json) -> Iterator[FieldError]:
    """Apply the rules of v1beta1. They compare only fields that are set in both objects."""
    source = spec.get("priorityClassSource")
    if source is None or old.get("priorityClassSource") is None:
        return
    yield from _frozen(spec, old, "spec", "priorityClassSource", _RESERVED, _RELEASE)
    name, before = spec.get("priorityClassName"), old.get("priorityClassName")
    if name is not None and before is not None and source != WORKLOAD_CLASS_SOURCE:
        yield from _frozen(spec, old, "spec", "priorityClassName", _RESERVED, _RELEASE)


def _frozen(
    after: Json, before: Json, path: str, field: str, why: str, fix: str
) -> Iterator[FieldError]:
    if not same(before.get(field), after.get(field)):
        yield immutable(f"{path}.{field}", after.get(field), why, fix)


def _frozen_while_set(obj: Json, old: Json, *, field: str) -> Iterator[FieldError]:
    """Apply a rule on the field itself, which is checked only if both objects have the field."""
    after, before = child(obj, "spec"), child(old, "spec")
    if before.get(field) is not None and after.get(field) is not None:
        yield from _frozen(after, before, "spec", field, "once it is set", _ANEW)


def _resource_flavor(obj: Json, old: Json) -> Iterator[FieldError]:
    before: Any = child(old, "spec").get("topologyName")
    after: Any = child(obj, "spec").get("topologyName")
    if obj.get("spec") is not None and before is not None and before != after:
        yield immutable("spec", after, "in topologyName once it is set", _ANEW)


def _topology(obj: Json, old: Json, *, older: bool = False) -> Iterator[FieldError]:
    if child(obj, "spec").get("levels") is None or child(old, "spec").get("levels") is None:
        return
    before, after = level_names(old), level_names(obj)
    editable = not older and before[-1:] == [HOSTNAME] and after[-1:] == [HOSTNAME]
    if before != after and not editable:
        why = "in v1beta1" if older else f"unless {HOSTNAME} is last before and after"
        yield immutable("spec.levels", after, why, _ANEW)


_TRANSITIONS: dict[str, Callable[[Json, Json], Iterator[FieldError]]] = {
    "Workload": _workload,
    "LocalQueue": partial(_frozen_while_set, field="clusterQueue"),
    "AdmissionCheck": partial(_frozen_while_set, field="controllerName"),
    "ResourceFlavor": _resource_flavor,
    "Topology": _topology,
}
_TRANSITIONS_V1BETA1 = _TRANSITIONS | {
    "Workload": partial(_workload, older=True),
    "Topology": partial(_topology, older=True),
}
