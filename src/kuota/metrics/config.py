# SPDX-License-Identifier: Apache-2.0
"""The configuration of metrics: which are published, and their custom labels.

Labels of a gauge are those of its queue at the time of the scrape. Counters keep the labels of the
moment, also those of workloads, which are deleted long before the series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from kuota.api.base import Json, Key, LabelSelector
from kuota.api.config import local_queue_metrics_enabled, wait_for_pods_ready_enabled
from kuota.api.config.shapes import Configuration, CustomLabel
from kuota.api.gates import Gate, Gates
from kuota.api.match import matches
from kuota.api.workload import Workload
from kuota.engine.model import Struct

from .metric import CLUSTER_QUEUE, LOCAL_QUEUE, Metric, Requirement, owner_of


class StoredObjects(Protocol):
    """Access to stored objects."""

    def metadata(self, kind: str, key: Key) -> Json:
        """Return the metadata of a queue, cohort or workload; empty if it does not exist."""

    def workloads(self) -> Iterable[Workload]:
        """Yield every decodable, unfinished Workload of a LocalQueue."""


class NoObjects:
    """No stored objects: no labels, and no reasons of pending Workloads."""

    def metadata(self, kind: str, key: Key) -> Json:
        return {}

    def workloads(self) -> Iterable[Workload]:
        return ()


UNTRACKED = "kueue.x-k8s.io/_UNTRACKED_VALUE_"
"""The label value for all values that are not tracked."""


class CustomLabels:
    """The custom labels by the kind from which they are copied."""

    def __init__(self, labels: Iterable[CustomLabel], objects: StoredObjects) -> None:
        self._objects = objects
        self._by_kind: dict[str, list[CustomLabel]] = {}
        for each in labels:
            self._by_kind.setdefault(each.source_kind or CLUSTER_QUEUE, []).append(each)

    def names(self, *kinds: str) -> tuple[str, ...]:
        """Return the names of the labels of these kinds."""
        return tuple(f"custom_{each.name}" for kind in kinds for each in self._of(kind))

    def values(self, kind: str, key: Key) -> tuple[str, ...]:
        """Return the label values of one object, "" if it lacks a label."""
        wanted = self._of(kind)
        if not wanted:
            return ()
        metadata = self._objects.metadata(kind, key)
        return tuple(_value(each, metadata) for each in wanted)

    def of_owner(self, metric: Metric, labels: tuple[str, ...]) -> tuple[str, ...]:
        """Return the current labels of the queue or cohort of a series."""
        owner = owner_of(metric, labels) if self._by_kind else None
        return self.values(*owner) if owner is not None and owner[0] in metric.custom else ()

    def _of(self, kind: str) -> list[CustomLabel]:
        return self._by_kind.get(kind, [])


NO_LABELS = CustomLabels((), NoObjects())
"""The labels of metrics without custom labels."""


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


_GATES = {
    Requirement.COHORTS: Gate.MetricsForCohorts,
    Requirement.CLASSES: Gate.SchedulingEquivalenceHashing,
    Requirement.UNADMITTED: Gate.UnadmittedWorkloadsObservability,
    Requirement.CREATION: Gate.MetricForWorkloadCreationLatency,
}


class MetricsConfig(Struct):
    """Which metrics to publish. A `selector` of None selects every LocalQueue."""

    met: frozenset[Requirement] = frozenset()
    selector: LabelSelector | None = None
    labels: tuple[CustomLabel, ...] = ()

    def shows(self, metric: Metric) -> bool:
        return self.met.issuperset(metric.needs)


def metrics_config(cfg: Configuration | None, gates: Gates) -> MetricsConfig:
    """Return the settings of a configuration; without one, Kueue's defaults."""
    cfg = cfg or Configuration()
    local = cfg.metrics.local_queue_metrics
    met = {need for need, gate in _GATES.items() if gates.on(gate)}
    met |= {
        need
        for need, asked in (
            (Requirement.RESOURCES, cfg.metrics.enable_cluster_queue_resources),
            (Requirement.LOCAL_QUEUES, local_queue_metrics_enabled(cfg, gates)),
            (Requirement.FAIR_SHARING, cfg.fair_sharing is not None),
            (Requirement.PODS_READY, wait_for_pods_ready_enabled(cfg, gates)),
        )
        if asked
    }
    custom = cfg.metrics.custom_labels if gates.on(Gate.CustomMetricLabels) else None
    return MetricsConfig(
        met=frozenset(met),
        selector=local.local_queue_selector if local is not None else None,
        labels=tuple(custom or ()),
    )


def measured(metrics_config: MetricsConfig, objects: StoredObjects) -> Callable[[Key], bool]:
    """Return which LocalQueues have their own metrics."""
    if Requirement.LOCAL_QUEUES not in metrics_config.met:
        return lambda key: False
    selector = metrics_config.selector
    if selector is None:
        return lambda key: True
    return lambda key: matches(selector, objects.metadata(LOCAL_QUEUE, key).get("labels") or {})
