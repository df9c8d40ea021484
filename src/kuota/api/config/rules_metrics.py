# SPDX-License-Identifier: Apache-2.0
"""Validates the custom labels of metrics. Their number is limited, as each multiplies series."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .. import names
from ..faults import FieldError, at_most_one, duplicate, invalid, too_many
from .defaults import CLUSTER_QUEUE
from .shapes import Configuration, CustomLabel
from .syntax import metric_label

MOST_LABELS = 20
MOST_BY_KIND = {"Cohort": 6, "LocalQueue": 6, CLUSTER_QUEUE: 6, "Workload": 2}
MOST_VALUES = 16
MOST_WORKLOAD_VALUES = 12

_PATH = "metrics.customLabels"


def custom_label_faults(cfg: Configuration) -> Iterator[FieldError]:
    labels = cfg.metrics.custom_labels or []
    yield from _number_faults(labels)
    seen: set[str] = set()
    for index, label in enumerate(labels):
        at = f"{_PATH}[{index}]"
        if label.name in seen:
            yield duplicate(f"{at}.name", label.name, f"{label.name!r} is used twice")
        seen.add(label.name)
        yield from _source_faults(label, at)
        yield from _value_faults(label, f"{at}.trackedValues")


def _number_faults(labels: list[CustomLabel]) -> Iterator[FieldError]:
    if len(labels) > MOST_LABELS:
        yield too_many(_PATH, len(labels), f"has {len(labels)} labels, the limit is {MOST_LABELS}")
    for kind, count in Counter(_kind(label) for label in labels).items():
        most = MOST_BY_KIND.get(kind)
        if most is None:
            fix = f"use one of: {', '.join(MOST_BY_KIND)}"
            yield invalid(_PATH, kind, f"{kind!r} is not a sourceKind", fix)
        elif count > most:
            yield invalid(_PATH, count, f"has {count} labels of {kind}, the limit is {most}")


def _source_faults(label: CustomLabel, at: str) -> Iterator[FieldError]:
    yield from at_most_one(f"{at}.name", label.name, metric_label(label.name))
    by_label, by_annotation = label.source_label_key, label.source_annotation_key
    if by_label and by_annotation:
        yield invalid(
            at, label.name, "has both sourceLabelKey and sourceAnnotationKey", "keep one of them"
        )
    if by_label:
        field, key = "sourceLabelKey", by_label
    elif by_annotation:
        field, key = "sourceAnnotationKey", by_annotation
    else:
        # Without a source, the name is the key of the label to copy.
        field, key = "name", label.name
    yield from at_most_one(f"{at}.{field}", key, names.qualified_name(key))


def _value_faults(label: CustomLabel, at: str) -> Iterator[FieldError]:
    values = label.tracked_values or []
    found = f"has {len(values)} values"
    if _kind(label) == "Workload":
        if not 1 <= len(values) <= MOST_WORKLOAD_VALUES:
            yield invalid(at, len(values), f"{found}, 1 to {MOST_WORKLOAD_VALUES} are required")
    elif len(values) > MOST_VALUES:
        yield too_many(at, len(values), f"{found}, the limit is {MOST_VALUES}")
    if len(set(values)) < len(values):
        yield invalid(at, values, "lists a value twice")


def _kind(label: CustomLabel) -> str:
    return CLUSTER_QUEUE if label.source_kind is None else label.source_kind
