# SPDX-License-Identifier: Apache-2.0
"""The tree of fields of each kind and version: the type of every field and its constraints.

Types come from the structs, constraints from their tables; this joins the two once, so that a
walk over JSON needs a single tree. Shapes of core Kubernetes are *open*: Kuota declares only the
fields it reads, so others there are not unknown, merely unread.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import msgspec
from msgspec import inspect

from .. import base, core, kueue, v1beta1
from ..constraints import FieldRule, constraints
from .types import Type

VERSIONS = {kueue.V1BETA2: kueue.KINDS, v1beta1.V1BETA1: v1beta1.KINDS}
_NO_RULE = FieldRule()
_COMPLETE_CORE = frozenset({core.Taint, core.Toleration})
_MORE_METADATA = ("managedFields", "selfLink", "deletionGracePeriodSeconds")


class Shape(msgspec.Struct, frozen=True):
    """One field. `item` is the shape of each element of a list, or of each value of a map."""

    type: Type
    rule: FieldRule
    fields: dict[str, Shape]
    item: Shape | None = None
    open: bool = False


@lru_cache(maxsize=64)
def shape(api_version: str, kind: str) -> Shape | None:
    """The shape of a kind of Kueue; None when there is no such version or kind."""
    declared = VERSIONS.get(api_version, {}).get(kind)
    if declared is None:
        return None
    rules = constraints(kind, api_version.rpartition("/")[2])
    return _shape(_type_info(declared), "", dict(rules))


@cache
def _type_info(declared: Any) -> inspect.Type:
    return inspect.type_info(declared)


def _shape(kind: inspect.Type, path: str, rules: dict[str, FieldRule]) -> Shape:
    rule = rules.get(path, _NO_RULE)
    if isinstance(kind, inspect.StructType):
        fields = {
            field.encode_name: _shape(field.type, _joined(path, field.encode_name), rules)
            for field in kind.fields
        }
        if kind.cls is base.ObjectMeta:
            fields |= {name: _leaf(Type.ANY) for name in _MORE_METADATA}
        return Shape(Type.OBJECT, rule, fields, open=_open(kind.cls))
    if isinstance(kind, inspect.ListType):
        return Shape(Type.LIST, rule, {}, _shape(kind.item_type, f"{path}[]", rules))
    if isinstance(kind, inspect.DictType):
        return Shape(Type.MAP, rule, {}, _shape(kind.value_type, f"{path}{{}}", rules))
    if isinstance(kind, inspect.UnionType):
        return _union(kind, path, rules)
    return Shape(_SCALARS.get(type(kind), Type.ANY), rule, {})


def _union(kind: inspect.UnionType, path: str, rules: dict[str, FieldRule]) -> Shape:
    """A type or null, which reads as that type; or a quantity, the only other union there is."""
    some = [each for each in kind.types if not isinstance(each, inspect.NoneType)]
    if len(some) == 1:
        return _shape(some[0], path, rules)
    return Shape(Type.QUANTITY, rules.get(path, _NO_RULE), {})


_SCALARS: dict[type[inspect.Type], Type] = {
    inspect.StrType: Type.STRING,
    inspect.IntType: Type.INTEGER,
    inspect.FloatType: Type.NUMBER,
    inspect.BoolType: Type.BOOLEAN,
    inspect.DateTimeType: Type.TIME,
}


def _leaf(kind: Type) -> Shape:
    return Shape(kind, _NO_RULE, {})


def _open(declared: type) -> bool:
    return declared.__module__ == core.__name__ and declared not in _COMPLETE_CORE


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
