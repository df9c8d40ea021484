# SPDX-License-Identifier: Apache-2.0
"""Fields that a kind does not have. The API server drops them silently unless told to be strict."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

from ..faults import FieldError, invalid, quoted
from ..schema import structure
from ..structure import Cleaning

_DROPPED = "it would be dropped, and so have no effect"


def unknown_faults(obj: Any) -> list[FieldError]:
    """One fault for each field that the object's kind and version does not know."""
    known = structure(obj)
    if known is None:
        return []
    cleaning = Cleaning()
    cleaning.clean(obj, known)
    return [unknown_fault(each.path, each.name, each.known) for each in cleaning.unknown]


def unknown_fault(path: str, name: str, known: Iterable[str], why: str = _DROPPED) -> FieldError:
    """The fault of a field called `name` that is none of those `known` there."""
    message = f"unknown field {quoted(name)}: {why}"
    around = path.removesuffix(str(name)).removesuffix(".")
    return invalid(path, name, message, suggestion(str(name), known) or _siblings(known, around))


def suggestion(name: str, known: Iterable[str]) -> str:
    """ "did you mean X?" for the closest known name, "" when none is close."""
    by_lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f"did you mean {by_lower[close[0]]}?" if close else ""


def _siblings(known: Iterable[str], parent: str) -> str:
    names = ", ".join(sorted(known))
    return f"{parent or 'the object'} has: {names}" if len(names) <= 200 else "remove it"
