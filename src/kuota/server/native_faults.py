# SPDX-License-Identifier: Apache-2.0
"""Validates manifests of Kubernetes' own kinds and of jobs of other projects without a server.

Reports everything that this server would reject: unknown fields, types, values. Status is not
checked, because controllers write it and may be newer than these tables.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from functools import cache

from kuota.api.base import Json, group_of
from kuota.api.faults import FieldError, invalid, required
from kuota.api.gates import Gates
from kuota.api.structure import Cleaning

from . import kind_rules
from .bodies import MAX_DEPTH, is_deep
from .builtin_kinds import native_kinds
from .columns import mapped
from .job_kinds import job_kinds
from .kinds import Kind, Version

_OWN_GROUPS = ("", "batch")
"""Groups without third-party kinds. In other groups, a kind may be a custom resource."""

_NO_FIELD = "Kubernetes has none of that name here"
_UID = "00000000-0000-0000-0000-000000000000"


def native_kind(api_version: str, kind: str) -> Kind | None:
    """The built-in kind with this name and version, if it is known."""
    found = _natives().get((api_version, kind))
    return found[0] if found else None


def native_kind_fault(api_version: str, kind: str) -> FieldError | None:
    """The fault of a wrong name or version of a built-in kind."""
    if group_of(api_version) not in _OWN_GROUPS or native_kind(api_version, kind):
        return None
    said = {kind.lower(), kind.lower().removesuffix("s")}
    for right_version, right in _natives():
        if right == kind:
            message = f"{api_version} has no kind {kind}"
            return invalid("apiVersion", api_version, message, f"use {right_version}")
        if right_version == api_version and right.lower() in said:
            message = f"{api_version} has no kind {kind}"
            return invalid("kind", kind, message, f"did you mean {right}?")
    return None


def native_faults(obj: Json) -> list[FieldError]:
    """All faults of a new object; none for unknown kinds."""
    found = _natives().get((obj["apiVersion"], obj["kind"]))
    if found is None:
        return []
    kind, version = found
    written = {name: value for name, value in obj.items() if name != "status"}
    if is_deep(written):
        return [invalid("", None, f"is nested more than {MAX_DEPTH} deep")]
    cleaning = Cleaning()
    cleaned = cleaning.clean(written, version.structure)
    unknown = [each.fault(_NO_FIELD) for each in cleaning.unknown]
    if cleaning.mistyped:
        return unknown + cleaning.mistyped
    return unknown + list(_value_faults(kind, version, cleaned))


@cache
def _natives() -> dict[tuple[str, str], tuple[Kind, Version]]:
    return {
        (kind.api_version(version.name), kind.kind): (kind, version)
        for kind in (*native_kinds(), *job_kinds())
        for version in kind.versions
    }


def _value_faults(kind: Kind, version: Version, cleaned: Json) -> Iterator[FieldError]:
    """Faults of the object after defaulting."""
    obj = copy.deepcopy(cleaned)
    metadata = mapped(obj.get("metadata"))
    name = metadata.get("name") or metadata.get("generateName")
    if not name:
        yield required("metadata.name", "every object needs a name", "set metadata.name")
    # A valid character stands for the generated suffix of generateName.
    made_up = {"uid": _UID, "name": metadata.get("name") or f"{name or ''}x"}
    obj["metadata"] = metadata | made_up
    gates = Gates()
    obj = kind_rules.filled_new(kind, version, obj, gates)
    kind_rules.generate(kind, obj)
    yield from kind_rules.faults(kind, version, obj, None, gates)
