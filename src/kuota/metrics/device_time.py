# SPDX-License-Identifier: Apache-2.0
"""Device seconds by team and ClusterQueue: used, and lost to evictions. Pure.

Each change of a Workload costs the same, however many workloads there are. Times in between are
added up when they are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

import msgspec

from kuota.api.base import is_true, true_condition
from kuota.api.device_resources import is_device
from kuota.api.workload import Workload
from kuota.bridge.held_amounts import held_amounts
from kuota.engine.reasons import EvictionReason

OTHER = "_other"
"""The team of all series beyond the limit, and the reason of evictions that have no known one."""
MOST_PLACES = 5000
"""The most combinations of team, ClusterQueue, flavor and resource with series of their own."""

_REASONS = frozenset(EvictionReason)


class DeviceSeries(msgspec.Struct, frozen=True, cache_hash=True):
    """Where devices are held."""

    cluster_queue: str
    team: str
    flavor: str
    resource: str

    @property
    def labels(self) -> tuple[str, str, str, str]:
        return self.cluster_queue, self.team, self.flavor, self.resource


class _Meter(msgspec.Struct):
    """An amount since a time, and the product of amounts and times before."""

    since: float
    amount: float = 0.0
    total: float = 0.0

    def advance(self, now: float) -> None:
        self.total += self.amount * max(0.0, now - self.since)
        self.since = now


class _Run(msgspec.Struct):
    """What one workload holds since a time, and the device seconds before."""

    since: float
    amounts: dict[DeviceSeries, float]
    spent: dict[DeviceSeries, float]


class DeviceTime:
    """Device seconds of all workloads."""

    def __init__(self) -> None:
        self.lost: dict[tuple[DeviceSeries, str], float] = defaultdict(float)
        self._meters: dict[DeviceSeries, _Meter] = {}
        self._runs: dict[str, _Run] = {}

    def changed(self, old: Workload | None, new: Workload | None, now: float) -> None:
        """Account for a change. Without `new`, the Workload was deleted."""
        known = new or old
        if known is None:
            return
        uid = known.metadata.uid
        before = self._runs.get(uid)
        amounts = self._held(new, running=before is not None) if new is not None else None
        if before is None and not amounts:
            return
        if before is None and amounts and new is not None:
            self._begin(uid, new, amounts, now)
        elif before is not None and amounts is None:
            self._end(uid, before, new, now)
        elif before is not None and amounts != before.amounts:
            self._resize(before, amounts or {}, now)

    def used(self, now: float) -> Iterator[tuple[DeviceSeries, float]]:
        """Yield the device seconds of each place up to now."""
        for place, meter in self._meters.items():
            meter.advance(now)
            yield place, meter.total

    def restart(self, now: float) -> None:
        """Count from now on. Workloads that run continue to be known."""
        self.lost.clear()
        for meter in self._meters.values():
            meter.since, meter.total = now, 0.0

    def keep(self, wanted: Callable[[DeviceSeries], bool]) -> None:
        """Drop places that are no longer wanted, unless devices are held there."""
        unused = [place for place, meter in self._meters.items() if meter.amount <= 0]
        for place in unused:
            if not wanted(place):
                del self._meters[place]
        for place, reason in [each for each in self.lost if not wanted(each[0])]:
            del self.lost[place, reason]

    def _held(self, new: Workload, *, running: bool) -> dict[DeviceSeries, float] | None:
        """Return the devices that the workload holds; None if it holds no quota.

        Quota is held from the admission until it is released, also while an eviction is carried
        out.
        """
        admission, conditions = new.status.admission, new.status.conditions
        if admission is None or is_true(conditions, "Finished"):
            return None
        if not running and not is_true(conditions, "Admitted"):
            return None
        return {
            self._place(admission.cluster_queue, new.metadata.namespace, flavor, resource): amount
            for flavor, resources in held_amounts(new).items()
            for resource, amount in resources.items()
            if amount and is_device(resource)
        }

    def _place(self, queue: str, team: str, flavor: str, resource: str) -> DeviceSeries:
        place = DeviceSeries(queue, team, flavor, resource)
        if place not in self._meters and len(self._meters) >= MOST_PLACES:
            return DeviceSeries(OTHER, OTHER, "", resource)
        return place

    def _begin(
        self, uid: str, new: Workload, amounts: dict[DeviceSeries, float], now: float
    ) -> None:
        admitted = true_condition(new.status.conditions, "Admitted")
        since = admitted.last_transition_time if admitted is not None else None
        began = min(now, since.timestamp()) if since is not None else now
        spent = {place: amount * (now - began) for place, amount in amounts.items()}
        self._runs[uid] = _Run(now, amounts, spent)
        self._hold(amounts, 1, now)

    def _resize(self, run: _Run, amounts: dict[DeviceSeries, float], now: float) -> None:
        self._spend(run, now)
        self._hold(run.amounts, -1, now)
        self._hold(amounts, 1, now)
        run.amounts = amounts

    def _end(self, uid: str, run: _Run, new: Workload | None, now: float) -> None:
        self._spend(run, now)
        self._hold(run.amounts, -1, now)
        del self._runs[uid]
        reason = eviction_reason(new) if new is not None else ""
        if reason:
            for place, seconds in run.spent.items():
                self.lost[place, reason] += seconds

    def _spend(self, run: _Run, now: float) -> None:
        for place, amount in run.amounts.items():
            run.spent[place] = run.spent.get(place, 0.0) + amount * max(0.0, now - run.since)
        run.since = now

    def _hold(self, amounts: dict[DeviceSeries, float], sign: int, now: float) -> None:
        for place, amount in amounts.items():
            meter = self._meters.get(place)
            if meter is None:
                meter = self._meters[place] = _Meter(now)
            meter.advance(now)
            meter.amount += sign * amount


def eviction_reason(workload: Workload) -> str:
    """Return why an unfinished workload was evicted, from a closed list; "" if it was not."""
    if is_true(workload.status.conditions, "Finished"):
        return ""
    evicted = true_condition(workload.status.conditions, "Evicted")
    if evicted is None:
        return ""
    reason = evicted.reason.partition("DueTo")[0]
    return reason if reason in _REASONS else OTHER
