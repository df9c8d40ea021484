# SPDX-License-Identifier: Apache-2.0
"""Fields that a kind does not have. The API server drops them silently unless told to be strict."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Any

from ..base import Json
from ..faults import FieldError
from .report import invalid, mapping, quoted, text
from .shape import Shape, shape
from .types import Type

_DROPPED = "it would be dropped, and so have no effect"


def unknown_faults(obj: Json) -> list[FieldError]:
    """One fault for each field that the object's kind and version does not know."""
    obj = mapping(obj)
    known = shape(text(obj.get("apiVersion")), text(obj.get("kind")))
    return [] if known is None else list(_faults(obj, known, ""))


def _faults(value: Any, known: Shape, path: str) -> Iterator[FieldError]:
    if known.type is Type.OBJECT and isinstance(value, dict):
        for name, each in value.items():
            at = f"{path}.{name}" if path else str(name)
            if name in known.fields:
                yield from _faults(each, known.fields[name], at)
            elif not known.open:
                yield unknown_fault(at, name, known.fields)
    elif known.type is Type.LIST and isinstance(value, list) and known.item is not None:
        for index, each in enumerate(value):
            yield from _faults(each, known.item, f"{path}[{index}]")


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
