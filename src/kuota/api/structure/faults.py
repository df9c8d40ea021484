# SPDX-License-Identifier: Apache-2.0
"""Formats the faults of documents: where they are, what was found, and what was expected."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import Any

import msgspec

from ..faults import FieldError, invalid, quoted, type_invalid


class Type(StrEnum):
    """The JSON type of a field. The value is its name in messages."""

    OBJECT = "an object"
    MAP = "a map"
    LIST = "a list"
    STRING = "a string"
    INTEGER = "a whole number"
    NUMBER = "a number"
    BOOLEAN = "true or false"
    QUANTITY = 'a quantity such as 4, "500m" or "2Gi"'
    TIME = "a time such as 2026-01-02T03:04:05Z"
    INT_OR_STRING = "a whole number or a string"
    NUMBER_OR_STRING = "a number or a string"
    ANY = "anything"


_NAMES = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number"}
_PLAIN = {
    Type.INTEGER: re.compile(r"[+-]?[0-9]+"),
    Type.NUMBER: re.compile(r"[+-]?[0-9.]+"),
    Type.BOOLEAN: re.compile(r"true|false"),
}


def type_fault(path: str, value: Any, wanted: Type, fix: str = "") -> FieldError:
    """Return the fault of a value of the wrong type. `fix` is a suggestion, or empty."""
    message = f"must be {wanted}, is {_found(value)}"
    return type_invalid(path, value, message, fix or _respelt(value, wanted))


def _found(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    for kind, name in _NAMES.items():
        if isinstance(value, kind):
            return name if kind in (dict, list) else f"{name}, {quoted(value)}"
    return quoted(value)


def _respelt(value: Any, wanted: Type) -> str:
    """Return how to correct the type of the value, or "" if that cannot be guessed."""
    if isinstance(value, bool):
        words = "y, yes and on as true" if value else "n, no and off as false"
        return f"put the word in quotes: YAML reads {words}" if wanted is Type.STRING else ""
    if wanted in (Type.STRING, Type.QUANTITY) and isinstance(value, int | float):
        return f'put it in quotes: "{value}"'
    if isinstance(value, str) and wanted in _PLAIN and _PLAIN[wanted].fullmatch(value):
        return "write it without quotes"
    return ""


Path = tuple[Any, ...]
"""The path of a value: () for the root, else the path of its parent and a step.

A step is the name of a field, the index of a list element, or a one-element tuple with the key of a
map.
"""


def spelt(path: Path) -> str:
    """Format the path, for example "spec.containers[0].name"."""
    return "".join(_steps(path)).removeprefix(".")


def _steps(path: Path) -> Iterator[str]:
    if path:
        parent, step = path
        yield from _steps(parent)
        key = step[0] if isinstance(step, tuple) else step
        yield f".{key}" if isinstance(step, str) else f"[{key}]"


_DROPPED = "it would be dropped, and so have no effect"


class UnknownField(msgspec.Struct, frozen=True):
    """A field that the schema does not have, and the names of the fields that it has there."""

    path: str
    name: str
    known: Collection[str]

    def fault(self, why: str = _DROPPED) -> FieldError:
        message = f"unknown field {quoted(self.name)}: {why}"
        fix = suggestion(str(self.name), self.known) or self._siblings()
        return invalid(self.path, self.name, message, fix)

    def _siblings(self) -> str:
        names = ", ".join(sorted(self.known))
        parent = self.path.removesuffix(str(self.name)).removesuffix(".")
        return f"{parent or 'the object'} has: {names}" if len(names) <= 200 else "remove it"


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return "did you mean X?" for the closest known name, or "" if none is close."""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f"did you mean {by_lower[close[0]]}?" if close else ""
