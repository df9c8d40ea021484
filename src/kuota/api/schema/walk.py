# SPDX-License-Identifier: Apache-2.0
"""Structural schemas, made from the types, the constraint tables and the CEL rules.

The types say which fields there are and of what kind; the tables say the rest. The result obeys
what a CustomResourceDefinition demands: every node has a type (or is an int-or-string, or keeps
unknown fields), and there are neither references nor alternatives.

There are two of them for each kind. The schema of the CRD has a few shapes that are written out by
hand, because our types only have the fields that are read: see `WRITTEN`. A pod template is one of
them. Spelling a whole PodSpec out would make a schema of half a megabyte for text that the API
server of the pods checks anyway, so it is compact: of the metadata, labels and annotations are
kept; the spec must have named containers and keeps the rest unseen. The schema for our own checks
has object metadata, and of those shapes the fields that Kuota reads; others are merely unread.
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
    """Writes the schema of one kind. `left_out` are fields a type has but the kind does not.

    `compact` says that it is the schema of the CRD, with the shapes that are written by hand.
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
            # API servers know what metadata is, and refuse to be told, if only in a description.
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
        """Only two unions are written: something or nothing, and a quantity."""
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
        """What the tables say about the field at `path`."""
        said = dict(_words(self._table[path])) if path in self._table else {}
        if path in self._words:
            said["description"] = self._words[path]
        if path in self._rules:
            said["x-kubernetes-validations"] = [
                {"rule": each.rule, "message": each.message} for each in self._rules[path]
            ]
        return said


def schema_of(declared: type) -> Json:
    """The schema of a type that is no kind, for our own checks only.

    It has all the fields that the type has. A type of our own that is text in JSON becomes a
    format, named after the type in lower case. Quantities are not read.
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
    """A copy that shares nothing, so that a caller may change it."""
    result: Json = msgspec.json.decode(msgspec.json.encode(schema))
    return result
