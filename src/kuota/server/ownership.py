# SPDX-License-Identifier: Apache-2.0
"""Joins field ownership to the registry: schemas, versions, and what each endpoint never sets."""

from __future__ import annotations

from functools import lru_cache

from kuota.api.base import Json

from .admission import Write
from .apply import ApplyConflict, ApplyError, applied, tracked
from .kinds import Kind, Version, served_form, stored_form
from .metadata import timestamp
from .ownership_schema import Schema, builtin_schema, custom_schema
from .requests import Target
from .status import Refused, bad_request

_STATUS: Json = {"f:status": {".": {}}}
_ALL_BUT_STATUS: Json = {
    "f:spec": {".": {}},
    "f:metadata": {
        "f:annotations": {".": {}},
        "f:labels": {".": {}},
        "f:finalizers": {".": {}},
        "f:ownerReferences": {".": {}},
    },
}


class _Versions:
    """The kind in its other versions, for owners that wrote in one of them."""

    def __init__(self, kind: Kind) -> None:
        self._kind = kind

    def view(self, obj: Json, api_version: str) -> tuple[Json, Schema] | None:
        version = self._kind.version(api_version.rpartition("/")[2])
        if version is None or self._kind.api_version(version.name) != api_version:
            return None
        stored = stored_form(self._kind, obj)
        return served_form(self._kind, stored, version.name), schema_of(self._kind, version)


def schema_of(kind: Kind, version: Version) -> Schema:
    return _builtin(kind.api_version(version.name), kind.kind) or custom_schema(version.schema)


@lru_cache(256)
def _builtin(api_version: str, kind: str) -> Schema | None:
    return builtin_schema(api_version, kind)


def owned(target: Target, old: Json | None, new: Json, write: Write, subresource: str = "") -> Json:
    """The stored object `new` with the record of what this write changed in `old`.

    `subresource` names one that stands for the object itself, as scale does.
    """
    kind, version = target.kind, target.version
    before = None if old is None else served_form(kind, old, version.name)
    after = tracked(
        before,
        served_form(kind, new, version.name),
        manager=write.manager,
        now=timestamp(write.now),
        schema=schema_of(kind, version),
        subresource=target.subresource or subresource,
        reset=_reset(target),
        versions=_Versions(kind),
    )
    metadata = {key: value for key, value in new["metadata"].items() if key != "managedFields"}
    if "managedFields" in after["metadata"]:
        metadata["managedFields"] = after["metadata"]["managedFields"]
    return new | {"metadata": metadata}


def applied_to(target: Target, live: Json | None, config: Json, write: Write, force: bool) -> Json:
    """The object, in the version of the request, after the configuration was applied to it."""
    kind, version = target.kind, target.version
    try:
        return applied(
            None if live is None else served_form(kind, live, version.name),
            config,
            manager=write.manager,
            force=force,
            now=timestamp(write.now),
            schema=schema_of(kind, version),
            subresource=target.subresource,
            reset=_reset(target),
            versions=_Versions(kind),
        )
    except ApplyConflict as error:
        causes = [
            {"reason": each.reason, "message": each.message, "field": each.field}
            for each in error.causes
        ]
        raise Refused(409, "Conflict", str(error), {"causes": causes}) from None
    except ApplyError as error:
        raise bad_request(str(error)) from None


def _reset(target: Target) -> Json:
    if target.subresource == "status":
        return _ALL_BUT_STATUS
    return _STATUS if target.version.status else {}
