# SPDX-License-Identifier: Apache-2.0
"""Faults of manifests that only a simulation finds: durations, and quantities of pods."""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api.base import Json
from kuota.api.config.duration import Duration
from kuota.api.faults import FieldError, invalid
from kuota.api.quantity import QuantityError, parse
from kuota.api.rules.metadata import annotation, annotation_path
from kuota.api.rules.report import child, elements, mapping
from kuota.bridge.jobs.ancestor import group_kind
from kuota.bridge.jobs.fields import at
from kuota.bridge.jobs.registry import ALL
from kuota.bridge.jobs.template_kind import TemplateKind

SUBMIT_AFTER = "kuota.dev/submit-after"
RUNS_FOR = "kuota.dev/runs-for"


def duration_of(obj: Json, name: str) -> float | None:
    """The seconds in the annotation; None if it is absent or malformed."""
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
            message = "must be a duration of 0 or more"
            yield invalid(annotation_path(name), given, message, 'write for example "30s" or "2m"')


def manifest_faults(obj: Json) -> Iterator[FieldError]:
    """Every duration and every quantity of its pods that cannot be parsed."""
    yield from time_faults(obj)
    kind = ALL.get(group_kind(obj))
    if isinstance(kind, TemplateKind):
        for each in kind.templates(obj):
            path = ".".join(map(str, each.path))
            yield from _template_faults(mapping(at(obj, each.path)), path)
    for index, pod_set in enumerate(elements(child(obj, "spec").get("podSets"))):
        yield from _template_faults(child(pod_set, "template"), f"spec.podSets[{index}].template")


def _template_faults(template: Json, at: str) -> Iterator[FieldError]:
    spec = child(template, "spec")
    yield from _resource_faults(child(spec, "resources"), f"{at}.spec.resources")
    yield from _amount_faults(child(spec, "overhead"), f"{at}.spec.overhead")
    for field in ("containers", "initContainers"):
        for index, each in enumerate(elements(spec.get(field))):
            path = f"{at}.spec.{field}[{index}].resources"
            yield from _resource_faults(child(mapping(each), "resources"), path)


def _resource_faults(resources: Json, at: str) -> Iterator[FieldError]:
    for field in ("requests", "limits"):
        yield from _amount_faults(child(resources, field), f"{at}.{field}")


def _amount_faults(amounts: Json, at: str) -> Iterator[FieldError]:
    for name, amount in amounts.items():
        try:
            parse(amount)
        except (QuantityError, TypeError) as error:
            yield invalid(f"{at}[{name}]", amount, str(error))
