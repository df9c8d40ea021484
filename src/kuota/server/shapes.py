# SPDX-License-Identifier: Apache-2.0
"""The fields of Kubernetes' own kinds, as JSON schemas that name each other.

`shapes.json` has one table for each type (written by scripts/shapes.py): field names, a "!" after
a required one, and types: a scalar, another type, "[]" before the type of a list's items, "{}"
before that of a map's values. What that source does not tell comes from `wire`: which maps hold
quantities, which lists are merged by which key, which fields may be a number or a name.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

import msgspec

from kuota.api.base import Json
from kuota.api.structure import Compiler

from . import wire

PREFIX = "io.k8s."
REF = "#/components/schemas/"

_SCALARS: dict[str, Json] = {
    "string": {"type": "string"},
    "integer": {"type": "integer", "format": "int64"},
    "number": {"type": "number", "format": "double"},
    "boolean": {"type": "boolean"},
    "time": {"type": "string", "format": "date-time"},
    "any": {"x-kubernetes-preserve-unknown-fields": True},
    "quantity": {"type": "string", "format": "quantity"},
    "port": {"type": "string", "format": "int-or-string"},
}

# Not in `wire`: nobody sends definitions as protobuf.
_BY_TYPE: Json = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
_UNWIRED: dict[tuple[str, str], Json] = {("CustomResourceDefinitionStatus", "conditions"): _BY_TYPE}


@cache
def definitions() -> dict[str, Json]:
    """The schema of every type, by the name that a reference ends in. Not to be changed."""
    text = resources.files(__package__).joinpath("shapes.json").read_bytes()
    tables: dict[str, dict[str, str]] = msgspec.json.decode(text)
    return {PREFIX + name: _object(name, fields) for name, fields in tables.items()}


@cache
def compiler() -> Compiler:
    """Compiles schemas that may refer to these types."""
    return Compiler(definitions)


def reference(name: str) -> Json:
    """A schema that stands for the type of that name."""
    return {"$ref": REF + PREFIX + name}


def resolved(schema: Json) -> Json:
    """The schema itself, where the given one only refers to it."""
    if (only := schema.get("allOf")) and "type" not in schema:
        schema = only[0]
    found = schema.get("$ref")
    return definitions()[found.removeprefix(REF)] if found is not None else schema


def _object(name: str, fields: dict[str, str]) -> Json:
    properties = {
        field.rstrip("!"): _field(name, field.rstrip("!"), type_) for field, type_ in fields.items()
    }
    schema: Json = {"type": "object", "properties": properties}
    required = [field[:-1] for field in fields if field.endswith("!")]
    return schema | {"required": required} if required else schema


def _field(owner: str, field: str, type_: str) -> Json:
    found = wire.message(owner).by_name.get(field) if wire.is_message(owner) else None
    if found is None:
        return _schema(type_) | _UNWIRED.get((owner, field), {})
    if found.type == "Quantity":
        type_ = type_.replace("string", "quantity")
    if found.type == "IntOrString":
        type_ = "port"
    return _schema(type_) | _merging(found)


def _schema(type_: str) -> Json:
    if type_.startswith("[]"):
        return {"type": "array", "items": _schema(type_[2:])}
    if type_.startswith("{}"):
        return {"type": "object", "additionalProperties": _schema(type_[2:])}
    return _SCALARS[type_] if type_ in _SCALARS else {"allOf": [reference(type_)]}


def _merging(field: wire.Field) -> Json:
    """How patches and server-side apply merge the list, as OpenAPI says it."""
    words: Json = {}
    if field.merge_key is not None:
        words["x-kubernetes-patch-strategy"] = "merge,retainKeys" if field.retain_keys else "merge"
    if field.merge_key:
        words["x-kubernetes-patch-merge-key"] = field.merge_key
    # Kubernetes declares lists of exit codes as sets, but restart rules may repeat a code.
    if field.list_keys is not None and field.type != "i":
        words["x-kubernetes-list-type"] = "map" if field.list_keys else "set"
    if field.list_keys:
        words["x-kubernetes-list-map-keys"] = list(field.list_keys)
    return words
