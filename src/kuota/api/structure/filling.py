# SPDX-License-Identifier: Apache-2.0
"""Fills the defaults of a schema into an object."""

from __future__ import annotations

import copy
from typing import Any

from ..base import Json
from .node import ABSENT, Node


def filled(value: Any, here: Node) -> Any:
    """The value with the defaults of its schema. Parts that lack nothing are shared, not copied.

    A default is filled in only where the enclosing object is present. Safe on any JSON: where
    something has the wrong type, nothing is filled in below it.
    """
    if not here.fills:
        return value
    if isinstance(value, dict):
        return _filled_object(value, here)
    if isinstance(value, list) and here.items is not None:
        new = [filled(each, here.items) for each in value]
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    return value


def _filled_object(value: Json, here: Node) -> Json:
    changed: Json = {}
    for name, below in here.filling:
        old = value.get(name)
        if old is None and below.default is not ABSENT and not (name in value and below.nullable):
            changed[name] = filled(copy.deepcopy(below.default), below)
        elif old is not None:
            new = filled(old, below)
            if new is not old:
                changed[name] = new
    if here.values is not None and here.values.fills:
        for name in value.keys() - here.fields.keys():
            new = filled(value[name], here.values)
            if new is not value[name]:
                changed[name] = new
    return value | changed if changed else value
