# SPDX-License-Identifier: Apache-2.0
"""The role of a pod: a hash of the parts of its spec that matter to admission.

Pods with the same hash form one pod set of a group. The hash equals Kueue's, so that pods keep
their roles when one takes over from the other: SHA-256 of the shape as Go encodes it in JSON.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from kuota.api.base import Json
from kuota.api.faults import FieldError, immutable
from kuota.api.quantity import QuantityError, canonical, format_of, parse
from kuota.api.rules.report import elements, mapping, same

_LENGTH = 8

Schema = Mapping[str, Any]
"""The fields of an object in Go's order. A name that ends in `!` is encoded even if it is empty.

The value is the schema of the field: None for a scalar or a map, a schema for an object, a list
with one schema for a list of objects.
"""

_REQUIREMENT: Schema = {"key!": None, "operator!": None, "values": None}
_SELECTOR: Schema = {"matchLabels": None, "matchExpressions": [_REQUIREMENT]}
_NODE_TERM: Schema = {"matchExpressions": [_REQUIREMENT], "matchFields": [_REQUIREMENT]}
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_NODE_AFFINITY: Schema = {
    _REQUIRED: {"nodeSelectorTerms!": [_NODE_TERM]},
    _PREFERRED: [{"weight!": None, "preference!": _NODE_TERM}],
}
_POD_TERM: Schema = {
    "labelSelector": _SELECTOR,
    "namespaces": None,
    "topologyKey!": None,
    "namespaceSelector": _SELECTOR,
    "matchLabelKeys": None,
    "mismatchLabelKeys": None,
}
_POD_AFFINITY: Schema = {
    _REQUIRED: [_POD_TERM],
    _PREFERRED: [{"weight!": None, "podAffinityTerm!": _POD_TERM}],
}
_AFFINITY: Schema = {
    "nodeAffinity": _NODE_AFFINITY,
    "podAffinity": _POD_AFFINITY,
    "podAntiAffinity": _POD_AFFINITY,
}
_TOLERATION: Schema = dict.fromkeys(("key", "operator", "value", "effect", "tolerationSeconds"))
_PORT: Schema = dict.fromkeys(("name", "hostPort", "containerPort!", "protocol", "hostIP"))
_SPREAD: Schema = {
    "maxSkew!": None,
    "topologyKey!": None,
    "whenUnsatisfiable!": None,
    "labelSelector": _SELECTOR,
    "minDomains": None,
    "nodeAffinityPolicy": None,
    "nodeTaintsPolicy": None,
    "matchLabelKeys": None,
}
_CLAIM: Schema = {"name!": None, "resourceClaimName": None, "resourceClaimTemplateName": None}
_SPEC: Schema = {
    "affinity": _AFFINITY,
    "nodeSelector": None,
    "priority": None,
    "resourceClaims": [_CLAIM],
    "runtimeClassName": None,
    "tolerations": [_TOLERATION],
    "topologySpreadConstraints": [_SPREAD],
}
_POINTERS = frozenset({"tolerationSeconds", "minDomains", "labelSelector", "namespaceSelector"})
"""Fields that Go omits only if they are absent, not if they are zero or empty."""
_NUMBERS = frozenset({"weight", "maxSkew", "containerPort"})


def role_hash(spec: Json) -> str:
    """Return the hash of the shape of a pod spec."""
    encoded = json.dumps(
        {"spec": _sorted(_encoded_shape(spec))}, separators=(",", ":"), ensure_ascii=False
    )
    for raw, escaped in (("<", "\\u003c"), (">", "\\u003e"), ("&", "\\u0026")):
        encoded = encoded.replace(raw, escaped)
    encoded = encoded.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return hashlib.sha256(encoded.encode("utf-8", "replace")).hexdigest()[:_LENGTH]


def shape(spec: Json) -> Json:
    """Return the parts of a pod spec that form its role. Absent ones are None.

    Resources of the whole pod are present only if the pod has any.
    """
    found: Json = {name: spec.get(name) for name in (*_SPEC, "overhead")}
    for name in ("initContainers", "containers"):
        found[name] = [_container(each) for each in elements(spec.get(name))] or None
    if isinstance(spec.get("resources"), dict):
        found["resources"] = mapping(spec["resources"]).get("requests")
    return found


def _container(container: Any) -> Json:
    fields = mapping(container)
    requests = mapping(fields.get("resources")).get("requests")
    return {"ports": fields.get("ports"), "resources": {"requests": requests}}


def _encoded_shape(spec: Json) -> Json:
    found = shape(spec)
    for name, schema in _SPEC.items():
        found[name] = _encoded(found[name], schema)
    for name in ("overhead", "resources"):
        if name in found:
            found[name] = _quantities(found[name])
    for name in ("initContainers", "containers"):
        found[name] = found[name] and [
            {
                "ports": _encoded(each["ports"], [_PORT]),
                "resources": {"requests": _quantities(each["resources"]["requests"])},
            }
            for each in found[name]
        ]
    return found


def _encoded(value: Any, schema: Any) -> Any:
    """Return a value with the fields that Go encodes, in its order."""
    if value is None:
        return None
    if isinstance(schema, list):
        return [_encoded(mapping(each), schema[0]) for each in elements(value)] or None
    if schema is None:
        return _sorted(value) if isinstance(value, dict) else value
    fields, found = mapping(value), {}
    for marked, inner in schema.items():
        name = marked.removesuffix("!")
        encoded = _encoded(fields.get(name), inner)
        if marked != name:
            found[name] = _zero(name, inner) if encoded is None else encoded
        elif encoded or (encoded is not None and name in _POINTERS):
            found[name] = encoded
    return found


def _zero(name: str, schema: Any) -> Any:
    if isinstance(schema, list):
        return None
    if isinstance(schema, dict):
        return {}
    return 0 if name in _NUMBERS else ""


def _quantities(value: Any) -> Json | None:
    if not isinstance(value, dict):
        return None
    return _sorted({name: _canonical(each) for name, each in value.items()})


def _canonical(value: Any) -> Any:
    try:
        return canonical(parse(value), format_of(value))
    except (QuantityError, TypeError):
        return value


def _sorted(fields: Json) -> Json:
    return {name: fields[name] for name in sorted(fields)}


def shape_faults(new: Json, old: Json, path: str) -> Iterator[FieldError]:
    """Yield the fields below `path` that form the role of a pod and differ between two specs."""
    yield from _differences(shape(new), shape(old), path)


def _differences(new: Json, old: Json, path: str) -> Iterator[FieldError]:
    for name in sorted({*new, *old}):
        after, before, at = new.get(name), old.get(name), f"{path}.{name}"
        if name in ("containers", "initContainers") and len(after or ()) == len(before or ()):
            for index, (one, other) in enumerate(zip(after or (), before or (), strict=True)):
                yield from _differences(one, other, f"{at}[{index}]")
        elif name == "resources" and isinstance(after, dict) and set(after) == {"requests"}:
            yield from _differences(after, mapping(before), at)
        elif not same(after, before, quantities=name in ("requests", "resources", "overhead")):
            yield immutable(at, after, "because it determines the quota of running pods", _FIX)


_FIX = "delete the object and create it again"
