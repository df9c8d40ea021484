# SPDX-License-Identifier: Apache-2.0
"""JSON that records which of its parts were read.

A case is handed to its adapter as records. A value counts as read when the adapter looks it up by
key, iterates over the entries that contain it, or takes the whole object with `whole`. Looking up
an object does not read what is inside it, and neither does asking whether a key exists.
Decoders written in C bypass these classes and therefore read nothing: adapters call `convert`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
Path = tuple[str, ...]


class Record(dict[str, Any]):
    """A JSON object that notes which of its keys were read."""

    def __init__(self, values: dict[str, Any]) -> None:
        super().__init__((key, recorded(value)) for key, value in values.items())
        self._read: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self._read.add(key)
        return super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        self._read.add(key)
        return super().get(key, default)

    def __iter__(self) -> Iterator[str]:
        # Overridden so that `dict(record)` and `{**record}` look every key up.
        return super().__iter__()

    def items(self) -> Any:
        self._read.update(super().keys())
        return super().items()

    def values(self) -> Any:
        self._read.update(super().keys())
        return super().values()

    def copy(self) -> dict[str, Any]:
        return dict(self.items())

    def __or__(self, other: Any) -> Any:
        return dict(self.items()) | other

    def __ror__(self, other: Any) -> Any:
        return other | dict(self.items())

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return {key: copy.deepcopy(value, memo) for key, value in self.items()}

    def unread(self) -> Iterator[Path]:
        """The paths of everything that was not read, without what lies below them."""
        for key, value in super().items():
            if key not in self._read:
                yield (key,)
            else:
                yield from ((key, *rest) for rest in unread(value))


class Inputs(Record):
    """The inputs of a case, which lack those that were nil. They read as an empty value."""

    def __missing__(self, key: str) -> Record:
        return Record({})


class Rows(list[Any]):
    """A JSON list. Its entries are read by iterating over it or by index; scalars go with it."""

    def __init__(self, values: list[Any]) -> None:
        super().__init__(map(recorded, values))

    def __deepcopy__(self, memo: dict[int, Any]) -> list[Any]:
        return [copy.deepcopy(value, memo) for value in self]

    def unread(self) -> Iterator[Path]:
        for index, value in enumerate(self):
            yield from ((str(index), *rest) for rest in unread(value))


def recorded(value: Any) -> Any:
    """The value with every object and list in it replaced by one that notes what is read."""
    if isinstance(value, dict):
        return Record(value)
    return Rows(value) if isinstance(value, list) else value


def unread(value: Any) -> Iterator[Path]:
    return value.unread() if isinstance(value, Record | Rows) else iter(())


def whole(value: Any) -> Any:
    """The value as plain JSON, all of it read: for what is handed to Kuota or compared entirely."""
    return copy.deepcopy(value)


def convert(value: Any, kind: type[T]) -> T:
    """Decode the whole value."""
    return msgspec.convert(whole(value), kind)


def matches(path: Path, pattern: Path) -> bool:
    """Whether a pattern covers a path or something above it.

    `*` stands for one segment, and `**` for any number of them.
    """
    if not pattern:
        return True
    if pattern[0] == "**":
        return any(matches(path[skip:], pattern[1:]) for skip in range(len(path) + 1))
    return bool(path) and pattern[0] in ("*", path[0]) and matches(path[1:], pattern[1:])
