# SPDX-License-Identifier: Apache-2.0
"""Strict decoding: whether JSON has exactly the declared shape, with every fault and its path.

As in Kubernetes, null is the same as absent, a whole number may be written 5.0, and a field that
the shape does not know is a fault. msgspec alone would stop at the first one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, TypeVar, cast

import msgspec
from msgspec import inspect

from .faults import ErrorType, FieldError, Invalid

T = TypeVar("T")
Texts = dict[type, Callable[[str], Any]]
"""How to read types that are text on the wire: raises ValueError saying what is wrong."""


def decoded(value: Any, shape: type[T], texts: Texts | None = None, path: str = "") -> T:
    """The value as `shape`; raises Invalid with every fault."""
    walk, hashable = _Walk(texts or {}), cast(Any, shape)
    clean = walk.visit(value, _info(hashable), path)
    if walk.errors:
        raise Invalid(walk.errors)
    try:
        return msgspec.convert(clean, shape, dec_hook=_keep)
    except msgspec.ValidationError as error:
        raise Invalid([_wrong(path, value, str(error))]) from None


@lru_cache
def _info(shape: Any) -> inspect.Type:
    return inspect.type_info(shape)


def _keep(_: type, value: Any) -> Any:
    return value


class _Walk:
    """One pass over a value that cleans it for msgspec and gathers the faults."""

    def __init__(self, texts: Texts) -> None:
        self.texts = texts
        self.errors: list[FieldError] = []

    def visit(self, value: Any, info: inspect.Type, path: str) -> Any:
        if isinstance(info, inspect.UnionType):
            return self.visit_union(value, info, path)
        if isinstance(info, inspect.StructType):
            return self.visit_struct(value, info, path)
        if isinstance(info, inspect.ListType):
            return self.visit_list(value, info, path)
        if isinstance(info, inspect.DictType):
            return self.visit_dict(value, info, path)
        if isinstance(info, inspect.CustomType):
            return self.visit_text(value, info.cls, path)
        return self.visit_scalar(value, info, path)

    def visit_union(self, value: Any, info: inspect.UnionType, path: str) -> Any:
        """A union is either "this or nothing", or one of several scalars (a quantity)."""
        options = [each for each in info.types if not isinstance(each, inspect.NoneType)]
        if value is None and len(options) < len(info.types):
            return None
        if len(options) == 1:
            return self.visit(value, options[0], path)
        if not any(_fits(value, each) for each in options):
            self.errors.append(_mistyped(path, value, " or ".join(map(_noun, options))))
        return value

    def visit_struct(self, value: Any, info: inspect.StructType, path: str) -> Any:
        if not isinstance(value, dict):
            return self.mistyped(path, value, "an object")
        fields = {field.encode_name: field for field in info.fields}
        clean = {}
        for name, inner in value.items():
            at = f"{path}.{name}" if path else str(name)
            if name not in fields:
                self.errors.append(_unknown(at, name, fields))
            elif inner is not None:
                clean[name] = self.visit(inner, fields[name].type, at)
        return clean

    def visit_list(self, value: Any, info: inspect.ListType, path: str) -> Any:
        if not isinstance(value, list):
            return self.mistyped(path, value, "a list")
        return [
            self.visit(inner, info.item_type, f"{path}[{index}]")
            for index, inner in enumerate(value)
        ]

    def visit_dict(self, value: Any, info: inspect.DictType, path: str) -> Any:
        if not isinstance(value, dict):
            return self.mistyped(path, value, "an object")
        return {
            name: self.visit(inner, info.value_type, f"{path}[{name}]")
            for name, inner in value.items()
            if inner is not None
        }

    def visit_text(self, value: Any, cls: type, path: str) -> Any:
        if not isinstance(value, str):
            return self.mistyped(path, value, "a string")
        try:
            return self.texts[cls](value)
        except ValueError as error:
            self.errors.append(_wrong(path, value, str(error)))
            return value

    def visit_scalar(self, value: Any, info: inspect.Type, path: str) -> Any:
        if not _fits(value, info):
            return self.mistyped(path, value, _noun(info))
        if isinstance(info, inspect.IntType):
            value = int(value)
            low, high = info.ge, info.le
            if (low is not None and value < low) or (high is not None and value > high):
                self.errors.append(_wrong(path, value, f"must be from {low} to {high}"))
        return value

    def mistyped(self, path: str, value: Any, wanted: str) -> Any:
        self.errors.append(_mistyped(path, value, wanted))
        return value


def _fits(value: Any, info: inspect.Type) -> bool:
    if isinstance(info, inspect.StrType):
        return isinstance(value, str)
    if isinstance(info, inspect.BoolType):
        return isinstance(value, bool)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if isinstance(info, inspect.IntType):
        return number and value == value // 1
    if isinstance(info, inspect.FloatType):
        return number
    return True


_NOUNS: dict[type[inspect.Type], str] = {
    inspect.StrType: "a string",
    inspect.BoolType: "a boolean",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
}


def _noun(info: inspect.Type) -> str:
    return _NOUNS.get(type(info), "another type")


def _mistyped(path: str, value: Any, wanted: str) -> FieldError:
    message = f"must be {wanted}, not {_shown(value)}"
    return FieldError(path=path, type=ErrorType.TYPE_INVALID, message=message, value=value)


def _shown(value: Any) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return msgspec.json.encode(value).decode()


def _unknown(path: str, name: str, known: Iterable[str]) -> FieldError:
    close = difflib.get_close_matches(str(name), list(known), n=1)
    fix = f"did you mean {close[0]}?" if close else "remove it"
    message = f'unknown field "{name}"'
    return FieldError(path=path, type=ErrorType.INVALID, message=message, fix=fix)


def _wrong(path: str, value: Any, message: str) -> FieldError:
    return FieldError(path=path, type=ErrorType.INVALID, message=message, value=value)
