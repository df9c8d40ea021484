# SPDX-License-Identifier: Apache-2.0
"""What teams used, waited for and lost over time, in steps. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from kuota.api.device_resources import resource_order
from kuota.api.quantity import as_float, written
from kuota.bridge.conditions import timestamp

from .accounts import HOUR_MS, Period, merged
from .records import JobRecord, Run

MOST_STEPS = 2000
"""The most steps of a series."""
_HOUR_S = HOUR_MS / 1000


class ResourceSeries(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One resource of a team. Each list has one value per step.

    `used` is the average amount in use, `hours` the amount multiplied by the hours, and `lost` the
    part of `hours` in runs that an eviction ended.
    """

    resource: str
    used: list[float]
    hours: list[float]
    lost: list[float]


class TeamSeries(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A team, which is a namespace. Each list has one value per step.

    `waiting` is the average number of waiting jobs, `running` of running ones. `submitted`,
    `finished` and `preemptions` count what happened in the step.
    """

    team: str
    resources: list[ResourceSeries] = []
    waiting: list[float]
    running: list[float]
    submitted: list[int]
    finished: list[int]
    preemptions: list[int]


class SeriesReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Series of teams. `times` are the beginnings of the steps; the last one ends at `until`."""

    since: str
    until: str
    step_seconds: float
    times: list[str]
    items: list[TeamSeries] = []


def series_report(records: Iterable[JobRecord], period: Period, step_s: float) -> SeriesReport:
    """Return a series for every team that had jobs in the period.

    Steps are made longer if there would be more than `MOST_STEPS`. The last one may be shorter than
    the others.
    """
    clock = _Steps(period, step_s)
    teams: dict[str, _Team] = {}
    for record in merged(records):
        if record.begun < period.until and (record.finished or period.until) >= period.since:
            teams.setdefault(record.namespace, _Team(clock)).add(record)
    return SeriesReport(
        since=timestamp(period.since),
        until=timestamp(period.until),
        step_seconds=clock.step_s,
        times=[timestamp(clock.begin(at)) for at in range(clock.count)],
        items=[teams[name].series(name) for name in sorted(teams)],
    )


class _Steps:
    """The steps of a period."""

    def __init__(self, period: Period, step_s: float) -> None:
        length = max(0.0, period.until - period.since)
        self.period = period
        self.step_s = max(step_s, length / MOST_STEPS, 1.0)
        self.count = max(1, -int(-length // self.step_s))

    def begin(self, at: int) -> float:
        return self.period.since + at * self.step_s

    def seconds(self, at: int) -> float:
        """Return the length of a step, more than 0."""
        return max(min(self.begin(at + 1), self.period.until) - self.begin(at), 1e-9)

    def index(self, moment: float) -> int | None:
        """Return the step of a moment; None if it is outside the period."""
        if not self.period.since <= moment < self.period.until:
            return None
        return min(int((moment - self.period.since) // self.step_s), self.count - 1)

    def spread(self, into: list[float], start: float, end: float, amount: float = 1.0) -> None:
        """Add the amount, multiplied by the seconds from start to end, to the steps."""
        start, end = max(start, self.period.since), min(end, self.period.until)
        if end <= start:
            return
        first = min(int((start - self.period.since) // self.step_s), self.count - 1)
        for at in range(first, self.count):
            begin = self.begin(at)
            if begin >= end:
                return
            into[at] += amount * max(0.0, min(end, begin + self.step_s) - max(start, begin))


class _Team:
    """The sums of one team, in seconds per step."""

    def __init__(self, clock: _Steps) -> None:
        self._clock = clock
        self._held: dict[str, list[float]] = {}
        self._lost: dict[str, list[float]] = {}
        self._waiting = self._zeros()
        self._running = self._zeros()
        self._submitted = [0] * clock.count
        self._finished = [0] * clock.count
        self._preemptions = [0] * clock.count

    def _zeros(self) -> list[float]:
        return [0.0] * self._clock.count

    def add(self, record: JobRecord) -> None:
        clock, until = self._clock, self._clock.period.until
        self._count(self._submitted, record.submitted)
        for each in record.waiting():
            clock.spread(self._waiting, each.started, until if each.ended is None else each.ended)
        for run, lost in record.losses():
            self._run(run, until, lost=lost)
        if record.finished is not None:
            self._count(self._finished, record.finished)

    def _run(self, run: Run, until: float, *, lost: bool) -> None:
        end = run.ended if run.ended is not None else until
        self._clock.spread(self._running, run.started, end)
        for amounts in run.amounts.values():
            for resource, units in amounts.items():
                amount = as_float(written(units, resource))
                held = self._held.setdefault(resource, self._zeros())
                self._clock.spread(held, run.started, end, amount)
                if lost:
                    into = self._lost.setdefault(resource, self._zeros())
                    self._clock.spread(into, run.started, end, amount)
        if run.preempted and run.ended is not None:
            self._count(self._preemptions, run.ended)

    def _count(self, into: list[int], moment: float) -> None:
        at = self._clock.index(moment)
        if at is not None:
            into[at] += 1

    def series(self, team: str) -> TeamSeries:
        names = sorted(self._held, key=resource_order)
        return TeamSeries(
            team=team,
            resources=[self._resource(name) for name in names],
            waiting=self._average(self._waiting),
            running=self._average(self._running),
            submitted=self._submitted,
            finished=self._finished,
            preemptions=self._preemptions,
        )

    def _resource(self, name: str) -> ResourceSeries:
        held, lost = self._held[name], self._lost.get(name) or self._zeros()
        return ResourceSeries(
            resource=name,
            used=self._average(held),
            hours=[each / _HOUR_S for each in held],
            lost=[each / _HOUR_S for each in lost],
        )

    def _average(self, seconds: list[float]) -> list[float]:
        return [each / self._clock.seconds(at) for at, each in enumerate(seconds)]
