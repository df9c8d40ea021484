# SPDX-License-Identifier: Apache-2.0
"""What the API server and Kueue's webhooks fill in before an object is stored."""

from __future__ import annotations

import copy
from functools import lru_cache
from typing import Any

from .base import Json
from .constraints import constraints
from .gates import Gate, Gates
from .kueue import GROUP, KINDS

FINALIZER = "kueue.x-k8s.io/resource-in-use"
_VERSIONS = ("v1beta1", "v1beta2")
_DEFAULT_GATES = Gates()
_GUARDED = frozenset({"ClusterQueue", "ResourceFlavor"})

Steps = tuple[str, ...]


def defaulted(obj: Json, gates: Gates = _DEFAULT_GATES) -> Json:
    """`obj` as it would be stored when created; an unknown kind as it is.

    `obj` is left as it is, and shared where nothing is filled in. Safe on any JSON: where
    something has the wrong type, nothing is filled in below it.
    """
    return webhook_defaulted(schema_defaulted(obj), gates)


def webhook_defaulted(obj: Json, gates: Gates = _DEFAULT_GATES) -> Json:
    """What Kueue's mutating webhooks make of a new object that has the defaults of its schema.

    Nothing is changed in place. What stays as it was is shared with the result; where nothing is
    to be filled in, the result is `obj` itself. Safe on any JSON.
    """
    if _versioned(obj) is None:
        return obj
    if obj["kind"] in _GUARDED:
        return _guarded(obj)
    if obj["kind"] == "Workload" and not gates.on(Gate.PartialAdmission):
        return _without_minimums(obj)
    return obj


def schema_defaulted(obj: Json) -> Json:
    """With the defaults of the CRD only: these also apply to updates, and on reading.

    What needs none is shared, so that it can be told to be unchanged without being compared.
    """
    known = _versioned(obj)
    for steps, value in _defaults(*known) if known is not None else ():
        obj = _filled(obj, steps, value)
    return obj


def _versioned(obj: Any) -> tuple[str, str] | None:
    """The kind and version of an object of Kueue; None for anything else."""
    if not isinstance(obj, dict):
        return None
    kind, api_version = obj.get("kind"), obj.get("apiVersion")
    if not isinstance(kind, str) or not isinstance(api_version, str):
        return None
    group, _, version = api_version.partition("/")
    known = group == GROUP and version in _VERSIONS and kind in KINDS
    return (kind, version) if known else None


@lru_cache(maxsize=64)
def _defaults(kind: str, version: str) -> tuple[tuple[Steps, Any], ...]:
    """Paths and values, outer fields first: a default of {} makes room for those inside."""
    table = constraints(kind, version)
    paths = [(_steps(path), rule.default) for path, rule in table.items() if rule.has_default]
    return tuple(sorted(paths, key=lambda each: len(each[0])))


def _steps(path: str) -> Steps:
    """ "a.b[].c" as ("a", "b", "[]", "c")."""
    return tuple(path.replace("[]", ".[]").split("."))


def _filled(node: Any, steps: Steps, value: Any) -> Any:
    """The node with the value where nothing is; the very same node where there is no such place."""
    head, rest = steps[0], steps[1:]
    if head == "[]":
        return _filled_items(node, rest, value) if isinstance(node, list) else node
    if not isinstance(node, dict):
        return node
    old = node.get(head)
    if not rest:
        return node | {head: copy.deepcopy(value)} if old is None else node
    new = _filled(old, rest, value)
    return node if new is old else node | {head: new}


def _filled_items(items: list[Any], steps: Steps, value: Any) -> list[Any]:
    new = [_filled(each, steps, value) for each in items]
    return new if any(a is not b for a, b in zip(new, items, strict=True)) else items


def _guarded(obj: Json) -> Json:
    """With the finalizer that keeps the object while workloads use it."""
    metadata = obj.get("metadata", {})
    if not isinstance(metadata, dict):
        return obj
    finalizers = metadata.get("finalizers") or []
    if not isinstance(finalizers, list) or FINALIZER in finalizers:
        return obj
    return obj | {"metadata": metadata | {"finalizers": [*finalizers, FINALIZER]}}


def _without_minimums(workload: Json) -> Json:
    spec = workload.get("spec")
    pod_sets = spec.get("podSets") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(pod_sets, list):
        return workload
    kept = [_without_minimum(each) for each in pod_sets]
    return workload | {"spec": spec | {"podSets": kept}}


def _without_minimum(pod_set: Any) -> Any:
    if not isinstance(pod_set, dict) or "minCount" not in pod_set:
        return pod_set
    return {name: value for name, value in pod_set.items() if name != "minCount"}
