# SPDX-License-Identifier: Apache-2.0
"""One object in the version it is stored in, and in the versions it is served in."""

from __future__ import annotations

from kuota.api import crds
from kuota.api.base import Json
from kuota.api.convert import convert

from .kinds import Kind

_EVENT_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_CORE_NAMES = {new: old for old, new in _EVENT_NAMES.items()}


def stored_form(kind: Kind, obj: Json) -> Json:
    """The object as it lies in the store. The argument is left as it is."""
    if kind.storage == "events":
        return _renamed(obj, _CORE_NAMES) | {"apiVersion": "v1"}
    return _in_version(kind, obj, kind.stored)


def served_form(kind: Kind, obj: Json, version: str) -> Json:
    """A stored object as `version` shows it. The argument is left as it is."""
    if kind.storage == "events":
        served = _renamed(obj, _EVENT_NAMES) | {"apiVersion": kind.api_version(version)}
        # Required there, and null for events that came through the older API.
        return {"eventTime": None} | served
    return _in_version(kind, obj, version)


def same_form(kind: Kind, version: str) -> bool:
    """Whether what is served in that version is just what is stored."""
    return version == kind.stored and not kind.storage


def _in_version(kind: Kind, obj: Json, version: str) -> Json:
    if obj.get("apiVersion") == kind.api_version(version):
        return obj
    if kind.group == crds.GROUP:
        return convert(obj, version)
    return obj | {"apiVersion": kind.api_version(version)}


def _renamed(event: Json, names: dict[str, str]) -> Json:
    return {names.get(name, name): value for name, value in event.items()}
