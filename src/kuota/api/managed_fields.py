# SPDX-License-Identifier: Apache-2.0
"""The entries of metadata.managedFields: who set which fields, how, and when.

An owner is a name with the way it writes: by applying, or by updating in one API version, each of
them perhaps through a subresource. The same name may own twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from . import fieldsets
from .base import Json
from .fieldsets import FieldSet, FieldSetError

APPLY, UPDATE = "Apply", "Update"
MOST_UPDATERS = 10
OLD_UPDATES = "ancient-changes"
_LONGEST_NAME = 128


class Owner(msgspec.Struct, frozen=True, order=True, gc=False):
    """Whom an entry belongs to. Appliers have one entry whatever version they apply in."""

    manager: str
    operation: str
    subresource: str = ""
    api_version: str = ""

    def __str__(self) -> str:
        text = f'"{self.manager}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


class Entry(msgspec.Struct, frozen=True, gc=False):
    """What one owner owns: the fields in the terms of that version, and when that last changed."""

    api_version: str
    fields: FieldSet
    time: str = ""
    wire: FieldSet | None = None
    """The fields as they were read, for writing them again unchanged."""


Entries = dict[Owner, Entry]


def owner(manager: str, operation: str, api_version: str, subresource: str) -> Owner:
    """The owner that a request is counted for."""
    version = api_version if operation == UPDATE else ""
    return Owner(manager or "unknown", operation, subresource, version)


def manager_name(field_manager: str, user_agent: str) -> str:
    """The name that a request is counted for: the one it gives, else its program's."""
    if field_manager:
        return field_manager
    program = user_agent.partition("/")[0]
    return "".join(filter(str.isprintable, program))[:_LONGEST_NAME] or "unknown"


def read(managed: Any) -> Entries:
    """The entries as written in an object. Raises FieldSetError if they cannot be read."""
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
        entries[key] = Entry(version, _parsed(_encode(wire)), each.get("time") or "", wire)
    return entries


_encode = msgspec.json.Encoder().encode


@lru_cache(256)
def _parsed(wire: bytes) -> FieldSet:
    """The set in its encoded wire form. Objects of one kind have the same few, again and again.

    Sets are never changed once they are made, so that all readers may share this one.
    """
    return fieldsets.from_wire(msgspec.json.decode(wire))


def readable(managed: Any) -> Entries:
    """The same, but none where they cannot be read."""
    try:
        return read(managed)
    except FieldSetError:
        return {}


def asks_for_reset(managed: Any) -> bool:
    """Whether a request gives up all tracking: an empty list, or one with one empty entry."""
    return isinstance(managed, list) and managed in ([], [{}])


def write(entries: Entries) -> list[Json]:
    """The entries as an object holds them, in Kubernetes' order."""
    return [
        _written(key, entry)
        for key, entry in sorted(
            entries.items(), key=lambda each: (each[0].operation, each[1].time, each[0])
        )
        if entry.fields
    ]


def _written(key: Owner, entry: Entry) -> Json:
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
    """The entries with the oldest updates of one version merged, if there are too many."""
    updaters = sorted(
        (key for key in entries if key.operation == UPDATE),
        key=lambda key: (entries[key].time, key),
    )
    out, surplus = dict(entries), len(updaters) - MOST_UPDATERS
    first: dict[str, Owner] = {}
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


def _joined(a: Entry, b: Entry, time: str) -> Entry:
    return Entry(a.api_version, fieldsets.union(a.fields, b.fields), time)


def without_managed(obj: Json) -> Json:
    """The object without its entries."""
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k != "managedFields"}
    return {**obj, "metadata": metadata}


def with_managed(obj: Json, entries: Entries) -> Json:
    """The object with exactly these entries."""
    out = without_managed(obj)
    if managed := write(entries):
        out["metadata"]["managedFields"] = managed
    return out


def owned(entries: Iterable[Entry]) -> FieldSet:
    """What any of them owns."""
    out: FieldSet = {}
    for entry in entries:
        out = fieldsets.union(out, entry.fields)
    return out
