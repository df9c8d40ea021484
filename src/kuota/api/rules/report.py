# SPDX-License-Identifier: Apache-2.0
"""Short ways to say each kind of fault, and to read JSON that may hold anything.

Rules read objects that nobody has checked yet. A node of the wrong type reads as absent here:
saying that its type is wrong is the task of the schema layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from ..base import Json
from ..faults import ErrorType, FieldError
from ..quantity import QuantityError, parse

IMMUTABLE = "cannot be changed"
_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")


def invalid(path: str, value: Any, message: str, fix: str = "") -> FieldError:
    return _error(path, ErrorType.INVALID, message, value, fix)


def required(path: str, message: str, fix: str = "") -> FieldError:
    return _error(path, ErrorType.REQUIRED, message, None, fix)


def forbidden(path: str, message: str, fix: str = "") -> FieldError:
    return _error(path, ErrorType.FORBIDDEN, message, None, fix)


def not_found(path: str, value: Any, message: str, fix: str = "") -> FieldError:
    return _error(path, ErrorType.NOT_FOUND, message, value, fix)


def duplicate(path: str, value: Any, message: str, fix: str = "") -> FieldError:
    return _error(path, ErrorType.DUPLICATE, message, value, fix)


def too_many(path: str, value: Any, message: str) -> FieldError:
    return _error(path, ErrorType.TOO_MANY, message, value)


def too_long(path: str, message: str) -> FieldError:
    return _error(path, ErrorType.TOO_LONG, message, None)


def type_invalid(path: str, value: Any, message: str, fix: str = "") -> FieldError:
    return _error(path, ErrorType.TYPE_INVALID, message, value, fix)


def not_supported(path: str, value: Any, allowed: Iterable[str], what: str = "") -> FieldError:
    """The value is none of `allowed`; `what` says what the allowed values are."""
    options = ", ".join(map(str, allowed)) or "(none)"
    message = f"{quoted(value)} is not {what or 'a value allowed here'}"
    return _error(path, ErrorType.NOT_SUPPORTED, message, value, f"use one of: {options}")


def immutable(path: str, value: Any, why: str, fix: str) -> FieldError:
    return _error(path, ErrorType.INVALID, f"{IMMUTABLE} {why}".rstrip(), value, fix)


def malformed(
    path: str, value: str, complaints: Iterable[str], fix: str = ""
) -> Iterator[FieldError]:
    """One fault for each complaint about the syntax of `value`."""
    for complaint in complaints:
        yield invalid(path, value, f"{quoted(value)} {complaint}", fix)


def _error(path: str, kind: ErrorType, message: str, value: Any, fix: str = "") -> FieldError:
    return FieldError(path=path, type=kind, message=message, value=value, fix=fix)


def quoted(value: Any) -> str:
    """The value as a person would write it, cut short when long."""
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def mapping(value: Any) -> Json:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def child(value: Any, *keys: str) -> Json:
    """The object found by following `keys`, empty where the path ends early."""
    for key in keys:
        value = mapping(value).get(key)
    return mapping(value)


def elements(value: Any) -> list[Any]:
    """The value if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def texts(value: Any) -> list[str]:
    """The strings of a list."""
    return [each for each in elements(value) if isinstance(each, str)]


def string_map(value: Any) -> dict[str, str]:
    """The entries of an object that map a string to a string."""
    pairs = mapping(value).items()
    return {key: each for key, each in pairs if isinstance(key, str) and isinstance(each, str)}


def integer(value: Any) -> int | None:
    """The value if it is a whole number, else None."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def nano(value: Any) -> int | None:
    """The quantity in nano-units; None when absent or not a quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        return parse(value)
    except QuantityError:
        return None


def whole(value: str) -> int | None:
    """The whole number that the text writes, else None."""
    return int(value) if _WHOLE.fullmatch(value) else None


def truth(value: str) -> bool | None:
    """The boolean that the text writes, by the spellings Kueue knows, else None."""
    if value in ("1", "t", "T", "TRUE", "true", "True"):
        return True
    return False if value in ("0", "f", "F", "FALSE", "false", "False") else None
