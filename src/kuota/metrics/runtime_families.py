# SPDX-License-Identifier: Apache-2.0
"""Shows how the process fares among the metrics of its controller."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import ProcessCollector
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from kuota.failures import COUNTS

from .families import empty_family, put_distribution
from .metrics import LEADER, Metrics
from .runtime import BUGS, DEPTH, MASTER, METRICS, Runtime


def show(
    runtime: Runtime,
    metrics: Metrics,
    *,
    lease: str = "",
    depths: Callable[[], Mapping[str, int]] = dict,
) -> None:
    """Show the process too. `lease` is what replicas lead by, `depths` how long queues are."""
    metrics.registry.register(_Families(runtime, metrics, lease, depths))
    ProcessCollector(registry=metrics.registry)


class _Families(Collector):
    def __init__(
        self,
        runtime: Runtime,
        metrics: Metrics,
        lease: str,
        depths: Callable[[], Mapping[str, int]],
    ) -> None:
        self._series = runtime.series
        self._metrics = metrics
        self._lease = lease
        self._depths = depths

    def collect(self) -> Iterator[Family]:
        series = self._series
        for name, depth in self._depths().items():
            series.put(DEPTH, depth, name)
        for where, count in COUNTS.items():
            series.put(BUGS, count, where)
        if self._lease:
            series.put(MASTER, float(self._metrics.role == LEADER), self._lease)
        for metric in METRICS.values():
            family = empty_family(metric)
            for labels, value in series.values(metric.name).items():
                family.add_sample(metric.name, dict(zip(metric.labels, labels, strict=True)), value)
            for labels, found in series.distributions(metric.name).items():
                named = dict(zip(metric.labels, labels, strict=True))
                put_distribution(family, metric, named, found)
            if family.samples:
                yield family
