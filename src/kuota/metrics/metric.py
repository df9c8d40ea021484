# SPDX-License-Identifier: Apache-2.0
"""The definition of a metric: name, type, labels, buckets, and when it is published."""

from __future__ import annotations

from enum import StrEnum
from functools import partial

from kuota.api.base import Key
from kuota.engine.model import Struct

CLUSTER_QUEUE = "ClusterQueue"
LOCAL_QUEUE = "LocalQueue"
COHORT = "Cohort"
WORKLOAD = "Workload"

_OWNERS = {
    "namespace": LOCAL_QUEUE,
    "cluster_queue": CLUSTER_QUEUE,
    "preempting_cluster_queue": CLUSTER_QUEUE,
    "cohort": COHORT,
}
"""Labels that identify the object of a series, with its kind. The first one present counts."""


class MetricType(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Requirement(StrEnum):
    """A setting or feature gate that a metric requires."""

    RESOURCES = "metrics.enableClusterQueueResources"
    LOCAL_QUEUES = "metrics.localQueueMetrics"
    FAIR_SHARING = "fairSharing"
    PODS_READY = "waitForPodsReady"
    COHORTS = "MetricsForCohorts"
    CLASSES = "SchedulingEquivalenceHashing"
    UNADMITTED = "UnadmittedWorkloadsObservability"
    CREATION = "MetricForWorkloadCreationLatency"


class Metric(Struct):
    """One metric.

    `custom` are the kinds whose custom labels it has, the owner of the series first; `buckets` are
    the upper bounds of a histogram.
    """

    name: str
    kind: MetricType
    labels: tuple[str, ...]
    about: str
    custom: tuple[str, ...] = ()
    needs: tuple[Requirement, ...] = ()
    buckets: tuple[float, ...] = ()
    role: bool = True


def _waits(count: int) -> tuple[float, ...]:
    """From one second to hours: 1, then 2.5 doubled repeatedly."""
    return (1.0, *(2.5 * 2**power for power in range(count - 1)))


SHORT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LATENCY = tuple(0.01 * 2**power for power in range(11))
WAITS = _waits(14)
LONG_WAITS = _waits(16)


def _metric(
    kind: MetricType,
    buckets: tuple[float, ...],
    name: str,
    labels: str,
    about: str,
    *needs: Requirement,
    custom: tuple[str, ...] | None = None,
) -> Metric:
    """Define a metric with these space-separated labels.

    It has the custom labels of its own kind, unless `custom` names other kinds.
    """
    names = tuple(labels.split())
    if custom is None:
        owner = _owner_label(names)
        custom = (_OWNERS[owner],) if owner else ()
    return Metric(
        name=name, kind=kind, labels=names, about=about, custom=custom, needs=needs, buckets=buckets
    )


gauge = partial(_metric, MetricType.GAUGE, ())
counter = partial(_metric, MetricType.COUNTER, ())
histogram = partial(_metric, MetricType.HISTOGRAM)


def by_name(*metrics: Metric) -> dict[str, Metric]:
    """Return the metrics by name, in the order of exposition."""
    return {each.name: each for each in metrics}


def _owner_label(labels: tuple[str, ...]) -> str:
    return next((each for each in _OWNERS if each in labels), "")


def owner_of(metric: Metric, values: tuple[str, ...]) -> tuple[str, Key] | None:
    """Return the queue or cohort of a counted series, according to its labels."""
    owner = _owner_label(metric.labels)
    if not owner:
        return None
    labels = dict(zip(metric.labels, values, strict=False))
    name = Key(labels[owner], labels["name"]) if owner == "namespace" else Key("", labels[owner])
    return _OWNERS[owner], name
