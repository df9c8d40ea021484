# SPDX-License-Identifier: Apache-2.0
"""Checks the limits of one value: bounds, lengths, sizes, patterns, enums, formats.

Each limit becomes a function, which is created once and called for every value. A limit applies
only to values of its type: a string has no minimum.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sized
from datetime import datetime
from functools import lru_cache
from typing import Any

from .. import names
from ..base import Json
from ..constraints.rule import DNS_LABEL, IDENTIFIER, QUALIFIED_NAME, REASON, SUBDOMAIN
from ..faults import FieldError, invalid, not_supported, quoted, too_long, too_many
from ..quantity import parse
from .faults import Path, Type, spelt

Check = Callable[[Any, Path], FieldError | None]

_BITS = {"int32": 31, "int64": 63}
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)
_LOWER = "lower case letters, digits and '-', with a letter or digit first and last"
_MIXED = "letters, digits, '-', '_' and '.', with a letter or digit first and last"
_SYNTAX = {
    DNS_LABEL: f"is not a DNS label: use {_LOWER}",
    SUBDOMAIN: f"is not a DNS name: use {_LOWER}; '.' may separate such parts",
    QUALIFIED_NAME: f"is not a key: use {_MIXED}, perhaps after a DNS name and '/'",
    IDENTIFIER: "is not a kind: use letters, digits and '-', with a letter first",
    REASON: "is not one word: use letters, digits, '_', ',' and ':', with a letter first",
}


def checks(schema: Json, *, quantity: bool) -> Iterator[Check]:
    """Yield the checks of one schema. `quantity` states that its values are quantities."""
    if quantity:
        yield parsed(parse)
        return
    for word, make in _CHECKS.items():
        if schema.get(word) is not None:
            check = make(schema[word], schema)
            if check is not None:
                yield check


def is_time(value: str) -> bool:
    """Whether the text is a time in RFC 3339 format, which includes the time zone."""
    if _RFC_3339.fullmatch(value) is None:
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


def parsed(parse: Callable[[str], Any]) -> Check:
    """Return the check that a text can be parsed. `parse` raises ValueError with the reason."""

    def check(value: Any, path: Path) -> FieldError | None:
        try:
            parse(value)
        except ValueError as error:
            return invalid(spelt(path), value, str(error))
        return None

    return check


def _time(value: Any, path: Path) -> FieldError | None:
    if is_time(value):
        return None
    return invalid(spelt(path), value, f"must be {Type.TIME}, is {quoted(value)}")


def _format(name: Any, schema: Json) -> Check | None:
    if name == "date-time":
        return _time if schema.get("type") == "string" else None
    bits = _BITS.get(name)
    if bits is None or schema.get("type") not in ("integer", "number"):
        return None
    least, most = -(2**bits), 2**bits

    def check(value: Any, path: Path) -> FieldError | None:
        if least <= value < most:
            return None
        return invalid(spelt(path), value, f"{value} does not fit in {bits + 1} bits")

    return check


def _enum(known: Any, schema: Json) -> Check:
    def check(value: Any, path: Path) -> FieldError | None:
        if value in known:
            return None
        return not_supported(spelt(path), value, [each or '""' for each in known])

    return check


def _minimum(bound: Any, schema: Json) -> Check:
    if schema.get("exclusiveMinimum") is True:
        return _number(lambda value: value > bound, f"above {bound}")
    return _number(lambda value: value >= bound, f"{bound} or more")


def _maximum(bound: Any, schema: Json) -> Check:
    if schema.get("exclusiveMaximum") is True:
        return _number(lambda value: value < bound, f"below {bound}")
    return _number(lambda value: value <= bound, f"{bound} or less")


def _multiple(bound: Any, schema: Json) -> Check | None:
    return _number(lambda value: value % bound == 0, f"a multiple of {bound}") if bound else None


def _number(holds: Callable[[Any], bool], wanted: str) -> Check:
    def check(value: Any, path: Path) -> FieldError | None:
        if type(value) not in (int, float) or holds(value):
            return None
        return invalid(spelt(path), value, f"must be {wanted}, is {value}")

    return check


def _empty(path: Path) -> FieldError:
    return invalid(spelt(path), "", "must not be empty", "fill it in, or remove the field")


def _min_length(bound: Any, schema: Json) -> Check | None:
    def check(value: Any, path: Path) -> FieldError | None:
        if type(value) is not str or len(value) >= bound:
            return None
        if not value:
            return _empty(path)
        return invalid(spelt(path), value, f"must have at least {bound} characters")

    return check if bound else None


def _max_length(bound: Any, schema: Json) -> Check:
    def check(value: Any, path: Path) -> FieldError | None:
        if type(value) is not str or len(value) <= bound:
            return None
        message = f"has {len(value)} characters, at most {bound} are allowed"
        return too_long(spelt(path), message)

    return check


def _pattern(pattern: Any, schema: Json) -> Check | None:
    compiled = _compiled(str(pattern))
    if compiled is None:
        return None
    wrong = _SYNTAX.get(pattern, f"does not match {pattern}")
    is_name = pattern in (SUBDOMAIN, DNS_LABEL)

    def check(value: Any, path: Path) -> FieldError | None:
        if type(value) is not str or compiled.search(value):
            return None
        if not value:
            return None if schema.get("minLength") else _empty(path)
        similar = names.similar_name(value) if is_name else ""
        fix = f'use for example "{similar}"' if similar else ""
        return invalid(spelt(path), value, f"{quoted(value)} {wrong}", fix)

    return check


_DOLLARS = re.compile(r"(\\.|\[\^?\]?(?:\\.|[^\]\\])*\])|\$", re.DOTALL)


@lru_cache(512)
def _compiled(pattern: str) -> re.Pattern[str] | None:
    """Compile a pattern. Return None if Python does not support it; it is then not enforced."""
    try:
        # In Python, $ also matches before a final newline. In Go it does not.
        return re.compile(_DOLLARS.sub(lambda found: found[1] or r"\Z", pattern))
    except re.error:
        return None


def _at_least(container: type[Sized], noun: str) -> Callable[[Any, Json], Check]:
    def make(bound: Any, schema: Json) -> Check:
        def check(value: Any, path: Path) -> FieldError | None:
            if type(value) is not container or len(value) >= bound:
                return None
            return invalid(spelt(path), len(value), f"must have at least {bound} {noun}")

        return check

    return make


def _at_most(container: type[Sized], noun: str) -> Callable[[Any, Json], Check]:
    def make(bound: Any, schema: Json) -> Check:
        def check(value: Any, path: Path) -> FieldError | None:
            if type(value) is not container or len(value) <= bound:
                return None
            message = f"has {len(value)} {noun}, at most {bound} are allowed"
            return too_many(spelt(path), len(value), message)

        return check

    return make


_CHECKS: dict[str, Callable[[Any, Json], Check | None]] = {
    "enum": _enum,
    "format": _format,
    "minimum": _minimum,
    "maximum": _maximum,
    "multipleOf": _multiple,
    "minLength": _min_length,
    "maxLength": _max_length,
    "pattern": _pattern,
    "minItems": _at_least(list, "element(s)"),
    "maxItems": _at_most(list, "elements"),
    "minProperties": _at_least(dict, "entries"),
    "maxProperties": _at_most(dict, "entries"),
}
