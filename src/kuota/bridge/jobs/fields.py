# SPDX-License-Identifier: Apache-2.0
"""Reads and replaces fields of jobs by path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kuota.api.base import Json
from kuota.api.rules.report import mapping

Path = tuple[str | int, ...]


def at(obj: object, path: Iterable[str | int]) -> object:
    """Return the value at a path; None if there is none."""
    for step in path:
        if isinstance(step, int):
            obj = obj[step] if isinstance(obj, list) and step < len(obj) else None
        else:
            obj = mapping(obj).get(step)
    return obj


def put(obj: Json, path: Sequence[str | int], value: object) -> Json:
    """Return the object with a value at a path. Missing objects on the way are added."""
    changed: Json = _put(obj, path, value)  # type: ignore[assignment]
    return changed


def _put(obj: object, path: Sequence[str | int], value: object) -> object:
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        items = list(obj) if isinstance(obj, list) else []
        items[step] = _put(items[step], rest, value)
        return items
    fields = mapping(obj)
    return fields | {step: _put(fields.get(step), rest, value)}
