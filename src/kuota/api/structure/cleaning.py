# SPDX-License-Identifier: Apache-2.0
"""Converts an object to the form in which it is stored: known fields of the correct type.

Cleaning drops unknown fields and null fields, writes quantities and integers in canonical form, and
reports unknown fields and wrong types. Filling sets the defaults of the schema.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from .. import quantity
from ..base import Json
from ..faults import FieldError, type_invalid
from .faults import Path, Type, UnknownField, spelt, type_fault
from .limits import is_time
from .node import ABSENT, SchemaNode


class Cleaning:
    """One pass over one object. It collects dropped fields in `unknown` and faults in `mistyped`.

    With `spelling_only` nothing is dropped, because nulls are significant in an applied
    configuration. Parts that the value shares with `stored` are not cleaned again.
    """

    def __init__(self, *, spelling_only: bool = False, stored: Json | None = None) -> None:
        self._keeps = spelling_only
        self._trusted = frozenset(_parts(stored)) if stored else frozenset()
        self.unknown: list[UnknownField] = []
        self.mistyped: list[FieldError] = []

    def clean(self, value: Any, here: SchemaNode, path: Path = ()) -> Any:
        """Return the value in stored form. Parts that need no change are shared, not copied."""
        if here.type == "object":
            return self._object(value, here, path)
        if here.type == "array":
            return self._list(value, here, path)
        check = _SCALARS.get(here.type)
        if check is None:
            return self._object(value, here, path) if here.fields else value
        result = check(value)
        return self._wrong(value, here, path) if result is ABSENT else result

    def _object(self, value: Any, here: SchemaNode, path: Path) -> Any:
        if type(value) is not dict:
            return self._wrong(value, here, path)
        result = value
        for name, each in value.items():
            if id(each) in self._trusted:
                continue
            field = here.fields.get(name)
            below = field or here.values
            if below is None:
                if not here.open and not self._keeps:
                    self.unknown.append(UnknownField(spelt((path, name)), name, here.fields))
                    result = _without(result, value, name)
            elif each is None:
                if not self._keeps and not below.nullable:
                    result = _without(result, value, name)
            elif type(each) is not str or below.type != "string":
                cleaned = self.clean(each, below, (path, name if field else (name,)))
                if not cleaned and below.omits and not self._keeps:
                    result = _without(result, value, name)
                elif cleaned is not each:
                    result = dict(result) if result is value else result
                    result[name] = cleaned
        return result

    def _list(self, value: Any, here: SchemaNode, path: Path) -> Any:
        if type(value) is not list:
            return self._wrong(value, here, path)
        if here.items is None:
            return value
        cleaned = [self.clean(each, here.items, (path, at)) for at, each in enumerate(value)]
        same = all(new is old for new, old in zip(cleaned, value, strict=True))
        return value if same else cleaned

    def _wrong(self, value: Any, here: SchemaNode, path: Path) -> Any:
        self.mistyped.append(_fault(spelt(path), value, here))
        return value


def _parts(obj: Json) -> Iterator[int]:
    """Yield the identities of the objects and lists in the upper two levels of an object."""
    for value in obj.values():
        if type(value) is dict:
            yield id(value)
            yield from (id(below) for below in value.values() if type(below) in (dict, list))


def _without(result: Json, value: Json, name: str) -> Json:
    result = dict(result) if result is value else result
    del result[name]
    return result


def _fault(path: str, value: Any, here: SchemaNode) -> FieldError:
    if here.type == "quantity" and isinstance(value, str):
        try:
            quantity.parse(value)
        except quantity.QuantityError as error:
            return type_invalid(path, value, str(error))
    # Without a declared type, an object can only be distinguished from a scalar.
    return type_fault(path, value, Type.OBJECT if here.type == "any" else here.word)


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
    return value if type(value) is str and is_time(value) else ABSENT


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


def filled(value: Any, here: SchemaNode) -> Any:
    """Return the value with the defaults of its schema. Unchanged parts are shared, not copied.

    A default is set only if the enclosing object is present. Any JSON is accepted: no defaults are
    set below a value of the wrong type.
    """
    if not here.fills:
        return value
    if isinstance(value, dict):
        return _filled_object(value, here)
    if isinstance(value, list) and here.items is not None:
        new = [filled(each, here.items) for each in value]
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    return value


def _filled_object(value: Json, here: SchemaNode) -> Json:
    changed: Json = {}
    for name, below in here.filling:
        old = value.get(name)
        if old is None and below.default is not ABSENT and not (name in value and below.nullable):
            changed[name] = filled(copy.deepcopy(below.default), below)
        elif old is not None:
            new = filled(old, below)
            if new is not old:
                changed[name] = new
    if here.values is not None and here.values.fills:
        for name in value.keys() - here.fields.keys():
            new = filled(value[name], here.values)
            if new is not value[name]:
                changed[name] = new
    return value | changed if changed else value
