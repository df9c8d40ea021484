# SPDX-License-Identifier: Apache-2.0
"""When a workload comes and how long it runs, written as annotations of Kuota's own.

They tell a story of what would happen; a cluster takes no notice of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api.base import Json
from kuota.api.config.duration import Duration
from kuota.api.faults import FieldError, invalid
from kuota.api.rules.metadata import annotation, annotation_path

SUBMIT_AFTER = "kuota.dev/submit-after"
RUNS_FOR = "kuota.dev/runs-for"


def duration_of(obj: Json, name: str) -> float | None:
    """Seconds in the annotation; None when absent or malformed."""
    given = annotation(obj, name)
    if given is None:
        return None
    try:
        seconds = Duration.parse(given).seconds
    except ValueError:
        return None
    return seconds if seconds >= 0 else None


def time_faults(obj: Json) -> Iterator[FieldError]:
    for name in (SUBMIT_AFTER, RUNS_FOR):
        given = annotation(obj, name)
        if given is not None and duration_of(obj, name) is None:
            message = "must be a duration, and not negative"
            yield invalid(annotation_path(name), given, message, 'write for example "30s" or "2m"')
