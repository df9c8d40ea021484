# SPDX-License-Identifier: Apache-2.0
"""The one way Kuota says that a field is wrong: where, what kind of fault, why, and what to do.

Paths and type names are Kubernetes', so a fault reads the same whether kubectl, Kueue or Kuota
found it. Who checks returns every fault it can find, not the first one.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from .base import Struct


class ErrorType(StrEnum):
    """The closed list of kinds of fault, named as in a Kubernetes Status."""

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
    """One fault of one field. `fix` is the way out when there is a definite one."""

    path: str
    type: ErrorType
    message: str
    value: Any = None
    fix: str = ""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        return f"{where}{self.message}" + (f" ({self.fix})" if self.fix else "")


class Invalid(ValueError):
    """Raised where an answer was asked for and the input has faults. Carries all of them."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("\n".join(map(str, self.errors)))
