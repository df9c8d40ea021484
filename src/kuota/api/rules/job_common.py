# SPDX-License-Identifier: Apache-2.0
"""Validates jobs by the rules of Kueue's webhooks that apply to every kind of job."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from .. import names
from ..base import Json
from ..faults import FieldError, forbidden, immutable, invalid, malformed
from ..gates import Gate, Gates
from .metadata import (
    ELASTIC_JOB,
    PREFIX,
    annotation,
    annotation_path,
    elastic,
    gated_by_faults,
    gated_by_update_faults,
    label,
    label_path,
)
from .report import child, text, whole

QUEUE_NAME = f"{PREFIX}queue-name"
PRIORITY_CLASS = f"{PREFIX}priority-class"
MAX_EXEC_TIME = f"{PREFIX}max-exec-time-seconds"
PREBUILT = f"{PREFIX}prebuilt-workload-name"
STOPPING = f"{PREFIX}stopping"
_MAX_INT32 = 2**31 - 1
_MAX_INT64 = 2**63 - 1


class Supported(NamedTuple):
    """The optional features of jobs that a kind supports."""

    elastic: bool = False
    """Whether a job can be resized while it runs."""
    prebuilt: bool = False
    """Whether a job can name a Workload that somebody else creates."""


def suspended(job: Json) -> bool:
    """Whether the job is suspended. A job that is still being stopped is not."""
    at_rest = child(job, "spec").get("suspend") is True
    return at_rest and annotation(job, STOPPING) != "true"


def queue_name(job: Json) -> str:
    return label(job, QUEUE_NAME) or ""


def time_limit_s(job: Json) -> int | None:
    """Return the maximum execution time, or None if it is absent or not a positive int32."""
    seconds = whole(label(job, MAX_EXEC_TIME) or "") or 0
    return seconds if 0 < seconds <= _MAX_INT32 else None


def common_faults(obj: Json, gates: Gates, supported: Supported) -> Iterator[FieldError]:
    """Yield the faults of a new job."""
    yield from _format_faults(obj, gates)
    yield from _prebuilt_faults(obj, gates, supported)
    if elastic(obj, gates) and not supported.elastic:
        message = f"{obj.get('kind')} cannot be elastic"
        yield forbidden(annotation_path(ELASTIC_JOB), message, "remove the annotation")


def _format_faults(obj: Json, gates: Gates) -> Iterator[FieldError]:
    queue = label(obj, QUEUE_NAME)
    if queue is not None:
        # Kueue also rejects a label with an empty value.
        yield from malformed(label_path(QUEUE_NAME), queue, names.dns_subdomain(queue))
    seconds = label(obj, MAX_EXEC_TIME)
    if seconds is not None and not 0 < (whole(seconds) or 0) <= _MAX_INT64:
        message = f'must be a whole number of seconds above 0, is "{seconds}"'
        yield invalid(label_path(MAX_EXEC_TIME), seconds, message)
    yield from gated_by_faults(obj, gates)


def _prebuilt_faults(obj: Json, gates: Gates, supported: Supported) -> Iterator[FieldError]:
    name, path = prebuilt(obj, gates)
    if name or label(obj, PREBUILT) is not None:
        yield from malformed(path, name, names.dns_subdomain(name))
    if name and not supported.prebuilt:
        message = f"{obj.get('kind')} cannot use a prebuilt workload"
        yield forbidden(path, message, "remove it: Kueue makes the workload")


def prebuilt(obj: Json, gates: Gates) -> tuple[str, str]:
    """Return the name of the prebuilt workload, or "" if there is none, and its path."""
    named, labelled = annotation(obj, PREBUILT) or "", label(obj, PREBUILT) or ""
    if named and gates.on(Gate.WorkloadIdentifierAnnotations):
        return named, annotation_path(PREBUILT)
    if len(named) > names.MAX_LABEL:
        return labelled or named, annotation_path(PREBUILT)
    return labelled, label_path(PREBUILT)


def common_update_faults(
    obj: Json,
    old: Json,
    gates: Gates,
    supported: Supported,
    default_queue: bool,
    at_rest: Callable[[Json], bool] = suspended,
) -> Iterator[FieldError]:
    """Yield the faults of an update.

    `default_queue` states whether the namespace has a LocalQueue named `default`. `at_rest` is the
    predicate that decides whether a job of this kind is suspended.
    """
    resting = at_rest(obj)
    yield from _queue_faults(obj, old, resting, default_queue)
    if resting or elastic(old, gates):
        yield from _prebuilt_faults(obj, gates, supported)
    elif prebuilt(obj, gates)[0] != prebuilt(old, gates)[0]:
        name, path = prebuilt(obj, gates)
        yield immutable(path, name, "while the job runs", "suspend the job first")
    before, after = label(old, MAX_EXEC_TIME), label(obj, MAX_EXEC_TIME)
    if before != after and not (resting and at_rest(old)):
        fix = "suspend the job first, then change it"
        yield immutable(label_path(MAX_EXEC_TIME), after, "while the job runs", fix)
    yield from priority_faults(obj, old, resting)
    if elastic(obj, gates) != elastic(old, gates):
        path = annotation_path(ELASTIC_JOB)
        yield immutable(path, annotation(obj, ELASTIC_JOB), "after creation", "create it anew")
    yield from gated_by_faults(obj, gates)
    yield from gated_by_update_faults(obj, old, gates)


def _queue_faults(obj: Json, old: Json, resting: bool, default_queue: bool) -> Iterator[FieldError]:
    before, after, path = queue_name(old), queue_name(obj), label_path(QUEUE_NAME)
    if not resting and before != after:
        yield immutable(path, after, "while the job runs", "suspend the job first")
    if before and not after and default_queue:
        message = "cannot be removed: new jobs of this namespace go to its queue default"
        yield invalid(path, after, message, "name another LocalQueue instead")


def priority_faults(obj: Json, old: Json, resting: bool) -> Iterator[FieldError]:
    """Yield the faults of a change of the priority class. `resting`: the job has no pods."""
    before, after = label(old, PRIORITY_CLASS) or "", text(label(obj, PRIORITY_CLASS))
    path = label_path(PRIORITY_CLASS)
    if not before and after and not resting:
        yield invalid(path, after, "cannot be added while the job runs", "suspend the job first")
    elif before and not after:
        yield invalid(path, after, "cannot be removed", "name another WorkloadPriorityClass")
