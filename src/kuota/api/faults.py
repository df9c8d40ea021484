# SPDX-License-Identifier: Apache-2.0
"""Represents faults of fields: path, type, reason, and a fix.

Paths and type names are those of Kubernetes, so a fault reads the same whether kubectl, Kueue or
Kuota reports it. A check returns all faults, not only the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from typing import Any

from .base import Json, Struct

IMMUTABLE = "cannot be changed"


class ErrorType(StrEnum):
    """The types of faults, named as in a Kubernetes Status."""

    REQUIRED = "FieldValueRequired"
    INVALID = "FieldValueInvalid"
    FORBIDDEN = "FieldValueForbidden"
    NOT_SUPPORTED = "FieldValueNotSupported"
    NOT_FOUND = "FieldValueNotFound"
    DUPLICATE = "FieldValueDuplicate"
    TOO_MANY = "FieldValueTooMany"
    TOO_LONG = "FieldValueTooLong"
    TYPE_INVALID = "FieldValueTypeInvalid"
    INTERNAL = "InternalError"


class FieldError(Struct):
    """One fault of one field. `fix` is a remedy, or empty if there is no definite one."""

    path: str
    type: ErrorType
    message: str
    value: Any = None
    fix: str = ""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.message}" + (f" ({self.fix})" if self.fix else "")


class Invalid(ValueError):
    """Raised for an input with faults. Contains all of them."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(map(str, self.errors)))


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
    """Return the fault of a value that is not in `allowed`. `what` describes the allowed values."""
    options = ", ".join(map(str, allowed))
    message = f"{quoted(value)} is not {what or 'a value allowed here'}"
    fix = f"use one of: {options}" if options else "remove it, because there is none"
    return _error(path, ErrorType.NOT_SUPPORTED, message, value, fix)


def immutable(path: str, value: Any, why: str, fix: str) -> FieldError:
    return _error(path, ErrorType.INVALID, f"{IMMUTABLE} {why}".rstrip(), value, fix)


def malformed(
    path: str, value: str, complaints: Iterable[str], fix: str = ""
) -> Iterator[FieldError]:
    """Yield one fault for each complaint about the syntax of `value`."""
    for complaint in complaints:
        yield invalid(path, value, f"{quoted(value)} {complaint}", fix)


def at_most_one(path: str, value: str, complaints: Iterable[str]) -> Iterator[FieldError]:
    """Yield one fault with all complaints about the value, or nothing if there are none."""
    said = "; ".join(complaints)
    if said:
        yield invalid(path, value, f"{quoted(value)} {said}")


def introduced(
    rule: Callable[[Json], Iterable[FieldError]], new: Json, old: Json | None
) -> list[FieldError]:
    """Return the faults of `new` that `old` does not have.

    An older version may have stored what the rule rejects. Such an object must remain changeable:
    a Job that could not be suspended would keep its quota.
    """
    found = list(rule(new))
    if not found or old is None:
        return found
    known = set(map(repr, rule(old)))
    return [each for each in found if repr(each) not in known]


def _error(path: str, kind: ErrorType, message: str, value: Any, fix: str = "") -> FieldError:
    return FieldError(path=path, type=kind, message=message, value=value, fix=fix)


def quoted(value: Any) -> str:
    """Format the value for a message, shortened if it is long."""
    text = f'"{value}"' if isinstance(value, str) else str(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
