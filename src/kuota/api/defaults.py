# SPDX-License-Identifier: Apache-2.0
"""Sets the defaults of the API server and of Kueue's webhooks."""

from __future__ import annotations

from .base import Json
from .edits import edited, without
from .gates import DEFAULT_GATES, Gate, Gates
from .schema import structure
from .structure import filled

FINALIZER = "kueue.x-k8s.io/resource-in-use"
_GUARDED = frozenset({"ClusterQueue", "ResourceFlavor"})


def defaulted(obj: Json, gates: Gates = DEFAULT_GATES) -> Json:
    """Return `obj` as stored on creation. Objects of unknown kinds are unchanged.

    `obj` itself is not modified, and the result shares its unchanged parts. Any JSON is accepted:
    no defaults are set below a value of the wrong type.
    """
    return webhook_defaulted(schema_defaulted(obj), gates)


def webhook_defaulted(obj: Json, gates: Gates = DEFAULT_GATES) -> Json:
    """Apply Kueue's mutating webhooks to a new object that has its schema defaults.

    `obj` itself is not modified, and the result shares its unchanged parts. If nothing changes, the
    result is `obj` itself. Any JSON is accepted.
    """
    if structure(obj) is None:
        return obj
    if obj["kind"] in _GUARDED:
        return _guarded(obj)
    if obj["kind"] == "Workload" and not gates.on(Gate.PartialAdmission):
        return edited(obj, "spec.podSets[]", without("minCount"))
    return obj


def schema_defaulted(obj: Json) -> Json:
    """Apply only the defaults of the CRD, which also apply to updates and reads.

    Unchanged parts are shared, so that callers can recognise them by identity.
    """
    known = structure(obj)
    full: Json = obj if known is None else filled(obj, known)
    return full


def _guarded(obj: Json) -> Json:
    """Add the finalizer that protects the object while workloads use it."""
    metadata = obj.get("metadata", {})
    if not isinstance(metadata, dict):
        return obj
    finalizers = metadata.get("finalizers") or []
    if not isinstance(finalizers, list) or FINALIZER in finalizers:
        return obj
    return obj | {"metadata": metadata | {"finalizers": [*finalizers, FINALIZER]}}
