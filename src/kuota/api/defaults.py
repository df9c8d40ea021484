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
    """A copy of `obj` as it would be stored when created. Unknown kinds are just copied.

    Safe on any JSON: where something has the wrong type, nothing is filled in below it.
    """
    result = schema_defaulted(obj)
    if _versioned(result) is None:
        return result
    if result["kind"] in _GUARDED:
        _guard(result)
    if result["kind"] == "Workload" and not gates.on(Gate.PartialAdmission):
        _drop_minimums(result)
    return result


def schema_defaulted(obj: Json) -> Json:
    """A copy with the defaults of the CRD only: these also apply to updates, and on reading."""
    result: Json = copy.deepcopy(obj)
    known = _versioned(result)
    for steps, value in _defaults(*known) if known is not None else ():
        _fill(result, steps, value)
    return result


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


def _fill(node: Any, steps: Steps, value: Any) -> None:
    head, rest = steps[0], steps[1:]
    if head == "[]":
        for each in node if isinstance(node, list) else ():
            _fill(each, rest, value)
    elif not isinstance(node, dict):
        return
    elif rest:
        _fill(node.get(head), rest, value)
    elif node.get(head) is None:
        node[head] = copy.deepcopy(value)


def _guard(obj: Json) -> None:
    """Add the finalizer that keeps the object while workloads use it."""
    metadata = obj.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        return
    finalizers = metadata.get("finalizers") or []
    if isinstance(finalizers, list) and FINALIZER not in finalizers:
        metadata["finalizers"] = [*finalizers, FINALIZER]


def _drop_minimums(workload: Json) -> None:
    spec = workload.get("spec")
    pod_sets = spec.get("podSets") if isinstance(spec, dict) else None
    for pod_set in pod_sets if isinstance(pod_sets, list) else ():
        if isinstance(pod_set, dict):
            pod_set.pop("minCount", None)
