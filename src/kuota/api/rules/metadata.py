# SPDX-License-Identifier: Apache-2.0
"""Validates what many kinds share: labels, annotations, tolerations, selectors, conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .. import names
from ..base import Json
from ..faults import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    malformed,
    not_supported,
    required,
    too_long,
    type_invalid,
)
from ..gates import Gate, Gates
from .report import child, elements, integer, mapping, objects, string_map, text, texts

PREFIX = "kueue.x-k8s.io/"
ADMISSION_GATED_BY = f"{PREFIX}admission-gated-by"
ELASTIC_JOB = f"{PREFIX}elastic-job"
MAX_GATE = 63
MAX_MESSAGE = 32768
_STATUSES = ("True", "False", "Unknown")


def name_faults(obj: Json, form: Callable[[str], list[str]]) -> Iterator[FieldError]:
    """Yield the faults of an object's name. `form` returns the complaints about its syntax."""
    metadata = child(obj, "metadata")
    name = text(metadata.get("name"))
    if name:
        similar = names.similar_name(name)
        fix = f'use for example "{similar}"' if similar else ""
        yield from malformed("metadata.name", name, form(name), fix)
    elif not text(metadata.get("generateName")):
        yield required("metadata.name", "every object needs a name", "set metadata.name")


def annotation_path(key: str) -> str:
    return f"metadata.annotations[{key}]"


def label_path(key: str) -> str:
    return f"metadata.labels[{key}]"


def annotation(obj: Json, key: str) -> str | None:
    return string_map(child(obj, "metadata", "annotations")).get(key)


def label(obj: Json, key: str) -> str | None:
    return string_map(child(obj, "metadata", "labels")).get(key)


def elastic(obj: Json, gates: Gates) -> bool:
    """Whether the job or workload has opted into scaling while it runs."""
    on = gates.on(Gate.ElasticJobsViaWorkloadSlices)
    return on and annotation(obj, ELASTIC_JOB) == "true"


def label_faults(labels: Any, path: str) -> Iterator[FieldError]:
    """Yield the faults of a map of labels. As in Kubernetes, the path is that of the map itself."""
    for key, value in string_map(labels).items():
        yield from malformed(path, key, names.qualified_name(key))
        yield from malformed(path, value, names.label_value(value), f"change the value of {key}")


def string_map_faults(value: Any, path: str) -> Iterator[FieldError]:
    """Yield type faults of labels or annotations, for objects without a schema."""
    if value is not None and not isinstance(value, dict):
        yield type_invalid(path, value, "must be a map from keys to strings")
    for key, each in mapping(value).items():
        if not isinstance(each, str):
            fix = f'put it in quotes: "{each}"' if isinstance(each, int | float) else ""
            yield type_invalid(f"{path}[{key}]", each, f"must be a string, is {each!r}", fix)


def annotation_faults(annotations: Any, path: str) -> Iterator[FieldError]:
    total = 0
    for key, value in string_map(annotations).items():
        yield from malformed(path, key, names.qualified_name(key.lower()))
        total += _size(key) + _size(value)
    if total > names.MAX_ANNOTATIONS_BYTES:
        yield too_long(path, f"annotations take {total} bytes, the limit is 262144")


def toleration_faults(tolerations: Any, path: str) -> Iterator[FieldError]:
    for at, toleration in objects(tolerations, path):
        key = text(toleration.get("key"))
        if key:
            yield from malformed(f"{at}.key", key, names.qualified_name(key))


def selector_faults(selector: Any, path: str) -> Iterator[FieldError]:
    """Yield the faults of a label selector. An absent selector is valid."""
    yield from label_faults(child(selector, "matchLabels"), f"{path}.matchLabels")
    expressions = mapping(selector).get("matchExpressions")
    for at, each in objects(expressions, f"{path}.matchExpressions"):
        yield from _requirement_faults(each, at)


