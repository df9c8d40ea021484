# SPDX-License-Identifier: Apache-2.0
"""What metrics read of stored objects: above all custom labels, copied from queues and workloads.

A gauge follows the labels of its queue: they are read when metrics are. What is counted keeps those
of the moment, also of workloads, which are gone long before the series is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from kuota.api.base import Json, Key
from kuota.api.config.shapes import CustomLabel
from kuota.api.workload import Workload

from .metric import CLUSTER_QUEUE, Metric, owner_of


class Objects(Protocol):
    """The objects as they are stored."""

    def metadata(self, kind: str, key: Key) -> Json:
        """The metadata of a queue, cohort or workload; empty when there is none such."""

    def workloads(self) -> Iterable[Workload]:
        """Every Workload of a LocalQueue that could be read and has not finished."""


class NoObjects:
    """Nothing is stored: queues have no labels, and nobody says why they wait."""

    def metadata(self, kind: str, key: Key) -> Json:
        return {}

    def workloads(self) -> Iterable[Workload]:
        return ()


UNTRACKED = "kueue.x-k8s.io/_UNTRACKED_VALUE_"
"""Stands for every value that is not among those to be told apart."""


class CustomLabels:
    """The custom labels by the kind that they are copied from."""

    def __init__(self, labels: Iterable[CustomLabel], objects: Objects) -> None:
        self._objects = objects
        self._by_kind: dict[str, list[CustomLabel]] = {}
        for each in labels:
            self._by_kind.setdefault(each.source_kind or CLUSTER_QUEUE, []).append(each)

    def names(self, *kinds: str) -> tuple[str, ...]:
        """How the labels of these kinds are called."""
        return tuple(f"custom_{each.name}" for kind in kinds for each in self._of(kind))

    def values(self, kind: str, key: Key) -> tuple[str, ...]:
        """The labels of one object, "" where it has none of the name."""
        wanted = self._of(kind)
        if not wanted:
            return ()
        metadata = self._objects.metadata(kind, key)
        return tuple(_value(each, metadata) for each in wanted)

    def of_owner(self, metric: Metric, labels: tuple[str, ...]) -> tuple[str, ...]:
        """The labels of the queue or cohort that a series is about, as they are now."""
        owner = owner_of(metric, labels) if self._by_kind else None
        return self.values(*owner) if owner is not None and owner[0] in metric.custom else ()

    def _of(self, kind: str) -> list[CustomLabel]:
        return self._by_kind.get(kind, [])


NO_LABELS = CustomLabels((), NoObjects())
"""For metrics that nobody gave labels of their own."""


def _value(label: CustomLabel, metadata: Json) -> str:
    if label.source_annotation_key:
        found = _text(metadata.get("annotations"), label.source_annotation_key)
    else:
        found = _text(metadata.get("labels"), label.source_label_key or label.name)
    if found and label.tracked_values and found not in label.tracked_values:
        return UNTRACKED
    return found


def _text(words: Mapping[str, str] | None, key: str) -> str:
    return str((words or {}).get(key) or "")
