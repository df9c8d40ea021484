# SPDX-License-Identifier: Apache-2.0
"""Validates batch/v1 Jobs as Kueue's webhooks do, including the rules common to all jobs.

Only the rules that Kueue adds are checked, and the types of the fields that these rules read. The
API server validates the rest of a Job.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..base import Json
from ..faults import FieldError, forbidden, invalid, type_invalid
from ..gates import DEFAULT_GATES, Gate, Gates
from .job_common import Supported, common_faults, common_update_faults, suspended
from .metadata import PREFIX, annotation, annotation_path, elastic, string_map_faults
from .report import child, integer, mapping, truth, whole
from .topology import PREFERRED, REQUIRED, request_faults, size_faults

MIN_PARALLELISM = f"{PREFIX}job-min-parallelism"
EQUAL_COMPLETIONS = f"{PREFIX}job-completions-equal-parallelism"
SUPPORTED = Supported(elastic=True, prebuilt=True)
_TEMPLATE = "spec.template.metadata"


def job_faults(
    obj: Any,
    old: Any = None,
    gates: Gates = DEFAULT_GATES,
    *,
    default_queue: bool = False,
) -> list[FieldError]:
    """Return the faults for which Kueue rejects a batch/v1 Job, created or updated from `old`.

    `default_queue` states whether the namespace has a LocalQueue named `default`.
    """
    if not isinstance(obj, dict):
        return [type_invalid("", obj, "a manifest must be an object with fields")]
    before = None if old is None else mapping(old)
    return list(_faults(obj, before, gates, default_queue))


def pod_count(job: Json) -> int:
    """Return how many pods run at once: the smaller of parallelism (default 1) and completions."""
    spec = child(job, "spec")
    parallelism = _number(spec.get("parallelism"), 1)
    return min(parallelism, _number(spec.get("completions"), parallelism))


def _number(value: object, absent: int) -> int:
    number = integer(value)
    return absent if number is None else number


def _faults(obj: Json, old: Json | None, gates: Gates, default_queue: bool) -> Iterator[FieldError]:
    yield from _type_faults(obj)
    known = list(common_faults(obj, gates, SUPPORTED))
    yield from known
    if old is not None:
        changed = common_update_faults(obj, old, gates, SUPPORTED, default_queue)
        yield from (fault for fault in changed if fault not in known)
        yield from _update_faults(obj, old)
    # Partial admission reduces the pod count itself, so an unchanged minimum is not checked again.
    if old is None or annotation(old, MIN_PARALLELISM) != annotation(obj, MIN_PARALLELISM):
        yield from _minimum_faults(obj, gates)
    yield from _completions_faults(obj)
    if gates.on(Gate.TopologyAwareScheduling):
        yield from _topology_faults(obj, gates)


def _type_faults(obj: Json) -> Iterator[FieldError]:
    spec = child(obj, "spec")
    for at in ("metadata", _TEMPLATE):
        metadata = child(obj, *at.split("."))
        for field in ("labels", "annotations"):
            yield from string_map_faults(metadata.get(field), f"{at}.{field}")
    for field in ("parallelism", "completions"):
        value = spec.get(field)
        if value is not None and integer(value) is None:
            yield type_invalid(f"spec.{field}", value, f"must be a whole number, is {value!r}")
    value = spec.get("suspend")
    if value is not None and not isinstance(value, bool):
        yield type_invalid("spec.suspend", value, f"must be true or false, is {value!r}")


def _minimum_faults(obj: Json, gates: Gates) -> Iterator[FieldError]:
    value = annotation(obj, MIN_PARALLELISM)
    if value is None:
        return
    path, pods, number = annotation_path(MIN_PARALLELISM), pod_count(obj), whole(value)
    if number is None:
        yield invalid(path, value, "must be a whole number")
    elif not 0 < number < pods:
        fix = f"use 1 to {pods - 1}" if pods > 1 else "remove it: the job has a single pod"
        yield invalid(path, value, f"must be above 0 and below the {pods} pods of the job", fix)
    if elastic(obj, gates):
        message = "partial admission cannot be combined with an elastic job"
        yield invalid(path, value, message, "remove one of the two annotations")


def _completions_faults(obj: Json) -> Iterator[FieldError]:
    value = annotation(obj, EQUAL_COMPLETIONS)
    if value is None:
        return
    path, spec = annotation_path(EQUAL_COMPLETIONS), child(obj, "spec")
    if truth(value) is None:
        yield invalid(path, value, "must be true or false", 'write "true"')
    elif truth(value):
        if spec.get("completionMode") != "Indexed":
            fix = "set spec.completionMode to Indexed, or remove the annotation"
            yield invalid(path, value, "requires completionMode Indexed", fix)
        if _number(spec.get("parallelism"), 1) != _number(spec.get("completions"), 1):
            message = f"must equal parallelism, as {EQUAL_COMPLETIONS} says"
            yield invalid("spec.completions", spec.get("completions"), message)


def _topology_faults(obj: Json, gates: Gates) -> Iterator[FieldError]:
    """Yield the faults of the topology request. Kueue stops at the first step that has some."""
    metadata = child(obj, "spec", "template", "metadata")
    steps = (
        request_faults(metadata, _TEMPLATE, gates),
        _elastic_faults(obj, gates),
        size_faults(metadata, _TEMPLATE, pod_count(obj)),
    )
    yield from next(filter(None, map(list, steps)), ())


def _elastic_faults(obj: Json, gates: Gates) -> Iterator[FieldError]:
    annotations = child(obj, "spec", "template", "metadata", "annotations")
    key = next((each for each in (REQUIRED, PREFERRED) if each in annotations), None)
    if key is not None and elastic(obj, gates):
        message = "cannot be combined with an elastic job, whose number of pods changes"
        # Kueue reports this key after a dot, not in brackets.
        yield forbidden(f"{_TEMPLATE}.annotations.{key}", message, "remove one of the two")


def _update_faults(obj: Json, old: Json) -> Iterator[FieldError]:
    spec, before = child(obj, "spec"), child(old, "spec")
    running = before.get("suspend") is not True
    resized = _number(spec.get("parallelism"), 1) != _number(before.get("parallelism"), 1)
    if resized and running and annotation(old, MIN_PARALLELISM) is not None:
        message = "cannot change while a job with partial admission runs"
        yield forbidden("spec.parallelism", message, "suspend the job first")
    if not suspended(old) and not suspended(obj) and _equal(obj) != _equal(old):
        message = "cannot be switched while the job runs"
        yield forbidden(annotation_path(EQUAL_COMPLETIONS), message, "suspend the job first")


def _equal(job: Json) -> bool:
    return bool(truth(annotation(job, EQUAL_COMPLETIONS) or ""))
