# SPDX-License-Identifier: Apache-2.0
"""Defines FieldRule, the entry of a constraint table, and the functions that create entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import msgspec

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
SUBDOMAIN = rf"^{_LABEL}(\.{_LABEL})*$"
DNS_LABEL = rf"^{_LABEL}$"
QUALIFIED_NAME = rf"^({_LABEL}(\.{_LABEL})*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
IDENTIFIER = r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$"
REASON = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"


class FieldRule(msgspec.Struct, frozen=True, kw_only=True):
    """The constraints of one field. An unset bound is None, and an unset string is "".

    `default` is UNSET if there is none, because {} and False are valid defaults. A default is set
    only if the enclosing object is present. `pattern` must match the complete value.
    """

    required: bool = False
    default: Any = msgspec.UNSET
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str = ""
    format: str = ""
    min_items: int | None = None
    max_items: int | None = None
    max_properties: int | None = None
    list_type: str = ""
    list_map_keys: tuple[str, ...] = ()
    map_type: str = ""

    @property
    def has_default(self) -> bool:
        return self.default is not msgspec.UNSET


Table = Mapping[str, FieldRule]
T = TypeVar("T")


def field(**rule: Any) -> FieldRule:
    """Return the rule of a field of any type, with only presence or a default constrained."""
    return FieldRule(**rule)


def int32(**rule: Any) -> FieldRule:
    return FieldRule(format="int32", **rule)


def int64(**rule: Any) -> FieldRule:
    return FieldRule(format="int64", **rule)


def text(max_length: int | None = None, **rule: Any) -> FieldRule:
    return FieldRule(max_length=max_length, **rule)


def subdomain(**rule: Any) -> FieldRule:
    """Return the rule of most object names: an RFC 1123 subdomain of at most 253 characters."""
    return FieldRule(max_length=253, pattern=SUBDOMAIN, **rule)


def dns_label(**rule: Any) -> FieldRule:
    return FieldRule(max_length=63, pattern=DNS_LABEL, **rule)


def one_of(*values: str, **rule: Any) -> FieldRule:
    return FieldRule(enum=values, **rule)


def time(**rule: Any) -> FieldRule:
    return FieldRule(format="date-time", **rule)


def atomic(max_items: int | None = None, **rule: Any) -> FieldRule:
    """Return the rule of a list that server-side apply replaces as a whole."""
    return FieldRule(list_type="atomic", max_items=max_items, **rule)


def set_of(max_items: int | None = None, **rule: Any) -> FieldRule:
    """Return the rule of a list without duplicates."""
    return FieldRule(list_type="set", max_items=max_items, **rule)


def keyed(*keys: str, max_items: int | None = None, **rule: Any) -> FieldRule:
    """Return the rule of a list whose elements are identified by `keys`, by default "name"."""
    return FieldRule(list_type="map", list_map_keys=keys or ("name",), max_items=max_items, **rule)


def under(prefix: str, table: Mapping[str, T]) -> dict[str, T]:
    """Return the table with every path moved below `prefix`. The path "" becomes the prefix."""
    return {_joined(prefix, path): line for path, line in table.items()}


def _joined(prefix: str, path: str) -> str:
    if not path or path.startswith(("[", "{")):
        return prefix + path
    return f"{prefix}.{path}"


def amended(table: Table, gone: Iterable[str] = (), changed: Table | None = None) -> Table:
    """Return the table without the paths in `gone` and all below them, updated by `changed`."""
    roots = tuple(gone)
    kept = {path: rule for path, rule in table.items() if not _within(path, roots)}
    return kept | dict(changed or {})


def _within(path: str, roots: tuple[str, ...]) -> bool:
    return any(
        path == root or path.startswith((f"{root}.", f"{root}[", f"{root}{{")) for root in roots
    )


def relaxed(table: Table, keep: Iterable[str] = ()) -> Table:
    """Return the table for v1beta1: required strings may be empty, conditions are unlimited."""
    kept = frozenset(keep)
    return {path: rule if path in kept else _relaxed(path, rule) for path, rule in table.items()}


def _relaxed(path: str, rule: FieldRule) -> FieldRule:
    if ".conditions[]" in path:
        return rule
    if path.endswith(".conditions"):
        return msgspec.structs.replace(rule, max_items=None)
    return msgspec.structs.replace(rule, min_length=None)
