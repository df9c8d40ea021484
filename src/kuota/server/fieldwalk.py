# SPDX-License-Identifier: Apache-2.0
"""Traverses documents along their schema: list fields, compare, merge, prune.

These are the operations of server-side apply. Arguments are never changed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kuota.api import fieldsets
from kuota.api.fieldsets import SELF, FieldSet

from .ownership_schema import Schema

Path = tuple[str, ...]


class _Absent:
    def __bool__(self) -> bool:
        return False


ABSENT = _Absent()


class ApplyError(ValueError):
    """An invalid configuration. The message names the path."""


class Comparison(msgspec.Struct, frozen=True):
    """What differs between two states of an object."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    @property
    def changed(self) -> FieldSet:
        """Fields that are modified or new in the newer state."""
        return fieldsets.union(self.modified, self.added)


def fields_of(value: Any, schema: Schema) -> FieldSet:
    """Every field that the value sets, as ownership records it."""
    out: FieldSet = {}
    _collect(value, schema, out)
    out.pop(SELF, None)
    return out


def _collect(value: Any, schema: Schema, out: FieldSet) -> None:
    if isinstance(value, dict) and not schema.atomic:
        for name, below in value.items():
            node = out.setdefault(fieldsets.field(name), {})
            _collect(below, schema.field(name), node)
            if below is None or below == {} or not schema.declares(name):
                node[SELF] = {}
            if not node:
                del out[fieldsets.field(name)]
        return
    items = elements(value, schema) if isinstance(value, list) else None
    if items is None:
        out[SELF] = {}
        return
    for element, below in items:
        node = out.setdefault(element, {})
        _collect(below, schema.item(), node)
        node[SELF] = {}


def elements(items: list[Any], schema: Schema) -> list[tuple[str, Any]] | None:
    """The items with their path elements; None if the list is atomic.

    A list also counts as atomic if an item lacks its keys, so that every stored object can be
    handled.
    """
    keys = schema.list_keys
    if keys is None:
        return None
    if keys == ():
        return [(fieldsets.valued(item), item) for item in items]
    out = []
    for item in items:
        found = _keys(item, keys, schema)
        if not found:
            return None
        out.append((fieldsets.keyed(found), item))
    return out


def _keys(item: Any, keys: tuple[str, ...], schema: Schema) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if isinstance(item, dict):
        for key in keys:
            value = item.get(key)
            value = schema.default(key) if value is None else value
            if value is not None:
                found[key] = value
    return found


def check_keys(value: Any, schema: Schema, path: Path = ()) -> None:
    """Raise ApplyError if a list in the configuration lacks keys or contains duplicates."""
    if isinstance(value, dict) and not schema.atomic:
        for name, below in value.items():
            check_keys(below, schema.field(name), (*path, fieldsets.field(name)))
    elif isinstance(value, list) and schema.list_keys is not None:
        where, items = fieldsets.written(path), elements(value, schema)
        if items is None:
            needed = ", ".join(schema.list_keys)
            raise ApplyError(f"{where}: an item of the list omits its key {needed}")
        seen = set()
        for element, below in items:
            if element in seen:
                twice = fieldsets.written((element,))
                raise ApplyError(f"{where}: duplicate entries for key {twice}")
            seen.add(element)
            check_keys(below, schema.item(), (*path, element))


def compared(old: Any, new: Any, schema: Schema) -> Comparison:
    """What was added, modified and removed between the two objects."""
    out = Comparison({}, {}, {})
    _compare(old, new, schema, out, ())
    return out


def _compare(old: Any, new: Any, schema: Schema, out: Comparison, path: Path) -> None:
    if old == new:
        return
    before, after = _parts(old, schema), _parts(new, schema)
    for element in {**before, **after}:
        was, now = before.get(element, ABSENT), after.get(element, ABSENT)
        if was is now or was == now:
            continue
        below = schema.field(element[2:]) if element[:2] == "f:" else schema.item()
        if was is ABSENT and old is not ABSENT and schema.starts_with(element[2:]):
            was = now if now is None or now == {} else {}
        _compare(was, now, below, out, (*path, element))
    if old is ABSENT:
        fieldsets.insert(out.added, path)
    elif new is ABSENT:
        fieldsets.insert(out.removed, path)
    elif not (before or after) or {type(old), type(new)} & _SCALARS:
        fieldsets.insert(out.modified, path)


_SCALARS = {str, int, float, bool}


def _parts(value: Any, schema: Schema) -> dict[str, Any]:
    """The separately owned parts of the value. List items with equal keys count as one."""
    if isinstance(value, dict) and not schema.atomic:
        return {fieldsets.field(name): below for name, below in value.items()}
    out: dict[str, Any] = {}
    for element, item in (isinstance(value, list) and elements(value, schema)) or ():
        out[element] = (out[element], item) if element in out else item
    return out


def merged(live: Any, config: Any, schema: Schema) -> Any:
    """The live value merged with the configuration. Lists keep live items."""
    if isinstance(live, dict) and isinstance(config, dict) and not schema.atomic:
        out = dict(live)
        for name, value in config.items():
            out[name] = merged(out.get(name, ABSENT), value, schema.field(name))
        return out
    if isinstance(live, list) and isinstance(config, list):
        old, new = elements(live, schema), elements(config, schema)
        if old is not None and new is not None:
            return _merged_lists(old, new, schema.item())
    return config


def _merged_lists(
    live: list[tuple[str, Any]], config: list[tuple[str, Any]], schema: Schema
) -> list[Any]:
    """The merged items in the order of the configuration; live items keep their place."""
    old, left = dict(live), list(config)
    wanted = dict(config)
    out = []
    for element, item in live:
        if element not in wanted:
            out.append(item)
        elif element == next((each for each, _ in left if each in old), None):
            while left and left[0][0] != element:
                out.append(left.pop(0)[1])
            out.append(merged(item, left.pop(0)[1], schema))
    return out + [merged(old.get(element, ABSENT), item, schema) for element, item in left]


def pruned(value: Any, last: FieldSet, owned: FieldSet, schema: Schema) -> Any:
    """The value without the fields of `last` that are not in `owned`.

    ABSENT if nothing remains, unless someone owns the empty object or list. An owner of a nested
    field also keeps the declared fields above it. An item of a list or a key of a map is removed
    completely if nobody owns the item itself.
    """
    if isinstance(value, dict) and not schema.atomic:
        parts = [(fieldsets.field(name), name, below) for name, below in value.items()]
        kept = _kept(parts, last, owned, schema)
        return dict(kept) if kept or not value or SELF in owned else ABSENT
    items = elements(value, schema) if isinstance(value, list) else None
    if not items:
        return value
    kept = _kept([(element, "", item) for element, item in items], last, owned, schema)
    return [item for _, item in kept] if kept or SELF in owned else ABSENT


def _kept(
    parts: list[tuple[str, str, Any]], last: FieldSet, owned: FieldSet, schema: Schema
) -> list[tuple[str, Any]]:
    out = []
    for element, name, value in parts:
        was, now = last.get(element), owned.get(element, {})
        if was is not None:
            named = bool(name) and schema.declares(name)
            if (named or SELF in was) and not (SELF in now or (named and now)):
                continue
            below = schema.field(name) if name else schema.item()
            value = pruned(value, was, now, below)
        if value is not ABSENT:
            out.append((name, value))
    return out
