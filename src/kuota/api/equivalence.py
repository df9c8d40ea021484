# SPDX-License-Identifier: Apache-2.0
"""Whether a job still asks for what its workload was made from."""

from __future__ import annotations

from typing import Any

from .base import Json
from .quantity import QuantityError, parse


def equivalent(
    some: list[Json] | None, others: list[Json] | None, *, ignore_tolerations: bool = False
) -> bool:
    """Whether two lists of pod sets would run the same pods: the same counts, containers and
    tolerations, in order.

    Takes undecoded JSON, because images and commands count too. Names, labels and placement do
    not. Quantities are compared by value; empty equals absent.
    """
    a, b = some or [], others or []
    return len(a) == len(b) and all(
        _essence(x, ignore_tolerations) == _essence(y, ignore_tolerations)
        for x, y in zip(a, b, strict=True)
    )


def _essence(pod_set: Json, ignore_tolerations: bool) -> Json:
    spec = (pod_set.get("template") or {}).get("spec") or {}
    fields = ("containers", "initContainers") + (() if ignore_tolerations else ("tolerations",))
    essence = {field: _plain(spec.get(field)) for field in fields}
    return essence | {"count": pod_set.get("count") or 0, "minCount": pod_set.get("minCount")}


def _plain(value: Any, inside: str = "") -> Any:
    """The value without its empty parts; quantities in lists of resources as integers."""
    if isinstance(value, dict):
        plain = {key: _plain(each, "" if _amounts(inside) else key) for key, each in value.items()}
        if _amounts(inside):
            plain = {key: _number(each) for key, each in plain.items()}
        return {key: each for key, each in plain.items() if each or each == 0} or None
    if isinstance(value, list):
        return [_plain(each) for each in value] or None
    return value or None


def _amounts(field: str) -> bool:
    return field in ("requests", "limits")


def _number(value: Any) -> Any:
    try:
        return parse(value or 0)
    except QuantityError:
        return value
