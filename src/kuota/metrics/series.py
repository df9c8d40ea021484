# SPDX-License-Identifier: Apache-2.0
"""Counters and histograms, by series.

They are plain dictionaries, because every admission updates a dozen of them. They belong to the
engine's event loop. A series has the custom labels that its queue has when it is counted.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping

from .config import NO_LABELS, CustomLabels
from .metric import Metric, MetricType

Labels = tuple[str, ...]
"""The values of a metric's labels, followed by those of counted custom labels."""


class Distribution:
    """A histogram: the count of each bucket, and the sum."""

    __slots__ = ("counts", "total")

    def __init__(self, bounds: int) -> None:
        self.counts = [0] * (bounds + 1)
        self.total = 0.0

    def add(self, bounds: tuple[float, ...], value: float) -> None:
        self.counts[bisect_left(bounds, value)] += 1
        self.total += value


class Series:
    """All counters of published metrics; others are not counted."""

    def __init__(self, metrics: Mapping[str, Metric], custom: CustomLabels = NO_LABELS) -> None:
        self._metrics = metrics
        self._custom = custom
        self._values: dict[str, dict[Labels, float]] = {
            name: {} for name, each in metrics.items() if each.kind is not MetricType.HISTOGRAM
        }
        self._distributions: dict[str, dict[Labels, Distribution]] = {
            name: {} for name, each in metrics.items() if each.kind is MetricType.HISTOGRAM
        }

    def add(self, name: str, *labels: str, by: float = 1.0) -> None:
        """Increment a counter."""
        values = self._values.get(name)
        if values is not None:
            counted = (*labels, *self._custom.of_owner(self._metrics[name], labels))
            values[counted] = values.get(counted, 0.0) + by

    def put(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge. Its custom labels are added when it is read."""
        values = self._values.get(name)
        if values is not None:
            values[labels] = value

    def observe(self, name: str, value: float, *labels: str) -> None:
        """Observe a value of a histogram."""
        found = self._distributions.get(name)
        if found is None:
            return
        metric = self._metrics[name]
        counted = (*labels, *self._custom.of_owner(metric, labels))
        distribution = found.get(counted)
        if distribution is None:
            distribution = found[counted] = Distribution(len(metric.buckets))
        distribution.add(metric.buckets, value)

    def values(self, name: str) -> dict[Labels, float]:
        return self._values.get(name, {})

    def distributions(self, name: str) -> dict[Labels, Distribution]:
        return self._distributions.get(name, {})

    def keep(self, wanted: Callable[[Metric, Labels], bool]) -> None:
        """Drop every series that is no longer wanted."""
        for kept in (self._values, self._distributions):
            for name, series in kept.items():
                metric = self._metrics[name]
                for labels in [each for each in series if not wanted(metric, each)]:
                    del series[labels]
