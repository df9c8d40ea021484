# SPDX-License-Identifier: Apache-2.0
"""Collects the metrics that Kueue does not have.

The cost of a scrape depends on the number of queues and on what changed since the last one, not on
the number of workloads. Series of deleted queues and teams are dropped.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping

from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from kuota.api.base import Key
from kuota.api.workload import Workload
from kuota.engine.engine import Engine
from kuota.engine.model import LocalQueue
from kuota.engine.snapshot import Queue
from kuota.view.idle import HeldDevice, IdlePeriod

from . import own_catalog as names
from .device_time import OTHER, DeviceSeries, DeviceTime
from .families import families
from .lent_time import LentTime
from .metric import Metric
from .pending_index import PendingIndex
from .readings import in_units
from .restarts import Restarts
from .series import Labels, Series

MOST_WORKLOADS = 500
"""The most workloads with a utilization of their own."""
_COUNTED = frozenset({names.RESTART, names.IDLE, names.IDLE_NOW, names.UTILIZATION})
"""Metrics that keep their values. All others are read at each scrape."""


class OwnMetrics(Collector):
    """Receives changes of Workloads, and reads the rest from the engine.

    `role` returns the labels of this replica, `counts` whether it counts, which only the leader
    does, and `clock` the time in seconds since the epoch.
    """

    def __init__(
        self,
        engine: Engine,
        role: Callable[[], Mapping[str, str]],
        counts: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._role = role
        self._counts = counts
        self._clock = clock
        self._counting = True
        self._series = Series(names.OWN_METRICS)
        self._pending = PendingIndex(engine)
        self._restarts = Restarts()
        self._devices = DeviceTime()
        self._lent = LentTime()

    def changed(self, old: Workload | None, new: Workload | None, now: float) -> None:
        """Take a change of a Workload."""
        known = new or old
        if known is None:
            return
        self._watch_role(now)
        self._pending.touch(known.key)
        self._devices.changed(old, new, now)
        restart = self._restarts.changed(old, new, now)
        if restart is not None and self._counting:
            self._series.observe(
                names.RESTART, restart.took_s, restart.cluster_queue, restart.reason
            )

    def sample(self) -> None:
        """Read what is lent, and look up what changed.

        Call it regularly, so that short loans count and a scrape has little left to look up.
        """
        now = self._clock()
        self._watch_role(now)
        self._pending.refresh()
        self._lent.sample(self._engine.state.tree, now)

    def measured(
        self, held: list[HeldDevice], idle: tuple[IdlePeriod, ...], added_s: tuple[float, ...]
    ) -> None:
        """Take a round of readings: all held devices, the idle ones, and the idle time to add."""
        series = self._series
        series.keep(lambda metric, _: metric.name not in (names.IDLE_NOW, names.UTILIZATION))
        now_idle: Counter[Labels] = Counter()
        for period, seconds in zip(idle, added_s, strict=True):
            at = (period.holder.cluster_queue, period.holder.namespace, period.resource)
            now_idle[at] += 1
            if self._counting:
                series.add(names.IDLE, *at, by=seconds)
        for each in held:
            holder = each.holder
            now_idle[holder.cluster_queue, holder.namespace, each.resource] += 0
        for labels, count in now_idle.items():
            series.put(names.IDLE_NOW, count, *labels)
        for labels, percent in _utilization(held).items():
            series.put(names.UTILIZATION, percent, *labels)

    def collect(self) -> Iterator[Family]:
        self.sample()
        now, state = self._clock(), self._engine.state
        teams = {key.namespace for key in state.local_queues} | {"", OTHER}
        self._devices.keep(lambda place: _exists(place, teams, state.queues))
        self._lent.keep(state.queues.__contains__)
        self._series.keep(
            lambda metric, values: (
                metric.name in _COUNTED and _owned(metric, values, teams, state.queues)
            )
        )
        self._read_pending(now)
        if self._counting:
            self._read_devices(now)
        yield from families(names.OWN_METRICS, self._series, self._role())

    def _watch_role(self, now: float) -> None:
        """Count from zero once this replica leads."""
        counts = self._counts()
        if counts and not self._counting:
            self._devices.restart(now)
            self._lent.restart()
        self._counting = counts

    def _read_pending(self, now: float) -> None:
        oldest: dict[Labels, float] = {}
        amounts: dict[Labels, float] = defaultdict(float)
        for key, spec in self._engine.state.local_queues.items():
            queue = self._engine.state.queues.get(spec.cluster_queue)
            if queue is None or spec.stop_policy != "None":
                continue
            since, requests = self._pending.of(key)
            at = (queue.name, key.namespace)
            age = max(0.0, now - since) if since is not None else 0.0
            oldest[at] = max(oldest.get(at, 0.0), age)
            for resource, flavor in _columns(queue):
                amount = in_units(requests.get(resource, 0), resource)
                amounts[(*at, flavor, resource)] += amount
        for labels, value in oldest.items():
            self._series.put(names.OLDEST_PENDING, value, *labels)
        for labels, value in amounts.items():
            self._series.put(names.PENDING, value, *labels)

    def _read_devices(self, now: float) -> None:
        put = self._series.put
        for place, seconds in self._devices.used(now):
            put(names.USED, seconds, *place.labels)
        for (place, reason), seconds in self._devices.lost.items():
            put(names.LOST, seconds, *place.labels, reason)
        teams = _team_by_queue(self._engine.state.local_queues)
        for (queue, column), seconds in self._lent.totals():
            put(names.LENT, seconds, queue, teams.get(queue, ""), column.flavor, column.resource)


def _columns(queue: Queue) -> Iterator[tuple[str, str]]:
    """Yield the resources with quota, each with its flavor, or "" if there are several."""
    for group in queue.spec.groups:
        for resource in group.resources:
            yield resource, group.flavors[0] if len(group.flavors) == 1 else ""


def _team_by_queue(local_queues: Mapping[Key, LocalQueue]) -> dict[str, str]:
    """Return the team of each ClusterQueue that only one team uses."""
    teams: dict[str, set[str]] = defaultdict(set)
    for key, spec in local_queues.items():
        teams[spec.cluster_queue].add(key.namespace)
    return {queue: next(iter(found)) for queue, found in teams.items() if len(found) == 1}


def _exists(place: DeviceSeries, teams: set[str], queues: Mapping[str, object]) -> bool:
    return place.team in teams and (place.cluster_queue in queues or place.cluster_queue == OTHER)


def _owned(metric: Metric, values: Labels, teams: set[str], queues: Mapping[str, object]) -> bool:
    labels = dict(zip(metric.labels, values, strict=True))
    queue = labels["cluster_queue"]
    return (not queue or queue in queues) and labels.get("team", "") in teams


def _utilization(held: list[HeldDevice]) -> dict[Labels, float]:
    """Return the average utilization of the devices of each workload that has readings."""
    readings: dict[Labels, list[float]] = defaultdict(list)
    for each in held:
        holder = each.holder
        labels = (holder.cluster_queue, holder.namespace, holder.workload, each.resource)
        known = labels in readings or len(readings) < MOST_WORKLOADS
        if each.utilization_percent is not None and holder.workload and known:
            readings[labels].append(each.utilization_percent)
    return {labels: sum(some) / len(some) for labels, some in readings.items()}
