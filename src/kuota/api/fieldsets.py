# SPDX-License-Identifier: Apache-2.0
"""Implements sets of fields, which server-side apply stores for each owner.

A set is a tree of dicts with the keys of the wire format: `f:name` is a field, `k:{...}` is the
list item with those keys, and `v:...` is the list item with that value. In memory, every member is
marked by its own "." entry, so that union, difference and intersection are simple recursions. On
the wire, a member without members below it is written `{}` instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from .small_cache import small_cache

FieldSet = dict[str, Any]

SELF = "."
_LONGEST = 256
"""The length of the longest text that is cached."""


class FieldSetError(ValueError):
    """Raised for an invalid `fieldsV1`. The message names the element."""


def field(name: str) -> str:
    """Return the path element of a field of an object."""
    return f"f:{name}"


def keyed(keys: dict[str, Any]) -> str:
    """Return the path element of the list item with these keys."""
    if all(type(value) is str and len(value) <= _LONGEST for value in keys.values()):
        return _keyed(tuple(keys.items()))
    return f"k:{_json(keys)}"


@lru_cache(1024)
def _keyed(keys: tuple[tuple[str, str], ...]) -> str:
    return f"k:{_json(dict(keys))}"


def valued(value: Any) -> str:
    """Return the path element of the list item with this value."""
    return f"v:{_json(value)}"


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)


def node(fields: FieldSet, path: tuple[str, ...]) -> FieldSet:
    """Return the subtree of the set at the path. Missing nodes are created."""
    for element in path:
        fields = fields.setdefault(element, {})
    return fields


def insert(fields: FieldSet, path: tuple[str, ...]) -> None:
    """Add the path to the set."""
    node(fields, path)[SELF] = {}


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return the members of either set. Parts may be shared with the arguments."""
    if not a or not b:
        return a or b
    out = dict(a)
    for element, below in b.items():
        out[element] = union(out[element], below) if element in out else below
    return out


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return the members of the first set that are not members of the second."""
    out = {}
    for element, below in a.items():
        if element not in b:
            out[element] = below
        elif element != SELF and (rest := difference(below, b[element])):
            out[element] = rest
    return out


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return the members of both sets."""
    out = {}
    for element, below in a.items():
        if element not in b:
            continue
        common = intersection(below, b[element])
        if common or element == SELF:
            out[element] = common
    return out


def without(a: FieldSet, b: FieldSet) -> FieldSet:
    """Return the first set without the members of the second and everything below them."""
    out = {}
    for element, below in a.items():
        if element not in b:
            out[element] = below
        elif SELF not in b[element] and (rest := without(below, b[element])):
            out[element] = rest
    return out


def paths(fields: FieldSet, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the path of every member, ordered by path element."""
    for element in sorted(fields):
        if element == SELF:
            yield above
        else:
            yield from paths(fields[element], (*above, element))


def written(path: tuple[str, ...]) -> str:
    """Format the path for messages: `.spec.containers[name="main"].image`."""
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
    """Return the set in the `fieldsV1` format, with sorted elements."""
    return {element: _below(fields[element]) for element in sorted(fields)}


def _below(fields: FieldSet) -> FieldSet:
    return {} if fields.keys() == {SELF} else to_wire(fields)


def from_wire(fields: Any) -> FieldSet:
    """Parse a set in the `fieldsV1` format. Raises FieldSetError."""
    if not isinstance(fields, dict):
        raise FieldSetError("fieldsV1 needs an object")
    out: FieldSet = {}
    for element, below in fields.items():
        if element == SELF:
            out[SELF] = {}
        else:
            out[_element(element)] = from_wire(below) if below else {SELF: {}}
    return out


@small_cache(256, longest=_LONGEST)
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