def _requirement_faults(requirement: Json, path: str) -> Iterator[FieldError]:
    operator, values = requirement.get("operator"), elements(requirement.get("values"))
    if operator in ("In", "NotIn"):
        if not values:
            yield required(f"{path}.values", f"operator {operator} needs at least one value")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            fix = "remove the values, or use In or NotIn"
            yield forbidden(f"{path}.values", f"operator {operator} takes no values", fix)
    else:
        fix = "use In, NotIn, Exists or DoesNotExist"
        yield invalid(f"{path}.operator", operator, "is not a selector operator", fix)
    key = text(requirement.get("key"))
    yield from malformed(f"{path}.key", key, names.qualified_name(key))
    for index, value in enumerate(texts(values)):
        yield from malformed(f"{path}.values[{index}]", value, names.label_value(value))


def condition_faults(conditions: Any, path: str) -> Iterator[FieldError]:
    seen = set()
    for at, condition in objects(conditions, path):
        kind = text(condition.get("type"))
        if kind in seen:
            yield duplicate(f"{at}.type", kind, f"condition {kind} is listed twice")
        seen.add(kind)
        yield from malformed(f"{at}.type", kind, names.qualified_name(kind))
        yield from _one_condition_faults(condition, at)


def _one_condition_faults(condition: Json, path: str) -> Iterator[FieldError]:
    if condition.get("status") not in _STATUSES:
        yield not_supported(f"{path}.status", condition.get("status"), _STATUSES)
    if (integer(condition.get("observedGeneration")) or 0) < 0:
        value = condition["observedGeneration"]
        yield invalid(f"{path}.observedGeneration", value, "must be 0 or more")
    if not condition.get("lastTransitionTime"):
        yield required(f"{path}.lastTransitionTime", "must say when the status last changed")
    yield from _reason_faults(text(condition.get("reason")), f"{path}.reason")
    if len(text(condition.get("message"))) > MAX_MESSAGE:
        yield too_long(f"{path}.message", f"is longer than {MAX_MESSAGE} characters")


def _reason_faults(reason: str, path: str) -> Iterator[FieldError]:
    if not reason:
        yield required(path, "must be set")
        return
    yield from malformed(path, reason, names.condition_reason(reason))
    if len(reason) > names.MAX_REASON:
        yield too_long(path, f"is longer than {names.MAX_REASON} characters")


def gated_by_faults(obj: Json, gates: Gates) -> Iterator[FieldError]:
    """Yield syntax faults of the comma-separated list of admission gates. An empty one is valid."""
    value = annotation(obj, ADMISSION_GATED_BY)
    if not value or not gates.on(Gate.AdmissionGatedBy):
        return
    path = annotation_path(ADMISSION_GATED_BY)
    seen = set()
    for gate in _gate_names(value):
        if not gate:
            yield invalid(path, value, "has an empty gate name", "remove the extra comma")
            continue
        if gate in seen:
            yield invalid(path, value, f"names the gate {gate} twice", "name it once")
            continue
        seen.add(gate)
        yield from malformed(path, gate, names.domain_prefixed_path(gate))
        if _size(gate) > MAX_GATE:
            yield too_long(path, f'gate "{gate}" is longer than {MAX_GATE} characters')


def gated_by_update_faults(obj: Json, old: Json, gates: Gates) -> Iterator[FieldError]:
    """Yield a fault if an update adds admission gates. Removing them is allowed."""
    before, after = annotation(old, ADMISSION_GATED_BY), annotation(obj, ADMISSION_GATED_BY)
    if not after or not gates.on(Gate.AdmissionGatedBy):
        return
    added = sorted(set(_gate_names(after)) - set(_gate_names(before or "")))
    if not before or added:
        what = f"{', '.join(added)} was added" if before else "the annotation was added"
        fix = "admission gates can only be set when the object is created; create it anew"
        yield forbidden(annotation_path(ADMISSION_GATED_BY), f"{what} after creation", fix)


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _gate_names(value: str) -> list[str]:
    return [each.strip() for each in value.split(",")] if value.strip() else []
