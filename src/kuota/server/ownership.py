# SPDX-License-Identifier: Apache-2.0
"""Connects field ownership with the registry: schemas, versions, excluded fields."""

from __future__ import annotations

from functools import partial

from kuota.api.base import Json
from kuota.api.status import StatusError, bad_request

from .admission import Write
from .apply import ApplyConflict, applied, tracked
from .fieldwalk import ApplyError
from .kinds import Kind, Version, served_form, stored_form
from .metadata import timestamp
from .ownership_schema import Schema, builtin_schema, custom_schema
from .requests import RequestTarget

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


def _view(kind: Kind, obj: Json, api_version: str) -> tuple[Json, Schema] | None:
    """See `kuota.server.apply.Versions`."""
    version = kind.version(api_version.rpartition("/")[2])
    if version is None or kind.api_version(version.name) != api_version:
        return None
    return served_form(kind, stored_form(kind, obj), version.name), _schema(kind, version)


def _schema(kind: Kind, version: Version) -> Schema:
    known = builtin_schema(kind.api_version(version.name), kind.kind)
    return known or custom_schema(version.schema)


def owned(
    target: RequestTarget, old: Json | None, new: Json, write: Write, subresource: str = ""
) -> Json:
    """The stored object `new` with the ownership changes of this write.

    `subresource` names a subresource that represents the object, such as scale.
    """
    kind, version = target.kind, target.version
    before = None if old is None else served_form(kind, old, version.name)
    after = tracked(
        before,
        served_form(kind, new, version.name),
        manager=write.manager,
        now=timestamp(write.now),
        schema=_schema(kind, version),
        subresource=target.subresource or subresource,
        reset=_reset(target),
        versions=partial(_view, kind),
    )
    metadata = {key: value for key, value in new["metadata"].items() if key != "managedFields"}
    if "managedFields" in after["metadata"]:
        metadata["managedFields"] = after["metadata"]["managedFields"]
    return new | {"metadata": metadata}


def applied_to(
    target: RequestTarget, live: Json | None, config: Json, write: Write, force: bool
) -> Json:
    """The object in the version of the request after applying the configuration."""
    kind, version = target.kind, target.version
    try:
        return applied(
            None if live is None else served_form(kind, live, version.name),
            config,
            manager=write.manager,
            force=force,
            now=timestamp(write.now),
            schema=_schema(kind, version),
            subresource=target.subresource,
            reset=_reset(target),
            versions=partial(_view, kind),
        )
    except ApplyConflict as error:
        raise StatusError(409, "Conflict", str(error), {"causes": error.causes}) from None
    except ApplyError as error:
        raise bad_request(str(error)) from None


def _reset(target: RequestTarget) -> Json:
    if target.subresource == "status":
        return _ALL_BUT_STATUS
    return _STATUS if target.version.status else {}
