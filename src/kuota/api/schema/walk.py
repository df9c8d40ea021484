# SPDX-License-Identifier: Apache-2.0
"""Generates structural schemas from the types, the constraint tables and the CEL rules.

The types define the fields and their types, and the tables define everything else. The result meets
the requirements of a CustomResourceDefinition: every node has a type (or is an int-or-string, or
preserves unknown fields), and there are neither references nor alternatives.

Each kind has two schemas. The schema of the CRD contains some handwritten parts (`WRITTEN`),
because the types declare only the fields that Kuota reads. One of them is the pod template. A
complete PodSpec would add half a megabyte of schema for fields that the API server validates
anyway, so this part is compact: it keeps the labels and annotations of the metadata, requires named
containers, and preserves the rest of the spec. The schema for Kuota's own validation includes
object metadata and, instead of the handwritten parts, the fields that Kuota reads. Other fields are
ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from msgspec import inspect

from .. import base, core
from ..base import Json, Object
from ..constraints import FieldRule
from ..structure.node import QUANTITY_PATTERN


class CelRule(msgspec.Struct, frozen=True):
    rule: str
    message: str


Rules = Mapping[str, tuple[CelRule, ...]]


_KEEP = "x-kubernetes-preserve-unknown-fields"
_TEXT: Json = {"type": "string"}
_TEXTS: Json = {"type": "object", "additionalProperties": _TEXT}
_CONTAINERS: Json = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": _TEXT}, "required": ["name"], _KEEP: True},
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
}
_POD_TEMPLATE: Json = {
    "type": "object",
    "properties": {
        "metadata": {"type": "object", "properties": {"labels": _TEXTS, "annotations": _TEXTS}},
        "spec": {
            "type": "object",
            "properties": {"containers": _CONTAINERS, "initContainers": _CONTAINERS},
            "required": ["containers"],
            _KEEP: True,
        },
    },
}
_TAINT: Json = {
    "type": "object",
    "properties": {
        "key": _TEXT | {"description": "Key of the taint."},
        "value": _TEXT | {"description": "Value of the taint."},
        "effect": _TEXT | {"description": "NoSchedule, PreferNoSchedule or NoExecute."},
        "timeAdded": {
            "type": "string",
            "format": "date-time",
            "description": "When the taint was added to its node.",
        },
    },
    "required": ["effect", "key"],
}

WRITTEN: Mapping[type, Json] = {core.PodTemplateSpec: _POD_TEMPLATE, core.Taint: _TAINT}
_COMPLETE = frozenset({core.Taint, core.Toleration})
_KUBERNETES = frozenset({base.__name__, core.__name__})
_MORE_METADATA = ("managedFields", "selfLink")
_ANYTHING: Json = {_KEEP: True}

_WORDS = {
    "minimum": "minimum",
    "maximum": "maximum",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
    "format": "format",
    "min_items": "minItems",
    "max_items": "maxItems",
    "max_properties": "maxProperties",
    "list_type": "x-kubernetes-list-type",
    "map_type": "x-kubernetes-map-type",
}


class Walker:
    """Generates the schema of one kind. `left_out` are fields of a type that the kind lacks.

    `compact` selects the schema of the CRD, with the handwritten parts.
    """

    def __init__(
        self,
        table: Mapping[str, FieldRule],
        rules: Rules,
        words: Mapping[str, str],
        left_out: frozenset[str],
        *,
        compact: bool = True,
        is_kind: bool = True,
    ) -> None:
        self._compact = compact
        self._is_kind = is_kind
        self._table = table
        self._rules = rules
        self._words = words
        self._left_out = left_out

    def root(self, kind: type[Object]) -> Json:
        struct = inspect.type_info(kind)
        assert isinstance(struct, inspect.StructType)
        schema = self._object(struct, "")
        if self._compact:
            # API servers define metadata themselves, and reject even a description of it.
            schema["properties"]["metadata"] = {"type": "object"}
        return schema | self._said("")

    def _object(self, struct: inspect.StructType, path: str) -> Json:
        properties: Json = {}
        required = []
        for field in struct.fields:
            below = f"{path}.{field.encode_name}" if path else field.encode_name
            if below in self._left_out:
                continue
            properties[field.encode_name] = node = self._node(field.type, below)
            if struct.cls.__module__ in _KUBERNETES and node.get("format") == "int32":
                node["format"] = "int64"
            if below in self._table and self._table[below].required:
                required.append(field.encode_name)
        if struct.cls is base.ObjectMeta:
            properties |= dict.fromkeys(_MORE_METADATA, _ANYTHING)
        schema: Json = {"type": "object", "properties": properties}
        if struct.cls.__module__ == core.__name__ and struct.cls not in _COMPLETE:
            schema[_KEEP] = True
        return schema | {"required": sorted(required)} if required else schema

    def _node(self, type_: inspect.Type, path: str) -> Json:
        return self._shape(type_, path) | self._said(path)

    def _shape(self, type_: inspect.Type, path: str) -> Json:
        match type_:
            case inspect.UnionType():
                return self._union(type_, path)
            case inspect.StructType(cls=cls):
                by_hand = self._compact and cls in WRITTEN
                return WRITTEN[cls] if by_hand else self._object(type_, path)
            case inspect.ListType(item_type=item):
                return {"type": "array", "items": self._node(item, f"{path}[]")}
            case inspect.DictType(value_type=value):
                values = self._node(value, f"{path}{{}}")
                return {"type": "object", "additionalProperties": values}
            case inspect.AnyType() if not self._compact:
                return _ANYTHING
            case inspect.IntType(ge=least):
                narrow = self._is_kind or (least is not None and least >= -(2**31))
                return {"type": "integer", "format": "int32" if narrow else "int64"}
            case _:
                return _scalar(type_, path)

    def _union(self, union: inspect.UnionType, path: str) -> Json:
        """Return the schema of a union. The types have only optional values and quantities."""
        present = [each for each in union.types if not isinstance(each, inspect.NoneType)]
        if len(present) == 1:
            return self._shape(present[0], path)
        if not self._is_kind:
            return {"type": "number-or-string"}
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "pattern": QUANTITY_PATTERN,
            "x-kubernetes-int-or-string": True,
        }

    def _said(self, path: str) -> Json:
        """Return what the tables specify for the field at `path`."""
        said = dict(_words(self._table[path])) if path in self._table else {}
        if path in self._words:
            said["description"] = self._words[path]
        if path in self._rules:
            said["x-kubernetes-validations"] = [
                {"rule": each.rule, "message": each.message} for each in self._rules[path]
            ]
        return said


def schema_of(declared: type) -> Json:
    """Return the schema of a type that is not a kind, for Kuota's own validation only.

    It has all fields of the type. A custom type that is a string in JSON becomes a format, whose
    name is the type's name in lower case. Quantities are not parsed.
    """
    walker = Walker({}, {}, {}, frozenset(), compact=False, is_kind=False)
    return walker._node(inspect.type_info(declared), "")


def _words(rule: FieldRule) -> Iterator[tuple[str, object]]:
    for name, word in _WORDS.items():
        value = getattr(rule, name)
        if value is not None and value != "":
            yield word, value
    if rule.enum:
        yield "enum", list(rule.enum)
    if rule.has_default:
        yield "default", rule.default
    if rule.list_map_keys:
        yield "x-kubernetes-list-map-keys", list(rule.list_map_keys)


def _scalar(type_: inspect.Type, path: str) -> Json:
    match type_:
        case inspect.BoolType():
            return {"type": "boolean"}
        case inspect.FloatType():
            return {"type": "number"}
        case inspect.CustomType(cls=cls):
            return {"type": "string", "format": cls.__name__.lower()}
        case inspect.StrType():
            return {"type": "string"}
        case inspect.DateTimeType():
            return {"type": "string", "format": "date-time"}
        case _:
            raise TypeError(f"{path}: no schema for {type(type_).__name__}")


def copied(schema: Json) -> Json:
    """Return a deep copy, which the caller may modify."""
    result: Json = msgspec.json.decode(msgspec.json.encode(schema))
    return result
