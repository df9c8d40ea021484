# SPDX-License-Identifier: Apache-2.0
"""How a fault of a document is put into words: where it is, what was found, and what was meant."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Iterable, Iterator
from enum import StrEnum
from typing import Any

import msgspec

from ..faults import FieldError, invalid, quoted, type_invalid


class Type(StrEnum):
    """What JSON a field holds. The value is how it is called in a fault."""

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
    """The fault of a value that is not what is wanted; `fix` where a better one is known."""
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
    """How to write the value so that it has the right type, where that can be guessed."""
    if isinstance(value, bool):
        words = "y, yes and on as true" if value else "n, no and off as false"
        return f"put the word in quotes: YAML reads {words}" if wanted is Type.STRING else ""
    if wanted in (Type.STRING, Type.QUANTITY) and isinstance(value, int | float):
        return f'put it in quotes: "{value}"'
    if isinstance(value, str) and wanted in _PLAIN and _PLAIN[wanted].fullmatch(value):
        return "write it without quotes"
    return ""


Path = tuple[Any, ...]
"""Where a value is: () for the whole, else the path of its parent and a step from there.

A step is the name of a field, an index of a list, or the key of a map in a tuple of its own.
"""


def spelt(path: Path) -> str:
    """ "spec.containers[0].name" of a path."""
    return "".join(_steps(path)).removeprefix(".")


def _steps(path: Path) -> Iterator[str]:
    if path:
        parent, step = path
        yield from _steps(parent)
        key = step[0] if isinstance(step, tuple) else step
        yield f".{key}" if isinstance(step, str) else f"[{key}]"


_DROPPED = "it would be dropped, and so have no effect"


class Unknown(msgspec.Struct, frozen=True):
    """A field that the schema does not have, and the names of those it has in that place."""

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
    """ "did you mean X?" for the closest known name, "" when none is close."""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f"did you mean {by_lower[close[0]]}?" if close else ""
