# SPDX-License-Identifier: Apache-2.0
"""The JSON patch (RFC 6902) that leads from one document to another, with few operations.

Parts that the two share are not looked into, so that a small change to a large object is cheap.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kuota.api.base import Json


def difference(before: Any, after: Any) -> list[Json]:
    """Operations that turn `before` into `after`; none when they are equal."""
    return list(_changes(before, after, ""))


def _changes(before: Any, after: Any, path: str) -> Iterator[Json]:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _fields(before, after, path)
    elif isinstance(before, list) and isinstance(after, list):
        yield from _items(before, after, path)
    elif type(before) is not type(after) or before != after:
        yield {"op": "replace", "path": path, "value": after}


def _fields(before: Json, after: Json, path: str) -> Iterator[Json]:
    for name in before:
        if name not in after:
            yield {"op": "remove", "path": f"{path}/{_escaped(name)}"}
    for name, value in after.items():
        at = f"{path}/{_escaped(name)}"
        if name in before:
            yield from _changes(before[name], value, at)
        else:
            yield {"op": "add", "path": at, "value": value}


def _items(before: list[Any], after: list[Any], path: str) -> Iterator[Json]:
    """Item by item, then what was added at the end, or taken away there."""
    common = min(len(before), len(after))
    for index in range(common):
        yield from _changes(before[index], after[index], f"{path}/{index}")
    for value in after[common:]:
        yield {"op": "add", "path": f"{path}/-", "value": value}
    for index in range(len(before) - 1, common - 1, -1):
        yield {"op": "remove", "path": f"{path}/{index}"}


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
