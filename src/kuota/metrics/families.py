# SPDX-License-Identifier: Apache-2.0
"""Series and readings as Prometheus families, every sample with its labels.

As in Kueue, a family without samples is omitted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from kuota.engine.engine import Engine
from kuota.failures import COUNTS

from .catalog import METRICS
from .config import CustomLabels, MetricsConfig, StoredObjects, measured
from .gauges_local import read_local_queues, read_unadmitted
from .gauges_queue import read_cluster_queues, read_cohorts
from .metric import CLUSTER_QUEUE, COHORT, Metric, MetricType, owner_of
from .readings import GaugeReadings, waiting
from .runtime import Runtime
from .runtime_catalog import BUGS, DEPTH, MASTER, RUNTIME_METRICS
from .series import Distribution, Labels, Series
from .withdrawn_cohorts import WithdrawnCohorts


class CollectedFamilies(Collector):
    """Families that were already collected."""

    def __init__(self, families: list[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


class Families(Collector):
    """Collects counters, and reads gauges from the engine. `role` is the replica's role."""

    def __init__(
        self,
        series: Series,
        engine: Engine,
        objects: StoredObjects,
        custom: CustomLabels,
        metrics_config: MetricsConfig,
        role: Callable[[], str],
        withdrawn: WithdrawnCohorts,
    ) -> None:
        self._series = series
        self._engine = engine
        self._withdrawn = withdrawn
        self._objects = objects
        self._custom = custom
        self._setup = metrics_config
        self._role = role
        self._measured = measured(metrics_config, objects)

    def collect(self) -> Iterator[Family]:
        withdrawn = self._withdrawn.current()
        readings = GaugeReadings(self._engine, self._objects, self._custom, self._setup, withdrawn)
        by_name, by_key = waiting(readings)
        read_cluster_queues(readings, by_name)
        read_local_queues(readings, by_key)
        read_cohorts(readings)
        read_unadmitted(readings)
        self._series.keep(self._exists)
        for metric in METRICS.values():
            if self._setup.shows(metric):
                family = self._family(metric, readings)
                if family.samples:
                    yield family

    def _family(self, metric: Metric, readings: GaugeReadings) -> Family:
        family = _family_of(metric, self._series, partial(self._counted, metric))
        names = (*metric.labels, *self._custom.names(*metric.custom))
        for values, number in readings.readings[metric.name].items():
            family.add_sample(metric.name, self._labels(metric, names, values), number)
        return family

    def _counted(self, metric: Metric, values: Labels) -> dict[str, str]:
        """Return the labels of a counted series; those of its queue come last."""
        if metric.kind is MetricType.GAUGE:
            values = (*values, *self._custom.of_owner(metric, values))
        kinds = (*metric.custom[1:], *metric.custom[:1])
        return self._labels(metric, (*metric.labels, *self._custom.names(*kinds)), values)

    def _labels(self, metric: Metric, names: Labels, values: Labels) -> dict[str, str]:
        found = _named(names, values)
        return found | {"replica_role": self._role()} if metric.role else found

    def _exists(self, metric: Metric, values: Labels) -> bool:
        """Whether the object of a series still exists."""
        owner = owner_of(metric, values)
        if owner is None:
            return True
        kind, key = owner
        state = self._engine.state
        if kind == CLUSTER_QUEUE:
            return key.name in state.queues
        if kind == COHORT:
            return key.name in state.tree.cohorts
        return key in state.local_queues and self._measured(key)


class RuntimeFamilies(Collector):
    """Collects the metrics of the process.

    `lease` is the name of the leader election lease; `depths` returns the lengths of the work
    queues.
    """

    def __init__(
        self,
        runtime: Runtime,
        leads: Callable[[], bool],
        lease: str,
        depths: Callable[[], Mapping[str, int]],
    ) -> None:
        self._series = runtime.series
        self._leads = leads
        self._lease = lease
        self._depths = depths

    def collect(self) -> Iterator[Family]:
        series = self._series
        for name, depth in self._depths().items():
            series.put(DEPTH, depth, name)
        for where, count in COUNTS.items():
            series.put(BUGS, count, where)
        if self._lease:
            series.put(MASTER, float(self._leads()), self._lease)
        yield from families(RUNTIME_METRICS, series)


def families(
    metrics: Mapping[str, Metric], series: Series, common: Mapping[str, str] | None = None
) -> Iterator[Family]:
    """Return the families of metrics without custom labels. All samples have `common` labels."""
    for metric in metrics.values():
        family = _family_of(metric, series, partial(_named, metric.labels, common=common))
        if family.samples:
            yield family


def _family_of(metric: Metric, series: Series, named: Callable[[Labels], dict[str, str]]) -> Family:
    """Return the family of a metric with its samples; `named` returns the labels of a series."""
    # The client library adds the suffix of counters.
    name = metric.name.removesuffix("_total") if metric.kind is MetricType.COUNTER else metric.name
    family = Family(name, metric.about, metric.kind.value)
    for values, number in series.values(metric.name).items():
        family.add_sample(metric.name, named(values), number)
    for values, found in series.distributions(metric.name).items():
        _put_distribution(family, metric, named(values), found)
    return family


def _named(
    names: Labels, values: Labels, common: Mapping[str, str] | None = None
) -> dict[str, str]:
    return dict(zip(names, values, strict=True)) | dict(common or {})


def _put_distribution(
    family: Family, metric: Metric, labels: dict[str, str], found: Distribution
) -> None:
    below = 0
    for bound, count in zip((*metric.buckets, math.inf), found.counts, strict=True):
        below += count
        written = "+Inf" if bound == math.inf else f"{bound:g}"
        family.add_sample(f"{metric.name}_bucket", labels | {"le": written}, below)
    family.add_sample(f"{metric.name}_count", labels, below)
    family.add_sample(f"{metric.name}_sum", labels, found.total)
