# SPDX-License-Identifier: Apache-2.0
"""Whether two JSON values mean the same to Kubernetes.

Null and empty equal absent, and quantities are compared by amount: "1" is "1000m".
"""

from __future__ import annotations

from typing import Any

from .report import nano

_EMPTY: tuple[Any, ...] = (None, "", [], {})
_QUANTITY_MAPS = frozenset({"requests", "limits", "resourceUsage", "overhead", "capacity"})


def same(one: Any, other: Any, *, quantities: bool = False) -> bool:
    """`quantities` says that the values inside are quantities."""
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
