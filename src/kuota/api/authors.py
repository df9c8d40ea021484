# SPDX-License-Identifier: Apache-2.0
"""The annotation that names who created a job: set once, and never changed. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from .base import Json
from .core import AUTHOR
from .faults import FieldError, immutable
from .rules.report import child, string_map

_PATH = f"metadata.annotations[{AUTHOR}]"


def author_of(obj: Json) -> str | None:
    """Return the name of the author; None if it is not recorded."""
    return string_map(child(obj, "metadata", "annotations")).get(AUTHOR)


def with_author(obj: Json, name: str) -> Json:
    """Return the object with the name of its author; unchanged if it has it."""
    if author_of(obj) == name:
        return obj
    metadata = child(obj, "metadata")
    annotations = string_map(metadata.get("annotations")) | {AUTHOR: name}
    return obj | {"metadata": metadata | {"annotations": annotations}}


def author_faults(obj: Json, old: Json) -> Iterator[FieldError]:
    """Yield a fault if an update adds, changes or removes the name of the author."""
    new, known = author_of(obj), author_of(old)
    if new != known:
        fix = f"set it to {known!r}" if known is not None else "remove the annotation"
        yield immutable(_PATH, new, "because it names who created the object", fix)
