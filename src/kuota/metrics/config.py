# SPDX-License-Identifier: Apache-2.0
"""What the configuration says of metrics: which are published, and their custom labels.

A gauge follows the labels of its queue: they are read when metrics are. What is counted keeps those
of the moment, also of workloads, which are gone long before the series is.
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


_GATES = {
    Requirement.COHORTS: Gate.MetricsForCohorts,
    Requirement.CLASSES: Gate.SchedulingEquivalenceHashing,
    Requirement.UNADMITTED: Gate.UnadmittedWorkloadsObservability,
    Requirement.CREATION: Gate.MetricForWorkloadCreationLatency,
}


class MetricsConfig(Struct):
    """What is asked for. `selector` None means every LocalQueue."""

    met: frozenset[Requirement] = frozenset()
    selector: LabelSelector | None = None
    labels: tuple[CustomLabel, ...] = ()

    def shows(self, metric: Metric) -> bool:
        return self.met.issuperset(metric.needs)


def metrics_config(cfg: Configuration | None, gates: Gates) -> MetricsConfig:
    """What a configuration asks for; without one, what Kueue's defaults do."""
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


def measured(metrics_config: MetricsConfig, objects: Objects) -> Callable[[Key], bool]:
    """Which LocalQueues have metrics of their own."""
    if Requirement.LOCAL_QUEUES not in metrics_config.met:
        return lambda key: False
    selector = metrics_config.selector
    if selector is None:
        return lambda key: True
    return lambda key: matches(selector, objects.metadata(LOCAL_QUEUE, key).get("labels") or {})
