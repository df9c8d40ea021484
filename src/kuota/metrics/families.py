# SPDX-License-Identifier: Apache-2.0
"""Series and readings as Prometheus wants them: one family a metric, every sample with its labels.

A family without samples is left out, as in Kueue.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from kuota.engine.engine import Engine

from .board import Board, waiting
from .catalog import METRICS
from .gauges_local import read_local_queues, read_unadmitted
from .gauges_queue import read_cluster_queues, read_cohorts
from .metric import CLUSTER_QUEUE, COHORT, Kind, Metric, owner_of
from .series import Distribution, Labels, Series
from .setup import CustomLabels, Objects, Setup, measured


class Kept(Collector):
    """Families that were collected already."""

    def __init__(self, families: list[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Family]:
        return self._families


class Families(Collector):
    """Collects what was counted, and reads the gauges from the engine. `role` tells whose."""

    def __init__(
        self,
        series: Series,
        engine: Engine,
        objects: Objects,
        custom: CustomLabels,
        setup: Setup,
        role: Callable[[], str],
    ) -> None:
        self._series = series
        self._engine = engine
        self._objects = objects
        self._custom = custom
        self._setup = setup
        self._role = role
        self._measured = measured(setup, objects)

    def collect(self) -> Iterator[Family]:
        board = Board(self._engine, self._objects, self._custom, self._setup)
        by_name, by_key = waiting(board)
        read_cluster_queues(board, by_name)
        read_local_queues(board, by_key)
        read_cohorts(board)
        read_unadmitted(board)
        self._series.keep(self._exists)
        for metric in METRICS.values():
            if self._setup.shows(metric):
                family = self._family(metric, board)
                if family.samples:
                    yield family

    def _family(self, metric: Metric, board: Board) -> Family:
        family = empty_family(metric)
        names = (*metric.labels, *self._custom.names(*metric.custom))
        for values, number in board.readings[metric.name].items():
            family.add_sample(metric.name, self._labels(metric, names, values), number)
        for values, number in self._series.values(metric.name).items():
            family.add_sample(metric.name, self._counted(metric, values), number)
        for values, found in self._series.distributions(metric.name).items():
            put_distribution(family, metric, self._counted(metric, values), found)
        return family

    def _counted(self, metric: Metric, values: Labels) -> dict[str, str]:
        """The labels of a series that was counted; those of its queue come last."""
        if metric.kind is Kind.GAUGE:
            values = (*values, *self._custom.of_owner(metric, values))
        kinds = (*metric.custom[1:], *metric.custom[:1])
        return self._labels(metric, (*metric.labels, *self._custom.names(*kinds)), values)

    def _labels(self, metric: Metric, names: Labels, values: Labels) -> dict[str, str]:
        found = dict(zip(names, values, strict=True))
        return found | {"replica_role": self._role()} if metric.role else found

    def _exists(self, metric: Metric, values: Labels) -> bool:
        """Whether what a series is about is still there."""
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


def empty_family(metric: Metric) -> Family:
    """The family of a metric, without samples. Counters go without their suffix there."""
    counter = metric.kind is Kind.COUNTER
    name = metric.name.removesuffix("_total") if counter else metric.name
    return Family(name, metric.about, metric.kind.value)


def put_distribution(
    family: Family, metric: Metric, labels: dict[str, str], found: Distribution
) -> None:
    below = 0
    for bound, count in zip((*metric.buckets, math.inf), found.counts, strict=True):
        below += count
        written = "+Inf" if bound == math.inf else f"{bound:g}"
        family.add_sample(f"{metric.name}_bucket", labels | {"le": written}, below)
    family.add_sample(f"{metric.name}_count", labels, below)
    family.add_sample(f"{metric.name}_sum", labels, found.total)
