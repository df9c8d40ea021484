# SPDX-License-Identifier: Apache-2.0
"""Reads and writes the entries of metadata.managedFields: who set which fields, how, and when.

An owner is a manager name, an operation (apply, or update in one API version), and optionally a
subresource. One manager can therefore have several entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from . import fieldsets
from .base import Json
from .fieldsets import FieldSet, FieldSetError
from .small_cache import small_cache

APPLY, UPDATE = "Apply", "Update"
MOST_UPDATERS = 10
OLD_UPDATES = "ancient-changes"
_LONGEST_NAME = 128


class FieldOwner(msgspec.Struct, frozen=True, order=True, gc=False):
    """The owner of an entry. An applier has one entry regardless of the version it applies."""

    manager: str
    operation: str
    subresource: str = ""
    api_version: str = ""

    def __str__(self) -> str:
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class ManagedFieldsEntry(msgspec.Struct, frozen=True, gc=False):
    """The fields of one owner in the given version, and the time of their last change."""

    api_version: str
    fields: FieldSet
    time: str = ""
    wire: FieldSet | None = None
    """The fields in the wire format as read, so that they can be written back unchanged."""


Entries = dict[FieldOwner, ManagedFieldsEntry]


def owner(manager: str, operation: str, api_version: str, subresource: str) -> FieldOwner:
    """Return the owner that a request is attributed to."""
    version = api_version if operation == UPDATE else ""
    return FieldOwner(manager or "unknown", operation, subresource, version)


def manager_name(field_manager: str, user_agent: str) -> str:
    """Return the manager name of a request: the given one, or else that of the client program."""
    if field_manager:
        return field_manager
    program = user_agent.partition("/")[0]
    return "".join(filter(str.isprintable, program))[:_LONGEST_NAME] or "unknown"


def read(managed: Any) -> Entries:
    """Parse the entries of an object. Raises FieldSetError if they are invalid."""
    entries: Entries = {}
    for each in managed or ():
        if not isinstance(each, dict) or each.get("operation") not in (APPLY, UPDATE):
            raise FieldSetError("an entry of managedFields needs the operation Apply or Update")
        version = each.get("apiVersion")
        if not version or each.get("fieldsType") != "FieldsV1":
            raise FieldSetError(
                "an entry of managedFields needs apiVersion and fieldsType FieldsV1"
            )
        key = owner(
            each.get("manager", ""), each["operation"], version, each.get("subresource", "")
        )
        wire = each.get("fieldsV1") or {}
        entries[key] = ManagedFieldsEntry(
            version, _parsed(_encode(wire)), each.get("time") or "", wire
        )
    return entries


_encode = msgspec.json.Encoder().encode


@small_cache(256, longest=8192)
def _parsed(wire: bytes) -> FieldSet:
    """Parse a set in its encoded wire format.

    Results are cached, because objects of a kind have the same few sets, of less than 4 KiB. Sets
    are never modified after they are created, so all readers can share the result.
    """
    return fieldsets.from_wire(msgspec.json.decode(wire))


def readable(managed: Any) -> Entries:
    """Parse the entries of an object, or return no entries if they are invalid."""
    try:
        return read(managed)
    except FieldSetError:
        return {}


def asks_for_reset(managed: Any) -> bool:
    """Whether a request resets field tracking: an empty list, or a list with one empty entry."""
    return isinstance(managed, list) and managed in ([], [{}])


def write(entries: Entries) -> list[Json]:
    """Return the entries in the format of an object, in the order that Kubernetes uses."""
    return [
        _written(key, entry)
        for key, entry in sorted(
            entries.items(), key=lambda each: (each[0].operation, each[1].time, each[0])
        )
        if entry.fields
    ]


def _written(key: FieldOwner, entry: ManagedFieldsEntry) -> Json:
    out: Json = {
        "manager": key.manager,
        "operation": key.operation,
        "apiVersion": entry.api_version,
        "time": entry.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fieldsets.to_wire(entry.fields) if entry.wire is None else entry.wire,
        "subresource": key.subresource,
    }
    return {name: value for name, value in out.items() if value != ""}


def capped(entries: Entries) -> Entries:
    """Merge the oldest update entries of each version if there are too many entries."""
    updaters = sorted(
        (key for key in entries if key.operation == UPDATE),
        key=lambda key: (entries[key].time, key),
    )
    out, surplus = dict(entries), len(updaters) - MOST_UPDATERS
    first: dict[str, FieldOwner] = {}
    for key in updaters:
        if surplus <= 0:
            break
        version = entries[key].api_version
        if version not in first:
            first[version] = key
            continue
        bucket = owner(OLD_UPDATES, UPDATE, version, "")
        if bucket not in out:
            out[bucket] = out.pop(first[version])
        if key != bucket:
            out[bucket] = _joined(entries[key], out[bucket], out.pop(key).time)
            surplus -= 1
    return out


def _joined(a: ManagedFieldsEntry, b: ManagedFieldsEntry, time: str) -> ManagedFieldsEntry:
    return ManagedFieldsEntry(a.api_version, fieldsets.union(a.fields, b.fields), time)


def without_managed(obj: Json) -> Json:
    """Return the object without its entries."""
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k != "managedFields"}
    return {**obj, "metadata": metadata}


def with_managed(obj: Json, entries: Entries) -> Json:
    """Return the object with exactly these entries."""
    out = without_managed(obj)
    if managed := write(entries):
        out["metadata"]["managedFields"] = managed
    return out


def owned(entries: Iterable[ManagedFieldsEntry]) -> FieldSet:
    """Return the union of the fields of all entries."""
    out: FieldSet = {}
    for entry in entries:
        out = fieldsets.union(out, entry.fields)
    return out
