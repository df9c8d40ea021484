# SPDX-License-Identifier: Apache-2.0
"""Validates an object by its schema: types, required fields, limits, and unique keys.

Null is the same as absent, except as an element of a list. `cleaning` reports unknown fields, and
`kuota.api.rules` implements the CEL rules of Kueue's kinds. CEL rules of other kinds are not
evaluated.
"""

from __future__ import annotations

import json
from typing import Any

from ..base import Json
from ..faults import FieldError, duplicate, invalid, quoted, required
from .faults import Path, Type, spelt, type_fault
from .node import ABSENT, SchemaNode

_COMBINED = {
    "anyOf": "must be as at least one of the schemas in anyOf says",
    "oneOf": "must be as exactly one of the schemas in oneOf says",
    "allOf": "must be as all of the schemas in allOf say",
    "not": "is what the schema excludes",
}


def value_faults(value: Any, here: SchemaNode, old: Any = ABSENT) -> list[FieldError]:
    """Return every fault of the value. Parts that are the same object in `old` are skipped."""
    found: list[FieldError] = []
    _check(value, here, (), old, found)
    return found


def _check(value: Any, here: SchemaNode, path: Path, old: Any, found: list[FieldError]) -> None:
    if value is old and isinstance(value, dict | list):
        return  # it was checked when `old` was stored
    if here.types and type(value) not in here.types:
        options = f"use one of: {', '.join(map(str, here.enum))}" if here.enum else ""
        found.append(type_fault(spelt(path), value, here.word, options))
        return
    for check in here.checks:
        fault = check(value, path)
        if fault is not None:
            found.append(fault)
    for word, parts in here.combinations:
        if not _combined(value, word, parts):
            found.append(invalid(spelt(path), value, _COMBINED[word]))
    if type(value) is dict:
        _check_object(value, here, path, old, found)
    elif type(value) is list:
        _check_list(value, here, path, old, found)


def _check_object(
    value: Json, here: SchemaNode, path: Path, old: Any, found: list[FieldError]
) -> None:
    for name in here.required:
        if value.get(name) is None:
            field = here.fields.get(name)
            if field is None or name not in value or not field.nullable:
                found.append(_missing(spelt((path, name)), field))
    fields, values = here.fields, here.values
    before = old if type(old) is dict else {}
    for name, each in value.items():
        field = fields.get(name)
        below = values if field is None else field
        if each is None or below is None or below.plain is type(each) or below.plain is object:
            continue
        step = name if field is not None else (name,)
        _check(each, below, (path, step), before.get(name, ABSENT), found)


def _missing(path: str, field: SchemaNode | None) -> FieldError:
    wanted = Type.ANY if field is None else field.word
    fix = "set it" if wanted is Type.ANY else f"set it: {wanted} is expected"
    return required(path, "is missing", fix)


def _check_list(
    value: list[Any], here: SchemaNode, path: Path, old: Any, found: list[FieldError]
) -> None:
    items = here.items
    if items is not None and items.plain is not object:
        before = old if type(old) is list else []
        for at, each in enumerate(value):
            if type(each) is not items.plain:
                _check(each, items, (path, at), before[at] if at < len(before) else ABSENT, found)
    if here.list_type in ("map", "set"):
        _check_keys(value, here, path, found)


def _check_keys(value: list[Any], here: SchemaNode, path: Path, found: list[FieldError]) -> None:
    """Report duplicate elements of a list of type map or set."""
    seen = set()
    for at, each in enumerate(value):
        identity = _identity(each, here)
        if identity is None:
            continue
        if identity in seen:
            what = " and ".join(here.map_keys) or "value"
            named = ", ".join(map(quoted, identity))
            message = f"{named} is listed twice, the {what} must be unique"
            found.append(duplicate(spelt((path, at)), each, message, "rename it or remove it"))
        seen.add(identity)


def _identity(value: Any, here: SchemaNode) -> tuple[Any, ...] | None:
    """Return what identifies the element in its list, or None if it has another fault."""
    if here.items is not None and here.items.types and type(value) not in here.items.types:
        return None
    if here.list_type == "set" or type(value) is not dict:
        return (_hashable(value),)
    parts = tuple(_hashable(value.get(key)) for key in here.map_keys)
    return None if None in parts else parts


def _hashable(value: Any) -> Any:
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


def _combined(value: Any, word: str, parts: tuple[SchemaNode, ...]) -> bool:
    holding = sum(not value_faults(value, each) for each in parts)
    match word:
        case "anyOf":
            return holding > 0
        case "oneOf":
            return holding == 1
        case "allOf":
            return holding == len(parts)
    return holding == 0
