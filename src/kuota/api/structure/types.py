# SPDX-License-Identifier: Apache-2.0
"""Says that a value is of the wrong type, and how to write it so that it is of the right one."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Any

from ..faults import FieldError, quoted, type_invalid


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
