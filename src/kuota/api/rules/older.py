# SPDX-License-Identifier: Apache-2.0
"""Says what the webhook rules find in a converted object in the words of v1beta1, as written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from ..base import Json
from ..faults import FieldError
from .report import child, text

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
