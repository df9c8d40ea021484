# SPDX-License-Identifier: Apache-2.0
"""What the API server and Kueue's webhooks fill in before an object is stored."""

from __future__ import annotations

from .base import Json
from .edits import edited, without
from .gates import DEFAULT_GATES, Gate, Gates
from .schema import structure
from .structure import filled

FINALIZER = "kueue.x-k8s.io/resource-in-use"
_GUARDED = frozenset({"ClusterQueue", "ResourceFlavor"})


def defaulted(obj: Json, gates: Gates = DEFAULT_GATES) -> Json:
    """`obj` as it would be stored when created; an unknown kind as it is.

    `obj` is left as it is, and shared where nothing is filled in. Safe on any JSON: where
    something has the wrong type, nothing is filled in below it.
    """
    return webhook_defaulted(schema_defaulted(obj), gates)


def webhook_defaulted(obj: Json, gates: Gates = DEFAULT_GATES) -> Json:
    """What Kueue's mutating webhooks make of a new object that has the defaults of its schema.

    Nothing is changed in place. What stays as it was is shared with the result; where nothing is
    to be filled in, the result is `obj` itself. Safe on any JSON.
    """
    if structure(obj) is None:
        return obj
    if obj["kind"] in _GUARDED:
        return _guarded(obj)
    if obj["kind"] == "Workload" and not gates.on(Gate.PartialAdmission):
        return edited(obj, "spec.podSets[]", without("minCount"))
    return obj


def schema_defaulted(obj: Json) -> Json:
    """With the defaults of the CRD only: these also apply to updates, and on reading.

    What needs none is shared, so that it can be told to be unchanged without being compared.
    """
    known = structure(obj)
    full: Json = obj if known is None else filled(obj, known)
    return full


def _guarded(obj: Json) -> Json:
    """With the finalizer that keeps the object while workloads use it."""
    metadata = obj.get("metadata", {})
    if not isinstance(metadata, dict):
        return obj
    finalizers = metadata.get("finalizers") or []
    if not isinstance(finalizers, list) or FINALIZER in finalizers:
        return obj
    return obj | {"metadata": metadata | {"finalizers": [*finalizers, FINALIZER]}}
