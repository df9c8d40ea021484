# SPDX-License-Identifier: Apache-2.0
"""Structural schemas made ready for use: which fields an object may have, and of what type.

A schema is read once into `Node`s. Cleaning an object by them drops what the schema does not know
and what is null, spells quantities and whole numbers in their one way, and tells what was
unknown or of the wrong type. Defaults and bounds are in `constraints`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from functools import cache
from typing import Any

import msgspec

from kuota.api import quantity
from kuota.api.base import Json
from kuota.api.faults import FieldError
from kuota.api.rules.report import type_invalid
from kuota.api.rules.types import Type, type_fault

from .columns import parsed_time
from .shapes import PREFIX, definitions, reference

ABSENT: Any = object()
_REF = reference("")["$ref"].removesuffix(PREFIX)


class Node:
    """One schema. A reference is followed when it is first needed, since types may be recursive.

    Types of Kubernetes have no empty lists and maps: those are the same as absent there.
    """

    __slots__ = (
        "default",
        "fields",
        "items",
        "limits",
        "map_keys",
        "nullable",
        "omits",
        "open",
        "required",
        "type",
        "values",
    )

    def __init__(self, schema: Json, *, native: bool = False) -> None:
        self.type = _type(schema)
        properties = schema.get("properties") or {}
        self.fields: dict[str, Any] = {
            name: node(each, native=native) for name, each in properties.items()
        }
        inner, values = schema.get("items"), schema.get("additionalProperties")
        self.items = node(inner, native=native) if isinstance(inner, dict) else None
        self.values = node(values, native=native) if isinstance(values, dict) else None
        self.omits = native and (self.items is not None or self.values is not None)
        self.open = bool(schema.get("x-kubernetes-preserve-unknown-fields")) or values is True
        self.nullable = bool(schema.get("nullable"))
        self.required = tuple(schema.get("required") or ())
        self.default = schema.get("default", ABSENT)
        self.map_keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        self.limits = {key: schema[key] for key in _LIMITS if key in schema}
        if schema.get("x-kubernetes-embedded-resource"):
            self.fields = {**self.fields, **_embedded()}


class Reference:
    """Stands for the Node of a shared type."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name


_LIMITS = (
    "enum",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "minLength",
    "maxLength",
    "pattern",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "multipleOf",
    "format",
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "x-kubernetes-list-type",
)


def node(schema: Json, *, native: bool = False) -> Any:
    """The Node of a schema, or a Reference to one."""
    only: Any = schema.get("allOf") or ()
    target = only[0] if len(only) == 1 and "type" not in schema else schema
    if "$ref" in target:
        return Reference(str(target["$ref"]).removeprefix(_REF))
    return Node(schema, native=native)


@cache
def shared(name: str) -> Node:
    """The Node of a type of Kubernetes."""
    return Node(definitions()[name], native=True)


def followed(found: Any) -> Node:
    return shared(found.name) if type(found) is Reference else found


def _embedded() -> dict[str, Any]:
    text = node({"type": "string"})
    return {"apiVersion": text, "kind": text, "metadata": node(reference("ObjectMeta"))}


def _type(schema: Json) -> str:
    if schema.get("x-kubernetes-int-or-string") or schema.get("format") == "int-or-string":
        return "int-or-string"
    if schema.get("type") == "string" and schema.get("format") in ("quantity", "date-time"):
        return str(schema["format"])
    return str(schema.get("type") or "any")


class Unknown(msgspec.Struct, frozen=True):
    """A field that the schema does not have, and the names of those it has in that place."""

    path: str
    name: str
    known: Collection[str]


