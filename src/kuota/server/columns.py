# SPDX-License-Identifier: Apache-2.0
"""Columns of `kubectl get`: cells, and the format of ages and counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from kuota.api import crds
from kuota.api.base import Json

from . import jsonpath

Cell = Callable[[Json, datetime], Any]

UNKNOWN = "<unknown>"
NONE = "<none>"


class Column(msgspec.Struct, frozen=True):
    """One column. `cell` computes the cell of an object; `wide` columns require `-o wide`."""

    name: str
    cell: Cell
    type: str = "string"
    wide: bool = False
    format: str = ""
    description: str = ""


def dig(obj: Any, *path: str | int) -> Any:
    """The value at this path of `obj`; None if a step is missing."""
    for step in path:
        if isinstance(step, int):
            if not isinstance(obj, list) or not -len(obj) <= step < len(obj):
                return None
            obj = obj[step]
        elif isinstance(obj, dict):
            obj = obj.get(step)
        else:
            return None
    return obj


def listed(value: Any) -> list[Any]:
    """The value if it is a list, otherwise an empty list."""
    return value if isinstance(value, list) else []


def mapped(value: Any) -> Json:
    """The value if it is an object, otherwise an empty object."""
    return value if isinstance(value, dict) else {}


def parsed_time(value: Any) -> datetime | None:
    """The time in RFC 3339 format; None if it is invalid."""
    if not isinstance(value, str):
        return None
    try:
        found = datetime.fromisoformat(value.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def age(value: Any, now: datetime) -> str:
    """The age in the format of kubectl."""
    then = parsed_time(value)
    return UNKNOWN if then is None else human((now - then).total_seconds())


def human(seconds: float) -> str:
    """A duration in at most two units: "45s", "3m20s", "5h", "2d4h", "400d", "3y120d"."""
    whole = int(seconds)
    if whole < -1:
        return "<invalid>"
    whole = max(0, whole)
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    if days < 2920:
        return _two(days // 365, "y", days % 365, "d")
    return f"{days // 365}y"


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def _name(obj: Json, now: datetime) -> Any:
    return dig(obj, "metadata", "name") or ""


def _age(obj: Json, now: datetime) -> Any:
    return age(dig(obj, "metadata", "creationTimestamp"), now)


NAME = Column("Name", _name, format="name", description="Name of the object, unique in its place")
AGE = Column("Age", _age, description="Time since the object was created")


def by_path(
    name: str, path: str, type_: str = "string", *, wide: bool = False, description: str = ""
) -> Column:
    """A column that a CustomResourceDefinition declares."""
    jsonpath.steps(path)

    def cell(obj: Json, now: datetime) -> Any:
        return _shown(jsonpath.values(obj, path), type_, now)

    shown_as = "string" if type_ == "date" else type_
    return Column(name, cell, shown_as, wide, description=description)


def _shown(found: list[Any], type_: str, now: datetime) -> Any:
    """The values in the format of the declared type; empty if they do not match it."""
    if not found:
        return UNKNOWN if type_ == "date" else None
    if type_ == "date":
        return age(found[0], now)
    if type_ == "string":
        return ",".join(_spelt(each) for each in found)
    value = found[0]
    if type_ == "boolean":
        return value if isinstance(value, bool) else None
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return (int(value) if type_ == "integer" else value) if number else None


def _spelt(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def with_name(columns: Sequence[Column]) -> tuple[Column, ...]:
    """The columns of a custom kind: name and declared columns, or name and age."""
    return (NAME, *(columns or (AGE,)))


def kueue_columns(kind: crds.CrdKind, version: str) -> tuple[Column, ...]:
    """The columns that Kueue's definitions declare for one of its kinds."""
    return with_name(
        [
            by_path(each.name, each.path, each.type, wide=each.wide)
            for each in kind.columns_in(version)
        ]
    )
