# SPDX-License-Identifier: Apache-2.0
"""What the API server refuses by itself: types, presence, bounds, enums, sizes, list keys.

Walks any JSON along the shape of its kind. Null equals absent, except as an element of a list.
Rules that join several fields are in `relations` and `transitions`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Any

from msgspec.structs import replace

from .. import names
from ..base import Json
from ..constraints import FieldRule
from ..constraints.rule import DNS_LABEL, IDENTIFIER, QUALIFIED_NAME, REASON, SUBDOMAIN
from ..faults import FieldError
from ..quantity import QuantityError, parse
from .report import (
    duplicate,
    invalid,
    mapping,
    not_supported,
    quoted,
    required,
    text,
    too_long,
    too_many,
)
from .shape import Shape, shape
from .types import Type, type_fault

_BITS = {"int32": 31, "int64": 63}
_JSON_TYPES: dict[Type, tuple[type, ...]] = {
    Type.OBJECT: (dict,),
    Type.MAP: (dict,),
    Type.LIST: (list,),
    Type.STRING: (str,),
    Type.INTEGER: (int,),
    Type.NUMBER: (int, float),
    Type.BOOLEAN: (bool,),
    # A quantity with a fraction has to be text: an API server takes integers and strings.
    Type.QUANTITY: (str, int),
    Type.TIME: (str,),
    Type.ANY: (object,),
}
_LOWER = "lower case letters, digits and '-', with a letter or digit first and last"
_MIXED = "letters, digits, '-', '_' and '.', with a letter or digit first and last"
_SYNTAX = {
    DNS_LABEL: f"is not a DNS label: use {_LOWER}",
    SUBDOMAIN: f"is not a DNS name: use {_LOWER}; '.' may separate such parts",
    QUALIFIED_NAME: f"is not a key: use {_MIXED}, perhaps after a DNS name and '/'",
    IDENTIFIER: "is not a kind: use letters, digits and '-', with a letter first",
    REASON: "is not one word: use letters, digits, '_', ',' and ':', with a letter first",
}


def field_faults(obj: Json, old: Json | None = None) -> Iterator[FieldError]:
    """Faults of single fields. An object of no known kind has none: nothing rules it.

    A field that holds the very object that it holds in `old` was checked when that was stored.
    """
    known = shape(text(obj.get("apiVersion")), text(obj.get("kind")))
    if known is not None:
        before = old or {}
        fresh = {k: v for k, v in known.fields.items() if not _same(obj, before, k)}
        yield from _object_faults(obj, replace(known, fields=fresh), "")


def _same(obj: Json, old: Json, name: str) -> bool:
    value = obj.get(name)
    return isinstance(value, dict) and value is old.get(name)


def _faults(value: Any, known: Shape, path: str) -> Iterator[FieldError]:
    wrong = _type_fault(value, known, path)
    if wrong is not None:
        yield wrong
        return
    if known.type is Type.OBJECT:
        yield from _object_faults(value, known, path)
    elif known.type is Type.MAP:
        yield from _map_faults(value, known, path)
    elif known.type is Type.LIST:
        yield from _list_faults(value, known, path)
    elif isinstance(value, str) and known.type in (Type.STRING, Type.TIME):
        yield from _string_faults(value, known, path)
    elif isinstance(value, int | float):
        yield from _number_faults(value, known.rule, path)


def _type_fault(value: Any, known: Shape, path: str) -> FieldError | None:
    allowed = _JSON_TYPES[known.type]
    is_bool = isinstance(value, bool) and known.type not in (Type.BOOLEAN, Type.ANY)
    if value is None or is_bool or not isinstance(value, allowed):
        options = f"use one of: {', '.join(known.rule.enum)}" if known.rule.enum else ""
        return type_fault(path, value, known.type, options)
    if known.type is Type.QUANTITY:
        return _quantity_fault(value, path)
    return None


def _quantity_fault(value: Any, path: str) -> FieldError | None:
    try:
        parse(value)
    except QuantityError as error:
        return invalid(path, value, str(error))
    return None


def _object_faults(value: Json, known: Shape, path: str) -> Iterator[FieldError]:
    for name, field in known.fields.items():
        at = f"{path}.{name}" if path else name
        if value.get(name) is not None:
            yield from _faults(value[name], field, at)
        elif field.rule.required:
            yield required(at, "is missing", f"set it: {field.type} is expected")


def _map_faults(value: Json, known: Shape, path: str) -> Iterator[FieldError]:
    most = known.rule.max_properties
    if most is not None and len(value) > most:
        yield too_many(path, len(value), f"has {len(value)} entries, at most {most} are allowed")
    for key, each in value.items():
        if each is None:
            continue  # an API server drops such an entry
        if known.item is not None and known.item.type is not Type.ANY:
            yield from _faults(each, known.item, f"{path}[{key}]")


def _list_faults(value: list[Any], known: Shape, path: str) -> Iterator[FieldError]:
    least, most = known.rule.min_items, known.rule.max_items
    if least is not None and len(value) < least:
        yield invalid(path, len(value), f"must have at least {least} element(s)")
    if most is not None and len(value) > most:
        yield too_many(path, len(value), f"has {len(value)} elements, at most {most} are allowed")
    if known.item is not None and known.item.type is not Type.ANY:
        for index, each in enumerate(value):
            yield from _faults(each, known.item, f"{path}[{index}]")
    yield from _repeat_faults(value, known.rule, path)


def _repeat_faults(value: list[Any], rule: FieldRule, path: str) -> Iterator[FieldError]:
    seen = set()
    for index, each in enumerate(value):
        identity = _identity(each, rule)
        if identity is None:
            continue
        if identity in seen:
            what = " and ".join(rule.list_map_keys) or "value"
            named = ", ".join(map(quoted, identity))
            message = f"{named} is listed twice, the {what} must be unique"
            yield duplicate(f"{path}[{index}]", each, message, "rename it or remove it")
        seen.add(identity)


def _identity(value: Any, rule: FieldRule) -> tuple[Any, ...] | None:
    """What no two elements of the list may share; None when that does not apply."""
    if rule.list_type == "set":
        return (value,) if isinstance(value, str | int) else None
    if rule.list_type == "map":
        parts = tuple(mapping(value).get(key) for key in rule.list_map_keys)
        return parts if all(isinstance(part, str) for part in parts) else None
    return None


def _string_faults(value: str, known: Shape, path: str) -> Iterator[FieldError]:
    rule = known.rule
    if rule.enum and value not in rule.enum:
        yield not_supported(path, value, [each or '""' for each in rule.enum])
        return
    if not value and (rule.min_length or rule.pattern):
        yield invalid(path, value, "must not be empty", "fill it in, or remove the field")
    elif rule.max_length is not None and len(value) > rule.max_length:
        yield too_long(path, f"has {len(value)} characters, at most {rule.max_length} are allowed")
    elif rule.pattern and not _pattern(rule.pattern).fullmatch(value):
        wrong = _SYNTAX.get(rule.pattern, f"does not match {rule.pattern}")
        similar = names.similar_name(value) if rule.pattern in (SUBDOMAIN, DNS_LABEL) else ""
        fix = f'use for example "{similar}"' if similar else ""
        yield invalid(path, value, f"{quoted(value)} {wrong}", fix)
    elif known.type is Type.TIME and not _is_time(value):
        yield invalid(path, value, f"must be {Type.TIME}, is {quoted(value)}")


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    # Python's $ also matches before a final newline; a full match of the inside does not.
    return re.compile(pattern.removeprefix("^").removesuffix("$"))


def _is_time(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return "T" in value or "t" in value


def _number_faults(value: float, rule: FieldRule, path: str) -> Iterator[FieldError]:
    bits = _BITS.get(rule.format)
    if bits is not None and not -(2**bits) <= value < 2**bits:
        yield invalid(path, value, f"{value} does not fit in {bits + 1} bits")
    elif rule.minimum is not None and value < rule.minimum:
        yield invalid(path, value, f"must be {rule.minimum} or more, is {value}")
    elif rule.maximum is not None and value > rule.maximum:
        yield invalid(path, value, f"must be {rule.maximum} or less, is {value}")
