# SPDX-License-Identifier: Apache-2.0
"""Evaluates the CEL rules of structural schemas the way an API server does.

A rule applies to each value of its node. A rule that reads `oldSelf` applies only to updates, and
only where the old value can be found: in a list that is a map, by its keys; below any other list,
never. An evaluation that ends with an error counts as a violation.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from cel_expr_python import cel  # type: ignore[import-untyped]

from kuota.api.base import Json

_ENV = cel.NewEnv(variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN})


class AdmissionResponse(NamedTuple):
    """One rule, identified by its message, applied to the value at `path`."""

    path: str
    message: str
    holds: bool


def verdicts(
    schema: Json, value: Any, old: Any = None, path: str = ""
) -> Iterator[AdmissionResponse]:
    """The verdict of every rule that applies to the value, an object of that schema."""
    for rule in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" not in rule["rule"]:
            yield AdmissionResponse(path, rule["message"], _holds(rule["rule"], {"self": value}))
        elif old is not None:
            data = {"self": value, "oldSelf": old}
            yield AdmissionResponse(path, rule["message"], _holds(rule["rule"], data))
    if isinstance(value, dict):
        yield from _below_object(schema, value, old, path)
    elif isinstance(value, list) and "items" in schema:
        for index, each in enumerate(value):
            before = _counterpart(schema, each, old)
            yield from verdicts(schema["items"], each, before, f"{path}[{index}]")


def _below_object(schema: Json, value: Json, old: Any, path: str) -> Iterator[AdmissionResponse]:
    properties = schema.get("properties", {})
    for name, each in value.items():
        if name in properties:
            before = old.get(name) if isinstance(old, dict) else None
            below = f"{path}.{name}" if path else name
            yield from verdicts(properties[name], each, before, below)


def _counterpart(schema: Json, item: Any, old: Any) -> Any:
    """The item of the old list that has the same keys, if the list is a map."""
    keys = schema.get("x-kubernetes-list-map-keys", ())
    if not keys or not isinstance(old, list):
        return None
    same = (each for each in old if all(each.get(key) == item.get(key) for key in keys))
    return next(same, None)


def _holds(rule: str, data: Json) -> bool:
    result = _program(rule).eval(data=data)
    return bool(result.type() == cel.Type.BOOL and result.value())


@cache
def _program(rule: str) -> Any:
    return _ENV.compile(rule)
