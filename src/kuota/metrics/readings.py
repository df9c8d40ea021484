# SPDX-License-Identifier: Apache-2.0
"""The gauges of one scrape, read from the engine, and the pending workloads by queue."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Set

from kuota.api.base import Key
from kuota.api.quantity import NANO, UNLIMITED, nano_of
from kuota.engine.amounts import Requests
from kuota.engine.engine import Engine
from kuota.engine.model import Workload
from kuota.engine.pending import PendingState

from .catalog import METRICS
from .config import CustomLabels, MetricsConfig, StoredObjects, measured
from .metric import WORKLOAD
from .series import Labels


class GaugeReadings:
    """Collects gauge values. Metrics that are not published are dropped.

    `measured` decides which LocalQueues have their own metrics. Cohorts that are `withdrawn` have
    no gauges.
    """

    def __init__(
        self,
        engine: Engine,
        objects: StoredObjects,
        custom: CustomLabels,
        metrics_config: MetricsConfig,
        withdrawn: Set[str],
    ) -> None:
        self.engine = engine
        self.objects = objects
        self.custom = custom
        self.measured = measured(metrics_config, objects)
        self.withdrawn = withdrawn
        self.readings: dict[str, dict[Labels, float]] = {
            name: {} for name, each in METRICS.items() if metrics_config.shows(each)
        }

    def shows(self, name: str) -> bool:
        return name in self.readings

    def put(self, name: str, value: float, labels: Iterable[str], custom: Labels = ()) -> None:
        """Set the value of a gauge."""
        readings = self.readings.get(name)
        if readings is not None:
            readings[(*labels, *custom)] = value

    def put_each(
        self, name: str, values: dict[str, float], prefix: Labels, custom: Labels = ()
    ) -> None:
        """Set a gauge for several values of one more label."""
        for last, value in values.items():
            self.put(name, value, (*prefix, last), custom)


def in_units(amount: int | None, resource: str) -> float:
    """Return an amount in its natural unit; no limit is infinity."""
    if amount is None or amount >= UNLIMITED:
        return float("inf")
    return nano_of(amount, resource) / NANO


ACTIVE = "active"
INADMISSIBLE = "inadmissible"


class PendingCounts:
    """The pending workloads of one queue by status: number, scheduling classes, labels.

    All pending workloads of an inactive ClusterQueue are inadmissible.
    """

    __slots__ = ("classes", "counts", "labels", "requests")

    def __init__(self) -> None:
        self.counts: dict[str, float] = {ACTIVE: 0, INADMISSIBLE: 0}
        self.classes: dict[str, set[str | Key]] = {ACTIVE: set(), INADMISSIBLE: set()}
        self.labels: Counter[tuple[str, Labels]] = Counter()
        self.requests: Requests = {}

    def add(self, workload: Workload, status: str, labels: Labels) -> None:
        self.counts[status] += 1
        self.classes[status].add(workload.scheduling_hash or workload.key)
        if labels:
            self.labels[status, labels] += 1

    def ask(self, workload: Workload) -> None:
        for pod_set in workload.pod_sets:
            for resource, amount in pod_set.requests.items():
                self.requests[resource] = self.requests.get(resource, 0) + amount


def waiting(readings: GaugeReadings) -> tuple[dict[str, PendingCounts], dict[Key, PendingCounts]]:
    """Return the pending workloads by ClusterQueue and by LocalQueue."""
    state = readings.engine.state
    by_name = {name: PendingCounts() for name in state.queues}
    by_key = {key: PendingCounts() for key in state.local_queues}
    labelled = bool(readings.custom.names(WORKLOAD))
    summed = readings.shows("kueue_cluster_queue_resource_pending")
    for name, workload, status in _pending(readings.engine):
        labels = readings.custom.values(WORKLOAD, workload.key) if labelled else ()
        by_name[name].add(workload, status, labels)
        if workload.local_queue in by_key:
            by_key[workload.local_queue].add(workload, status, ())
        if summed:
            by_name[name].ask(workload)
    return by_name, by_key


def _pending(engine: Engine) -> Iterator[tuple[str, Workload, str]]:
    """Yield each pending workload with its ClusterQueue and status.

    A workload whose reservation the API server has not stored yet is still pending.
    """
    for key, spec in engine.state.local_queues.items():
        name = spec.cluster_queue
        if name not in engine.state.queues or name not in engine.queues:
            continue
        queue, active = engine.queues[name], engine.state.is_schedulable(name)
        for workload in engine.queues.members(key):
            place = queue.state(workload.key)
            if place is not None:
                inadmissible = not active or place is PendingState.INADMISSIBLE
                yield name, workload, INADMISSIBLE if inadmissible else ACTIVE
    for running in engine.state.unconfirmed():
        yield running.queue, running.workload, ACTIVE
