# SPDX-License-Identifier: Apache-2.0
"""Puts the layers together: schema, relations, transitions, webhook, for either version.

The webhook rules read v1beta2. What they find in a converted object is reported with the paths and
field names of v1beta1, as the user wrote it.
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

# Longer paths come before those they begin with: the first that matches is taken.
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
    """The faults of v1beta2 with paths and words of the v1beta1 object they came from."""
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
            # Checks are plain names in the older list, so the element itself is meant.
            return moved.removesuffix(".name") if new == _STRATEGY else moved
    return path


def _reworded(words: str, names: dict[str, str]) -> str:
    for new, old in names.items():
        words = words.replace(new, old)
    return words


def faults(obj: Any, old: Any = None, gates: Gates = DEFAULT_GATES) -> list[FieldError]:
    """Everything that keeps an object of Kueue from being created, or updated from `old`.

    Defaults are filled in first, so the object may be just as a user wrote it. Paths are those of
    the version the object is written in. An object of another group has no faults here.
    """
    if not isinstance(obj, dict):
        return [type_invalid("", obj, "a manifest must be an object with fields")]
    stored = None if old is None else schema_defaulted(mapping(old))
    full = defaulted(obj, gates) if old is None else schema_defaulted(obj)
    refused: Iterable[FieldError]
    if full.get("apiVersion") == V1BETA1:
        refused = as_written(webhook_faults(_current(full), _current(stored), gates), full)
    else:
        refused = webhook_faults(full, stored, gates)
    return _joined(_schema(full, stored), refused)


def schema_faults(obj: Any, old: Any = None) -> list[FieldError]:
    """What an API server with Kueue's CRDs refuses, before any webhook is asked."""
    if not isinstance(obj, dict):
        return [type_invalid("", obj, "a manifest must be an object with fields")]
    stored = None if old is None else schema_defaulted(mapping(old))
    return _schema(schema_defaulted(obj), stored)


def unknown_faults(obj: Any) -> list[FieldError]:
    """One fault for each field that the object's kind and version does not know.

    An API server drops them silently, unless it is told to be strict.
    """
    known = structure(obj)
    if known is None:
        return []
    cleaning = Cleaning()
    cleaning.clean(obj, known)
    return [each.fault() for each in cleaning.unknown]


def _schema(full: Json, old: Json | None) -> list[FieldError]:
    """Faults by the CRD of a defaulted object."""
    known = structure(full)
    if known is None:
        return []
    if old is not None and old.get("apiVersion") != full["apiVersion"]:
        old = schema_defaulted(convert(old, full["apiVersion"].rpartition("/")[2]))
    found = [*_metadata_faults(full, old), *value_faults(full, known, old), *relation_faults(full)]
    return found if old is None else [*found, *transition_faults(full, old)]


def _current(obj: Any) -> Any:
    """A defaulted object in the newer version."""
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
    """The faults of both layers, less those of the second that only repeat one of the first."""
    said = {fault.path for fault in first}
    twice = {fault.path for fault in first if fault.type is ErrorType.DUPLICATE}
    return first + [
        fault
        for fault in second
        if fault.path not in said and fault.path.removesuffix(".name") not in twice
    ]
