# SPDX-License-Identifier: Apache-2.0
"""Compiles structural schemas to Nodes: the fields of an object, their types and limits.

A `Compiler` converts each schema once to a tree of Nodes. Cleaning, defaulting and validation all
traverse Nodes. No other code interprets schemas.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ..base import Json
from .faults import Type
from .limits import Check, checks, parsed

ABSENT: Any = object()
QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
_TYPES: dict[str, tuple[Type, tuple[type, ...]]] = {
    "object": (Type.OBJECT, (dict,)),
    "array": (Type.LIST, (list,)),
    "string": (Type.STRING, (str,)),
    "integer": (Type.INTEGER, (int,)),
    "number": (Type.NUMBER, (int, float)),
    "boolean": (Type.BOOLEAN, (bool,)),
    "int-or-string": (Type.INT_OR_STRING, (str, int)),
    "number-or-string": (Type.NUMBER_OR_STRING, (str, int, float)),
    "date-time": (Type.TIME, (str,)),
    "quantity": (Type.QUANTITY, (str, int, float)),
    "any": (Type.ANY, ()),
}
_Python = type  # a name for it where a field is called type
_COMBINATIONS = ("anyOf", "oneOf", "allOf", "not")


class SchemaNode(msgspec.Struct, eq=False):
    """One compiled schema. Fields, items and values are Nodes; a recursive type contains itself.

    `types` are the Python types that are accepted, or () for all. `plain` is the type whose values
    are all valid, or `object` if nothing is checked. `filling` are the fields that have a default
    or contain one.
    """

    type: str = "any"
    word: Type = Type.ANY
    types: tuple[_Python, ...] = ()
    plain: _Python | None = None
    fields: dict[str, SchemaNode] = {}
    items: SchemaNode | None = None
    values: SchemaNode | None = None
    omits: bool = False
    open: bool = False
    nullable: bool = False
    required: tuple[str, ...] = ()
    default: Any = ABSENT
    enum: tuple[Any, ...] = ()
    list_type: str = ""
    map_keys: tuple[str, ...] = ()
    checks: tuple[Check, ...] = ()
    combinations: tuple[tuple[str, tuple[SchemaNode, ...]], ...] = ()
    filling: tuple[tuple[str, SchemaNode], ...] = ()
    fills: bool = False


class Compiler:
    """Compiles schemas. `definitions` returns the Kubernetes types that a `$ref` can name.

    In those types, empty lists and maps are the same as absent, as in Go. `formats` contains
    parsers of additional formats, which raise ValueError with the reason.
    """

    def __init__(
        self,
        definitions: Callable[[], Mapping[str, Json]] = dict,
        formats: Mapping[str, Callable[[str], Any]] | None = None,
    ) -> None:
        self._definitions = definitions
        self._formats = formats or {}
        self._named: dict[str, SchemaNode] = {}

    def named(self, name: str) -> SchemaNode:
        """Return the Node of a defined type."""
        found = self._named.get(name)
        if found is None:
            found = self._named[name] = (
                SchemaNode()
            )  # known before it is read, as it may be recursive
            self._read(found, self._definitions()[name], native=True)
        return found

    def node(self, schema: Json, *, native: bool = False) -> SchemaNode:
        """Return the Node of a schema."""
        only: Any = schema.get("allOf") or ()
        target = only[0] if len(only) == 1 and "type" not in schema else schema
        if "$ref" in target:
            return self.named(str(target["$ref"]).rpartition("/")[2])
        found = SchemaNode()
        self._read(found, schema, native=native)
        return found

    def _read(self, node: SchemaNode, schema: Json, *, native: bool) -> None:
        self._read_children(node, schema, native)
        self._read_type(node, schema)
        node.open = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
        node.open = node.open or schema.get("additionalProperties") is True
        node.omits = native and (node.items is not None or node.values is not None)
        node.nullable = bool(schema.get("nullable"))
        node.required = tuple(schema.get("required") or ())
        node.default = schema.get("default", ABSENT)
        node.enum = tuple(schema.get("enum") or ())
        node.list_type = str(schema.get("x-kubernetes-list-type") or "")
        node.map_keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        if node.type != "int-or-string":
            node.combinations = tuple(self._combinations(schema))
        node.filling = tuple(
            (name, each)
            for name, each in node.fields.items()
            if each.default is not ABSENT or each.fills
        )
        inner = (each for each in (node.items, node.values) if each is not None)
        node.fills = bool(node.filling) or any(each.fills for each in inner)
        node.plain = _plain(node)

    def _read_children(self, node: SchemaNode, schema: Json, native: bool) -> None:
        for name, each in (schema.get("properties") or {}).items():
            node.fields[name] = self.node(each, native=native)
        if schema.get("x-kubernetes-embedded-resource"):
            text = self.node({"type": "string"})
            metadata = self.named("io.k8s.ObjectMeta")
            node.fields |= {"apiVersion": text, "kind": text, "metadata": metadata}
        items, values = schema.get("items"), schema.get("additionalProperties")
        if isinstance(items, dict):
            node.items = self.node(items, native=native)
        if isinstance(values, dict):
            node.values = self.node(values, native=native)

    def _read_type(self, node: SchemaNode, schema: Json) -> None:
        node.type = _type(schema)
        node.word, node.types = _TYPES[node.type]
        if node.type == "object" and node.values is not None:
            node.word = Type.MAP
        quantity = node.type == "quantity" or _is_quantity(node.type, schema)
        if quantity:
            node.word = Type.QUANTITY
        node.checks = tuple(checks(schema, quantity=quantity))
        if schema.get("format") in self._formats:
            node.checks += (parsed(self._formats[schema["format"]]),)

    def _combinations(self, schema: Json) -> list[tuple[str, tuple[SchemaNode, ...]]]:
        found = []
        for word in _COMBINATIONS:
            if word in schema:
                parts = [schema[word]] if word == "not" else schema[word]
                found.append((word, tuple(self.node(each) for each in parts)))
        return found


def _type(schema: Json) -> str:
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return "int-or-string"
    if schema.get("type") == "string" and schema.get("format") in ("quantity", "date-time"):
        return str(schema["format"])
    return str(schema.get("type") or "any")


def _is_quantity(type_: str, schema: Json) -> bool:
    return type_ == "int-or-string" and schema.get("pattern") == QUANTITY_PATTERN


def _plain(node: SchemaNode) -> type | None:
    if node.checks or node.combinations or node.required:
        return None
    if len(node.types) == 1 and node.types[0] not in (dict, list):
        return node.types[0]
    if not node.types and not node.fields and node.values is None and node.items is None:
        return object
    return None
