# SPDX-License-Identifier: Apache-2.0
"""FieldRule, one line of a constraint table, and the words the tables are written in."""

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
    """What the API server holds one field to. An unset bound is None, an unset word is "".

    `default` is UNSET when there is none: a default of {} or False is a real one. A default is
    filled in only where the enclosing object is present. `pattern` is meant for a full match.
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
    """A field of any type, where only presence or a default is ruled."""
    return FieldRule(**rule)


def int32(**rule: Any) -> FieldRule:
    return FieldRule(format="int32", **rule)


def int64(**rule: Any) -> FieldRule:
    return FieldRule(format="int64", **rule)


def text(max_length: int | None = None, **rule: Any) -> FieldRule:
    return FieldRule(max_length=max_length, **rule)


def subdomain(**rule: Any) -> FieldRule:
    """The name of most objects: an RFC 1123 subdomain of at most 253 characters."""
    return FieldRule(max_length=253, pattern=SUBDOMAIN, **rule)


def dns_label(**rule: Any) -> FieldRule:
    return FieldRule(max_length=63, pattern=DNS_LABEL, **rule)


def one_of(*values: str, **rule: Any) -> FieldRule:
    return FieldRule(enum=values, **rule)


def time(**rule: Any) -> FieldRule:
    return FieldRule(format="date-time", **rule)


def atomic(max_items: int | None = None, **rule: Any) -> FieldRule:
    """A list that server-side apply replaces whole."""
    return FieldRule(list_type="atomic", max_items=max_items, **rule)


def set_of(max_items: int | None = None, **rule: Any) -> FieldRule:
    """A list without duplicates."""
    return FieldRule(list_type="set", max_items=max_items, **rule)


def keyed(*keys: str, max_items: int | None = None, **rule: Any) -> FieldRule:
    """A list whose elements are told apart by `keys`, "name" unless said otherwise."""
    return FieldRule(list_type="map", list_map_keys=keys or ("name",), max_items=max_items, **rule)


def under(prefix: str, table: Mapping[str, T]) -> dict[str, T]:
    """The table with every path moved below `prefix`; the path "" is the prefix itself."""
    return {_joined(prefix, path): line for path, line in table.items()}


def _joined(prefix: str, path: str) -> str:
    if not path or path.startswith(("[", "{")):
        return prefix + path
    return f"{prefix}.{path}"


def amended(table: Table, gone: Iterable[str] = (), changed: Table | None = None) -> Table:
    """The table of another version: without the `gone` paths and all below, then `changed`."""
    roots = tuple(gone)
    kept = {path: rule for path, rule in table.items() if not _within(path, roots)}
    return kept | dict(changed or {})


def _within(path: str, roots: tuple[str, ...]) -> bool:
    return any(
        path == root or path.startswith((f"{root}.", f"{root}[", f"{root}{{")) for root in roots
    )


def relaxed(table: Table, keep: Iterable[str] = ()) -> Table:
    """The table as v1beta1 has it: required strings may be empty, conditions are unlimited."""
    kept = frozenset(keep)
    return {path: rule if path in kept else _relaxed(path, rule) for path, rule in table.items()}


def _relaxed(path: str, rule: FieldRule) -> FieldRule:
    if ".conditions[]" in path:
        return rule
    if path.endswith(".conditions"):
        return msgspec.structs.replace(rule, max_items=None)
    return msgspec.structs.replace(rule, min_length=None)
