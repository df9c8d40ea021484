# SPDX-License-Identifier: Apache-2.0
"""What a metric is: its name, type, labels and buckets, and what it takes to be published."""

from __future__ import annotations

from enum import StrEnum
from functools import partial

from kuota.api.base import Key
from kuota.engine.model import Struct

CLUSTER_QUEUE = "ClusterQueue"
LOCAL_QUEUE = "LocalQueue"
COHORT = "Cohort"
WORKLOAD = "Workload"

_QUEUE_LABELS = ("cluster_queue", "preempting_cluster_queue")


class Kind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Need(StrEnum):
    """What the configuration or a feature gate has to allow."""

    RESOURCES = "metrics.enableClusterQueueResources"
    LOCAL_QUEUES = "metrics.localQueueMetrics"
    FAIR_SHARING = "fairSharing"
    PODS_READY = "waitForPodsReady"
    COHORTS = "MetricsForCohorts"
    CLASSES = "SchedulingEquivalenceHashing"
    UNADMITTED = "UnadmittedWorkloadsObservability"
    CREATION = "MetricForWorkloadCreationLatency"


class Metric(Struct):
    """One metric. `custom` are the kinds whose custom labels it carries, the owner of the series
    first; `buckets` are the upper bounds of a histogram.
    """

    name: str
    kind: Kind
    labels: tuple[str, ...]
    about: str
    custom: tuple[str, ...] = ()
    needs: tuple[Need, ...] = ()
    buckets: tuple[float, ...] = ()
    role: bool = True


def _waits(count: int) -> tuple[float, ...]:
    """From a second to hours: 1, then 2.5 doubled again and again."""
    return (1.0, *(2.5 * 2**power for power in range(count - 1)))


SHORT = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
LATENCY = tuple(0.01 * 2**power for power in range(11))
WAITS = _waits(14)
LONG_WAITS = _waits(16)


def _single(
    kind: Kind,
    name: str,
    labels: tuple[str, ...],
    about: str,
    custom: tuple[str, ...] = (),
    *needs: Need,
) -> Metric:
    return Metric(name=name, kind=kind, labels=labels, about=about, custom=custom, needs=needs)


gauge = partial(_single, Kind.GAUGE)
counter = partial(_single, Kind.COUNTER)


def histogram(
    name: str,
    buckets: tuple[float, ...],
    labels: tuple[str, ...],
    about: str,
    custom: tuple[str, ...] = (),
    *needs: Need,
) -> Metric:
    return Metric(
        name=name,
        kind=Kind.HISTOGRAM,
        labels=labels,
        about=about,
        custom=custom,
        needs=needs,
        buckets=buckets,
    )


def owner_of(metric: Metric, values: tuple[str, ...]) -> tuple[str, Key] | None:
    """The queue or cohort that a counted series is about, as its labels say."""
    labels = dict(zip(metric.labels, values, strict=False))
    if "namespace" in labels:
        return LOCAL_QUEUE, Key(labels["namespace"], labels["name"])
    for name in _QUEUE_LABELS:
        if name in labels:
            return CLUSTER_QUEUE, Key("", labels[name])
    return (COHORT, Key("", labels["cohort"])) if "cohort" in labels else None
