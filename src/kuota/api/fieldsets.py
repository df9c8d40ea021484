# SPDX-License-Identifier: Apache-2.0
"""Sets of fields, as server-side apply keeps them for each owner.

A set is a tree of dicts in the keys of the wire form: `f:name` a field, `k:{...}` the list item
with those keys, `v:...` the list item of that value. Here a member is always marked by a "." of
its own, so that union, difference and intersection are plain walks; on the wire a member without
members below it is written `{}` instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

FieldSet = dict[str, Any]

SELF = "."


class FieldSetError(ValueError):
    """A `fieldsV1` that cannot be read. The message names the element."""


def field(name: str) -> str:
    """The path element of a field of an object."""
    return f"f:{name}"


def keyed(keys: dict[str, Any]) -> str:
    """The path element of the list item with these keys."""
    if all(type(value) is str for value in keys.values()):
        return _keyed(tuple(keys.items()))
    return f"k:{_json(keys)}"


@lru_cache(1024)
def _keyed(keys: tuple[tuple[str, str], ...]) -> str:
    return f"k:{_json(dict(keys))}"


def valued(value: Any) -> str:
    """The path element of the list item that is this value."""
    return f"v:{_json(value)}"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def node(fields: FieldSet, path: tuple[str, ...]) -> FieldSet:
    """The part of the set at that path, made if need be."""
    for element in path:
        fields = fields.setdefault(element, {})
    return fields


def insert(fields: FieldSet, path: tuple[str, ...]) -> None:
    """Make the path a member."""
    node(fields, path)[SELF] = {}


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """Members of either set. Parts may be shared with the arguments."""
    if not a or not b:
        return a or b
    out = dict(a)
    for element, below in b.items():
        out[element] = union(out[element], below) if element in out else below
    return out


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """Members of the first set that are not members of the second."""
    out = {}
    for element, below in a.items():
        if element not in b:
            out[element] = below
        elif element != SELF and (rest := difference(below, b[element])):
            out[element] = rest
    return out


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """Members of both sets."""
    out = {}
    for element, below in a.items():
        if element not in b:
            continue
        common = intersection(below, b[element])
        if common or element == SELF:
            out[element] = common
    return out


def without(a: FieldSet, b: FieldSet) -> FieldSet:
    """The first set less every member of the second and all that lies below such a member."""
    out = {}
    for element, below in a.items():
        if element not in b:
            out[element] = below
        elif SELF not in b[element] and (rest := without(below, b[element])):
            out[element] = rest
    return out


def paths(fields: FieldSet, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Every member, in the order of the elements."""
    for element in sorted(fields):
        if element == SELF:
            yield above
        else:
            yield from paths(fields[element], (*above, element))


def written(path: tuple[str, ...]) -> str:
    """The path as people read it: `.spec.containers[name="main"].image`."""
    out = ""
    for element in path:
        kind, text = element[:2], element[2:]
        if kind == "f:":
            out += f".{text}"
        elif kind == "k:":
            keys = ",".join(f"{key}={_json(value)}" for key, value in json.loads(text).items())
            out += f"[{keys}]"
        else:
            out += f"[={text}]" if kind == "v:" else f"[{text}]"
    return out


def to_wire(fields: FieldSet) -> FieldSet:
    """The set in the form of `fieldsV1`, its elements sorted."""
    return {element: _below(fields[element]) for element in sorted(fields)}


def _below(fields: FieldSet) -> FieldSet:
    return {} if fields.keys() == {SELF} else to_wire(fields)


def from_wire(fields: Any) -> FieldSet:
    """The set written as `fieldsV1`. Raises FieldSetError."""
    if not isinstance(fields, dict):
        raise FieldSetError("fieldsV1 needs an object")
    out: FieldSet = {}
    for element, below in fields.items():
        if element == SELF:
            out[SELF] = {}
        else:
            out[_element(element)] = from_wire(below) if below else {SELF: {}}
    return out


@lru_cache(256)
def _element(text: str) -> str:
    kind, rest = text[:2], text[2:]
    if kind == "f:" or (kind == "i:" and rest.isdigit()):
        return text
    if kind not in ("k:", "v:"):
        raise FieldSetError(f"{text!r} is no element of fieldsV1")
    try:
        value = json.loads(rest)
    except ValueError as error:
        raise FieldSetError(f"{text!r} holds no JSON") from error
    if kind == "v:":
        return valued(value)
    if not isinstance(value, dict):
        raise FieldSetError(f"{text!r} needs an object of keys")
    return keyed(value)
