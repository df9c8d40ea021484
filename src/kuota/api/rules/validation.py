# SPDX-License-Identifier: Apache-2.0
"""Combines all layers of validation: schema, relations, transitions, and webhook.

The webhook rules read v1beta2. The faults of a converted object are reported with the paths and
field names of v1beta1, as in the user's manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from .. import names
from ..base import Json
from ..convert import convert
from ..defaults import defaulted, schema_defaulted
from ..faults import ErrorType, FieldError, type_invalid
from ..gates import DEFAULT_GATES, Gates
from ..kueue import V1BETA2
from ..schema import structure
from ..structure import Cleaning, value_faults
from ..v1beta1 import V1BETA1
from .metadata import annotation_faults, label_faults, name_faults
from .relations import relation_faults
from .report import child, mapping, text
from .transitions import transition_faults
from .webhook import webhook_faults

# A longer path comes before its prefixes, because the first match applies.
_RENAMED = {
    "ClusterQueue": {"spec.cohortName": "spec.cohort"},
    "Workload": {
        "spec.priorityClassRef.name": "spec.priorityClassName",
        "spec.priorityClassRef.group": "spec.priorityClassSource",
        "spec.priorityClassRef.kind": "spec.priorityClassSource",
        "spec.priorityClassRef": "spec.priorityClassName",
    },
}
_STRATEGY = "spec.admissionChecksStrategy.admissionChecks"


def as_written(faults: Iterable[FieldError], obj: Json) -> Iterator[FieldError]:
    """Yield faults of v1beta2 with the paths and terms of the original v1beta1 object."""
    names = dict(_RENAMED.get(text(obj.get("kind")), {}))
    if child(obj, "spec").get("admissionChecks"):
        names[_STRATEGY] = "spec.admissionChecks"
    for fault in faults:
        yield msgspec.structs.replace(
            fault,
            path=_moved(fault.path, names),
            message=_reworded(fault.message, names),
            fix=_reworded(fault.fix, names),
        )


def _moved(path: str, names: dict[str, str]) -> str:
    for new, old in names.items():
        if path == new or path.startswith((f"{new}.", f"{new}[")):
            moved = old + path[len(new) :]
            # In v1beta1 the checks are plain names, so the fault belongs to the element itself.
            return moved.removesuffix(".name") if new == _STRATEGY else moved
    return path


def _reworded(words: str, names: dict[str, str]) -> str:
    for new, old in names.items():
        words = words.replace(new, old)
    return words


def faults(obj: Any, old: Any = None, gates: Gates = DEFAULT_GATES) -> list[FieldError]:
    """Return all faults that prevent an object of Kueue from being created, or updated from `old`.

    Defaults are set first, so the object may be as the user wrote it. Paths are those of the
    object's own version. An object of another group has no faults here.
    """
    if not isinstance(obj, dict):
        return [type_invalid("", obj, "a manifest must be an object with fields")]
    stored = None if old is None else schema_defaulted(mapping(old))
    full = defaulted(obj, gates) if old is None else schema_defaulted(obj)
    rejected: Iterable[FieldError]
    if full.get("apiVersion") == V1BETA1:
        rejected = as_written(webhook_faults(_current(full), _current(stored), gates), full)
    else:
        rejected = webhook_faults(full, stored, gates)
    return _joined(_schema(full, stored), rejected)


def schema_faults(obj: Any, old: Any = None) -> list[FieldError]:
    """Return the faults for which an API server with Kueue's CRDs rejects the object.

    Webhooks are not considered.
    """
    if not isinstance(obj, dict):
        return [type_invalid("", obj, "a manifest must be an object with fields")]
    stored = None if old is None else schema_defaulted(mapping(old))
    return _schema(schema_defaulted(obj), stored)


def unknown_faults(obj: Any) -> list[FieldError]:
    """Return one fault for each field that the object's kind and version does not have.

    An API server drops such fields silently, unless strict validation is requested.
    """
    known = structure(obj)
    if known is None:
        return []
    cleaning = Cleaning()
    cleaning.clean(obj, known)
    return [each.fault() for each in cleaning.unknown]


def _schema(full: Json, old: Json | None) -> list[FieldError]:
    """Return the faults of a defaulted object by its CRD."""
    known = structure(full)
    if known is None:
        return []
    if old is not None and old.get("apiVersion") != full["apiVersion"]:
        old = schema_defaulted(convert(old, full["apiVersion"].rpartition("/")[2]))
    found = [*_metadata_faults(full, old), *value_faults(full, known, old), *relation_faults(full)]
    return found if old is None else [*found, *transition_faults(full, old)]


def _current(obj: Any) -> Any:
    """Return a defaulted object in version v1beta2."""
    if obj is None or mapping(obj).get("apiVersion") == V1BETA2:
        return obj
    return schema_defaulted(convert(obj, "v1beta2"))


def _metadata_faults(obj: Json, old: Json | None) -> Iterator[FieldError]:
    metadata, before = child(obj, "metadata"), child(old or {}, "metadata")
    labels, annotations = metadata.get("labels"), metadata.get("annotations")
    if old is None:
        yield from name_faults(obj, names.dns_subdomain)
    if labels is not before.get("labels"):
        yield from label_faults(labels, "metadata.labels")
    if annotations is not before.get("annotations"):
        yield from annotation_faults(annotations, "metadata.annotations")


def _joined(first: list[FieldError], second: Iterable[FieldError]) -> list[FieldError]:
    """Return the faults of both layers, without those of the second that repeat the first."""
    said = {fault.path for fault in first}
    twice = {fault.path for fault in first if fault.type is ErrorType.DUPLICATE}
    return first + [
        fault
        for fault in second
        if fault.path not in said and fault.path.removesuffix(".name") not in twice
    ]
