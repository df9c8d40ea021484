# SPDX-License-Identifier: Apache-2.0
"""Defaults and bounds of structural schemas, for kinds that CustomResourceDefinitions install.

Rules written in CEL are not evaluated: an object that only such a rule would refuse is stored.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from kuota.api import quantity
from kuota.api.base import Json
from kuota.api.faults import ErrorType, FieldError

from .structure import ABSENT, Node, Path, followed, node, spelt


def filled(value: Any, found: Any) -> Any:
    """The value with the defaults of its schema. Parts that lack nothing are shared, not copied."""
    here = followed(found)
    if isinstance(value, dict):
        return _filled_object(value, here)
    if isinstance(value, list) and here.items is not None:
        new = [filled(each, here.items) for each in value]
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    return value


def _filled_object(value: Json, here: Node) -> Json:
    result = value
    for name, below in here.fields.items():
        old = value.get(name)
        known = followed(below)
        if old is None and known.default is not ABSENT and not (name in value and known.nullable):
            old = copy.deepcopy(known.default)
        new = filled(old, below) if old is not None else None
        if new is not None and new is not value.get(name):
            result = dict(result) if result is value else result
            result[name] = new
    for name in value if here.values is not None else ():
        new = filled(value[name], here.values)
        if new is not value[name]:
            result = dict(result) if result is value else result
            result[name] = new
    return result


def constraint_faults(
    value: Any, found: Any, path: Path = (), old: Any = ABSENT
) -> Iterator[FieldError]:
    """Every bound that the value breaks. Types are taken to be right.

    What is the very same object in `old` was checked when that was stored.
    """
    if value is old:
        return
    here = followed(found)
    for word, bound in here.limits.items():
        check = _CHECKS.get(word)
        complaint = check(value, bound) if check is not None else None
        if complaint is not None:
            type_, message = complaint
            yield FieldError(path=spelt(path), type=type_, message=message, value=value)
    if isinstance(value, dict):
        yield from _object_faults(value, here, path, old if isinstance(old, dict) else {})
    elif isinstance(value, list) and here.items is not None:
        yield from _key_faults(value, here, path)
        for at, each in enumerate(value):
            yield from constraint_faults(each, here.items, (path, at))


def _object_faults(value: Json, here: Node, path: Path, old: Json) -> Iterator[FieldError]:
    for name in here.required:
        if name not in value:
            at = spelt((path, name))
            yield FieldError(path=at, type=ErrorType.REQUIRED, message="must be set")
    for name, each in value.items():
        below = here.fields.get(name) or here.values
        if below is not None and each is not None:
            yield from constraint_faults(each, below, (path, name), old.get(name, ABSENT))


def _key_faults(value: list[Any], here: Node, path: Path) -> Iterator[FieldError]:
    """Items of a list that is a map, or a set, must differ."""
    kind = here.limits.get("x-kubernetes-list-type")
    if kind not in ("map", "set"):
        return
    seen = []
    for at, each in enumerate(value):
        key = (
            {name: each.get(name) for name in here.map_keys}
            if kind == "map" and isinstance(each, dict)
            else each
        )
        if key in seen:
            yield FieldError(
                path=spelt((path, at)), type=ErrorType.DUPLICATE, message="is twice", value=key
            )
        seen.append(key)


Complaint = tuple[ErrorType, str] | None


def _wrong(holds: bool, message: str, type_: ErrorType = ErrorType.INVALID) -> Complaint:
    return None if holds else (type_, message)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _enum(value: Any, known: Any) -> Complaint:
    words = ", ".join(f'"{each}"' for each in known)
    return _wrong(value in known, f"supported values: {words}", ErrorType.NOT_SUPPORTED)


def _minimum(value: Any, bound: Any) -> Complaint:
    return _wrong(not _number(value) or value >= bound, f"must be {bound} or more")


def _maximum(value: Any, bound: Any) -> Complaint:
    return _wrong(not _number(value) or value <= bound, f"must be {bound} or less")


def _min_length(value: Any, bound: Any) -> Complaint:
    return _wrong(
        not isinstance(value, str) or len(value) >= bound, f"must have at least {bound} characters"
    )


def _max_length(value: Any, bound: Any) -> Complaint:
    message = f"may not be longer than {bound}"
    return _wrong(not isinstance(value, str) or len(value) <= bound, message, ErrorType.TOO_LONG)


@lru_cache(512)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """None where Python cannot read what Go can; such a pattern then binds nothing."""
    try:
        return re.compile(pattern)
    except re.error:
        return None


def _pattern(value: Any, pattern: Any) -> Complaint:
    if not isinstance(value, str):
        return None
    compiled = _compiled(str(pattern))
    return _wrong(compiled is None or bool(compiled.search(value)), f"should match '{pattern}'")


def _min_items(value: Any, bound: Any) -> Complaint:
    return _wrong(
        not isinstance(value, list) or len(value) >= bound, f"should have at least {bound} items"
    )


def _max_items(value: Any, bound: Any) -> Complaint:
    message = f"must have at most {bound} items"
    return _wrong(not isinstance(value, list) or len(value) <= bound, message, ErrorType.TOO_MANY)


def _min_properties(value: Any, bound: Any) -> Complaint:
    return _wrong(
        not isinstance(value, dict) or len(value) >= bound, f"should have at least {bound} entries"
    )


def _max_properties(value: Any, bound: Any) -> Complaint:
    message = f"must have at most {bound} entries"
    return _wrong(not isinstance(value, dict) or len(value) <= bound, message, ErrorType.TOO_MANY)


def _multiple(value: Any, bound: Any) -> Complaint:
    return _wrong(
        not _number(value) or not bound or value % bound == 0, f"must be a multiple of {bound}"
    )


def _format(value: Any, name: Any) -> Complaint:
    if name == "int32" and _number(value):
        return _wrong(-(2**31) <= value < 2**31, "must fit in 32 bits")
    if name == "quantity":
        try:
            quantity.parse(value)
        except (ValueError, TypeError, OverflowError):
            return ErrorType.INVALID, "must be a quantity such as 500m or 2Gi"
    return None


def _breaks(value: Any, schema: Json) -> bool:
    """Whether the value breaks a schema that stands inside anyOf and the like."""
    here = node(schema)
    if not _typed(value, followed(here).type):
        return True
    return next(constraint_faults(value, here), None) is not None


def _typed(value: Any, type_: str) -> bool:
    wanted: dict[str, Callable[[Any], bool]] = {
        "integer": lambda each: isinstance(each, int) and not isinstance(each, bool),
        "number": _number,
        "string": lambda each: isinstance(each, str),
        "boolean": lambda each: isinstance(each, bool),
        "object": lambda each: isinstance(each, dict),
        "array": lambda each: isinstance(each, list),
    }
    return type_ not in wanted or wanted[type_](value)


def _any_of(value: Any, schemas: Any) -> Complaint:
    holds = any(not _breaks(value, each) for each in schemas)
    return _wrong(holds, "must be as at least one of the schemas in anyOf says")


def _one_of(value: Any, schemas: Any) -> Complaint:
    holds = sum(not _breaks(value, each) for each in schemas) == 1
    return _wrong(holds, "must be as exactly one of the schemas in oneOf says")


def _all_of(value: Any, schemas: Any) -> Complaint:
    holds = all(not _breaks(value, each) for each in schemas)
    return _wrong(holds, "must be as all of the schemas in allOf say")


def _not(value: Any, schema: Any) -> Complaint:
    return _wrong(_breaks(value, schema), "is what the schema excludes")


_CHECKS: dict[str, Callable[[Any, Any], Complaint]] = {
    "enum": _enum,
    "minimum": _minimum,
    "maximum": _maximum,
    "minLength": _min_length,
    "maxLength": _max_length,
    "pattern": _pattern,
    "minItems": _min_items,
    "maxItems": _max_items,
    "minProperties": _min_properties,
    "maxProperties": _max_properties,
    "multipleOf": _multiple,
    "format": _format,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "allOf": _all_of,
    "not": _not,
}
