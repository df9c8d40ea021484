# SPDX-License-Identifier: Apache-2.0
"""Reads and compares arbitrary JSON without raising.

Rules read objects that have not been validated. A value of the wrong type is treated as absent
here, and `kuota.api.structure` reports its type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..base import Json
from ..quantity import QuantityError, parse

_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_EMPTY: tuple[Any, ...] = (None, "", [], {})
_QUANTITY_MAPS = frozenset({"requests", "limits", "resourceUsage", "overhead", "capacity"})


def mapping(value: Any) -> Json:
    """Return the value if it is an object, else an empty object."""
    return value if isinstance(value, dict) else {}


def child(value: Any, *keys: str) -> Json:
    """Return the object at the path `keys`, or an empty object if the path does not exist."""
    for key in keys:
        value = mapping(value).get(key)
    return mapping(value)


def elements(value: Any) -> list[Any]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def objects(value: Any, path: str) -> Iterator[tuple[str, Json]]:
    """Yield the path of each element and the element. A non-object becomes an empty object."""
    for index, each in enumerate(elements(value)):
        yield f"{path}[{index}]", mapping(each)


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def texts(value: Any) -> list[str]:
    """Return the strings of a list."""
    return [each for each in elements(value) if isinstance(each, str)]


def string_map(value: Any) -> dict[str, str]:
    """Return the entries of an object whose keys and values are strings."""
    pairs = mapping(value).items()
    return {key: each for key, each in pairs if isinstance(key, str) and isinstance(each, str)}


def integer(value: Any) -> int | None:
    """Return the value if it is an integer, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def nano(value: Any) -> int | None:
    """Return the quantity in nano-units, or None if it is absent or invalid."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return parse(value)
    except QuantityError:
        return None


def whole(value: str) -> int | None:
    """Parse an integer. Return None if the text is not one."""
    return int(value) if _WHOLE.fullmatch(value) else None


def truth(value: str) -> bool | None:
    """Parse a boolean in the spellings that Kueue accepts. Return None if the text is not one."""
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    return False if value in ("0", "f", "F", "FALSE", "false", "False") else None


def same(one: Any, other: Any, *, quantities: bool = False) -> bool:
    """Whether two JSON values are equal to Kubernetes.

    Null and empty equal absent, and quantities are compared by amount: "1" equals "1000m".
    `quantities` states that the values inside are quantities.
    """
    if isinstance(one, dict) and isinstance(other, dict):
        return all(
            same(one.get(key), other.get(key), quantities=quantities or key in _QUANTITY_MAPS)
            for key in {*one, *other}
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if _empty(one) or _empty(other):
        return _empty(one) and _empty(other)
    if quantities and nano(one) is not None:
        return nano(one) == nano(other)
    return type(one) is type(other) and bool(one == other)


def _empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(_empty(each) for each in value.values())
    return any(value is each or (type(value) is type(each) and value == each) for each in _EMPTY)
