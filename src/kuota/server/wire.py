# SPDX-License-Identifier: Apache-2.0
"""The fields of the built-in kinds: number, type, merge key, list type.

They are read from the generated `protobuf_tables`. Each line describes a message: its name (`%` for
one that is atomic), then its fields as `name:NUMBER TYPE FLAGS` without the spaces. An empty name
means that the fields of the field's type are inlined. Types: `s` string, `i` integer, `b` boolean,
`d` float, `y` bytes, or a message; prefixed by `[]` for lists, `{}` for maps with string keys, `*`
if zero differs from absent. Flags: `!` always present in JSON; `@key` lists that strategic patches
merge by this key, `@` by value; `^` objects that keep only the keys of the patch; `#a,b` lists that
apply merges by these keys, `#` by value; `%` atomic maps; `=x` the default of a key.
"""

from __future__ import annotations

import re
from functools import cache

import msgspec

from . import protobuf_tables

_FIELD = re.compile(
    r"(?P<name>\w*):(?P<number>\d+)(?P<pointer>\*?)(?P<many>\[\]|\{\}|)\*?(?P<type>\w+)"
    r"(?P<required>!?)(?P<merge>@\w*)?(?P<retain>\^?)(?P<list>#[\w,]*)?(?P<atomic>%?)"
    r"(?:=(?P<default>\w+))?"
)
LIST, MAP = "[]", "{}"


class Field(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One field. `merge_key` and `list_keys` are None for lists that are replaced."""

    name: str
    number: int
    type: str
    many: str = ""
    pointer: bool = False
    required: bool = False
    merge_key: str | None = None
    retain_keys: bool = False
    list_keys: tuple[str, ...] | None = None
    atomic: bool = False
    default: str | None = None

    @property
    def is_message(self) -> bool:
        """Whether the type is a message of the tables."""
        return is_message(self.type)

    @property
    def always_there(self) -> bool:
        """Whether Kubernetes' JSON contains the field even if it is not set."""
        if self.many or not self.is_message:
            return self.required
        return not self.pointer


class Message(msgspec.Struct, frozen=True, gc=False):
    """The fields of one type, by JSON name and by wire number."""

    name: str
    atomic: bool
    by_name: dict[str, Field]
    by_number: dict[int, Field]

    def merge_key(self, field: str) -> str | None:
        """The key by which a strategic merge patch matches the items of that list.

        "" matches items by their value; None means that a patch replaces the list.
        """
        found = self.by_name.get(field)
        return None if found is None else found.merge_key

    def below(self, field: str) -> Message:
        """The type of the object in this field, or of the items of the list in it.

        UNKNOWN if it is not a message. UNKNOWN merges like an object and replaces lists.
        """
        found = self.by_name.get(field)
        return message(found.type) if found is not None and found.is_message else UNKNOWN


UNKNOWN = Message("", False, {}, {})
"""An unknown type."""


def message_of(api_version: str, kind: str) -> Message | None:
    """The type of a built-in kind; None for every other kind."""
    if kind == "DeleteOptions":
        return message(kind)
    name = _kinds().get((api_version, kind))
    return None if name is None else message(name)


def is_message(name: str) -> bool:
    """Whether the name is a message of the tables."""
    return name in _lines()


@cache
def message(name: str) -> Message:
    """The named type with inlined fields. Raises KeyError if it does not exist."""
    atomic, tokens = _lines()[name]
    by_name: dict[str, Field] = {}
    by_number = {}
    for token in tokens:
        field = _field(token)
        by_number[field.number] = field
        if field.name:
            by_name[field.name] = field
        else:
            by_name.update(message(field.type).by_name)
    return Message(name, atomic, by_name, by_number)


def _field(token: str) -> Field:
    found = _FIELD.fullmatch(token)
    if found is None:
        raise ValueError(f"{token!r} is no field of the protobuf tables")
    lists = found["list"]
    return Field(
        name=found["name"],
        number=int(found["number"]),
        type=found["type"],
        many=found["many"],
        pointer=bool(found["pointer"]),
        required=bool(found["required"]),
        merge_key=None if found["merge"] is None else found["merge"][1:],
        retain_keys=bool(found["retain"]),
        list_keys=None if lists is None else tuple(lists[1:].split(",")) if lists[1:] else (),
        atomic=bool(found["atomic"]),
        default=found["default"],
    )


@cache
def _lines() -> dict[str, tuple[bool, list[str]]]:
    lines: dict[str, tuple[bool, list[str]]] = {}
    for line in protobuf_tables.MESSAGES.replace("\n ", " ").splitlines():
        head, *tokens = line.split()
        lines[head.rstrip("%")] = (head.endswith("%"), tokens)
    return lines


@cache
def _kinds() -> dict[tuple[str, str], str]:
    kinds = {}
    for line in protobuf_tables.KINDS.splitlines():
        group, *names = line.split()
        for name in names:
            kind, _, short = name.partition("=")
            kinds[group, kind] = short or kind
    return kinds