class Cleaning:
    """One pass over one object: `unknown` has the fields that were dropped, `mistyped` faults.

    With `spelling_only` nothing is dropped: a configuration that is applied says something with
    its nulls. Whatever the value shares with `stored` has been cleaned before.
    """

    def __init__(self, *, spelling_only: bool = False, stored: Json | None = None) -> None:
        self._keeps = spelling_only
        self._trusted = frozenset(_parts(stored)) if stored else frozenset()
        self.unknown: list[Unknown] = []
        self.mistyped: list[FieldError] = []

    def clean(self, value: Any, found: Any, path: Path = ()) -> Any:
        """The value as it may be stored. Parts that are fine already are shared, not copied."""
        here = followed(found)
        if here.type == "object":
            return self._object(value, here, path)
        if here.type == "array":
            return self._list(value, here, path)
        check = _SCALARS.get(here.type)
        if check is None:
            return self._object(value, here, path) if here.fields else value
        result = check(value)
        if result is ABSENT:
            return self._wrong(value, here.type, path)
        return result

    def _object(self, value: Any, here: Node, path: Path) -> Any:
        if type(value) is not dict:
            return self._wrong(value, "object", path)
        result = value
        for name, each in value.items():
            if id(each) in self._trusted:
                continue
            field = here.fields.get(name)
            below = field or here.values
            if below is None:
                if not here.open and not self._keeps:
                    self.unknown.append(Unknown(spelt((path, name)), name, here.fields))
                    result = _without(result, value, name)
            elif each is None:
                if not self._keeps and not followed(below).nullable:
                    result = _without(result, value, name)
            else:
                cleaned = self.clean(each, below, (path, name if field else (name,)))
                if not cleaned and followed(below).omits and not self._keeps:
                    result = _without(result, value, name)
                elif cleaned is not each:
                    result = dict(result) if result is value else result
                    result[name] = cleaned
        return result

    def _list(self, value: Any, here: Node, path: Path) -> Any:
        if type(value) is not list:
            return self._wrong(value, "array", path)
        if here.items is None:
            return value
        cleaned = [self.clean(each, here.items, (path, at)) for at, each in enumerate(value)]
        same = all(new is old for new, old in zip(cleaned, value, strict=True))
        return value if same else cleaned

    def _wrong(self, value: Any, wanted: str, path: Path) -> Any:
        self.mistyped.append(_type_fault(spelt(path), value, wanted))
        return value


def _parts(obj: Json) -> Iterator[int]:
    """The identities of the larger values in the upper two levels of an object."""
    for value in obj.values():
        if type(value) is dict:
            yield id(value)
            yield from (id(below) for below in value.values() if type(below) in (dict, list))


Path = tuple[Any, ...]
"""Where a value is: () for the whole, else the path of its parent and a step from there.

A step is a field's name, an index of a list, or a map's key in a tuple of its own.
"""


def spelt(path: Path) -> str:
    """ "spec.containers[0].name" of a path."""
    return "".join(_steps(path)).removeprefix(".")


def _steps(path: Path) -> Iterator[str]:
    if path:
        parent, step = path
        yield from _steps(parent)
        key = step[0] if isinstance(step, tuple) else step
        yield f".{key}" if isinstance(step, str) else f"[{key}]"


def _without(result: Json, value: Json, name: str) -> Json:
    result = dict(result) if result is value else result
    del result[name]
    return result


def _string(value: Any) -> Any:
    return value if type(value) is str else ABSENT


def _integer(value: Any) -> Any:
    if type(value) is int:
        return value if -(2**63) <= value < 2**63 else ABSENT
    if type(value) is float and value.is_integer() and abs(value) < 2**63:
        return int(value)
    return ABSENT


def _number(value: Any) -> Any:
    return value if type(value) in (int, float) else ABSENT


def _boolean(value: Any) -> Any:
    return value if type(value) is bool else ABSENT


def _int_or_string(value: Any) -> Any:
    return value if type(value) is str else _integer(value)


def _time(value: Any) -> Any:
    return value if parsed_time(value) is not None else ABSENT


def _quantity(value: Any) -> Any:
    if type(value) not in (str, int, float):
        return ABSENT
    try:
        written = quantity.canonical(quantity.parse(value), quantity.format_of(value))
    except (ValueError, OverflowError):
        return ABSENT
    return value if written == value else written


_SCALARS = {
    "string": _string,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "int-or-string": _int_or_string,
    "date-time": _time,
    "quantity": _quantity,
}
_WORDS = {
    "object": Type.OBJECT,
    "array": Type.LIST,
    "string": Type.STRING,
    "integer": Type.INTEGER,
    "number": Type.NUMBER,
    "boolean": Type.BOOLEAN,
    "int-or-string": Type.INT_OR_STRING,
    "date-time": Type.TIME,
    "quantity": Type.QUANTITY,
}


def _type_fault(path: str, value: Any, wanted: str) -> FieldError:
    if wanted == "quantity" and isinstance(value, str):
        try:
            quantity.parse(value)
        except quantity.QuantityError as error:
            return type_invalid(path, value, str(error))
    return type_fault(path, value, _WORDS[wanted])
