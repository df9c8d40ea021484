# SPDX-License-Identifier: Apache-2.0
"""Edits JSON objects at a path. Unchanged parts are shared with the original.

An edit takes an object and returns a new one. It never changes its argument. Paths look like
`spec.podSets[].topologyRequest`. A path that does not exist is ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .base import Json

Edit = Callable[[Json], Json]


def edited(obj: Json, path: str, edit: Edit) -> Json:
    """Return `obj` with `edit` applied to every object at `path`."""
    if not path:
        return edit(obj)
    step, _, rest = path.partition(".")
    name = step.removesuffix("[]")
    found = obj.get(name)
    if step == name and isinstance(found, dict):
        return obj | {name: edited(found, rest, edit)}
    if step != name and isinstance(found, list):
        return obj | {name: [_element(each, rest, edit) for each in found]}
    return obj


def _element(value: Any, path: str, edit: Edit) -> Any:
    return edited(value, path, edit) if isinstance(value, dict) else value


def without(*names: str) -> Edit:
    """Return an edit that removes these fields."""

    def drop(obj: Json) -> Json:
        return {name: value for name, value in obj.items() if name not in names}

    return drop


def renamed(old: str, new: str) -> Edit:
    """Return an edit that renames the field `old` to `new`, keeping its position."""

    def rename(obj: Json) -> Json:
        if old not in obj:
            return obj
        kept = {name: value for name, value in obj.items() if name != new}
        return {new if name == old else name: value for name, value in kept.items()}

    return rename


def respelt(field: str, words: Mapping[str, str]) -> Edit:
    """Return an edit that replaces the value of `field` if the mapping contains it."""

    def respell(obj: Json) -> Json:
        value = obj.get(field)
        if isinstance(value, str) and value in words:
            return obj | {field: words[value]}
        return obj

    return respell
