# SPDX-License-Identifier: Apache-2.0
"""Teams over time: what they used against their quota, waited, and lost. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kuota.api.device_resources import resource_order
from kuota.api.quantity import as_float, written
from kuota.bridge.conditions import timestamp
from kuota.history.accounts import HOUR_MS, Period, merged
from kuota.history.records import JobRecord, Run
from kuota.view.observed import ObservedState

from ..shapes import ResourceSeries, TeamSeries, TeamsModel

MOST_STEPS = 2000
"""The most steps of a series."""
_HOUR_S = HOUR_MS / 1000
_ZERO = (0.0, False)
Quotas = Mapping[tuple[str, str], tuple[float, bool]]
"""Quota by team and resource, and whether other teams share it."""


class CurrentTeams(msgspec.Struct, frozen=True):
    """The teams that have a LocalQueue, and their quota. It shares nothing with its source."""

    names: tuple[str, ...] = ()
    quotas: Quotas = {}


def teams_model(
    records: Iterable[JobRecord], period: Period, step_s: float, current: CurrentTeams
) -> TeamsModel:
    """Return a series for every team that had jobs in the period, or is a current one.

    A team is a namespace. Steps are made longer if there would be more than `MOST_STEPS`. The last
    one may be shorter than the others.
    """
    clock = _Steps(period, step_s)
    teams: dict[str, _Team] = {}
    for name in current.names:
        teams.setdefault(name, _Team(clock))
    for record in merged(records):
        if record.begun < period.until and (record.finished or period.until) >= period.since:
            teams.setdefault(record.namespace, _Team(clock)).add(record)
    return TeamsModel(
        since=timestamp(period.since),
        until=timestamp(period.until),
        step_seconds=clock.step_s,
        times=[timestamp(clock.begin(at)) for at in range(clock.count)],
        teams=[teams[name].series(name, current.quotas) for name in sorted(teams)],
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

    def series(self, team: str, quotas: Quotas) -> TeamSeries:
        offered = {resource for name, resource in quotas if name == team}
        names = sorted({*self._held, *offered}, key=resource_order)
        return TeamSeries(
            team=team,
            resources=[self._resource(name, quotas.get((team, name))) for name in names],
            waiting=self._average(self._waiting),
            running=self._average(self._running),
            submitted=self._submitted,
            finished=self._finished,
            preemptions=self._preemptions,
        )

    def _resource(self, name: str, quota: tuple[float, bool] | None) -> ResourceSeries:
        held = self._held.get(name) or self._zeros()
        lost = self._lost.get(name) or self._zeros()
        return ResourceSeries(
            resource=name,
            used=self._average(held),
            hours=[each / _HOUR_S for each in held],
            lost=[each / _HOUR_S for each in lost],
            quota=quota[0] if quota is not None else None,
            shared=quota[1] if quota is not None else False,
        )

    def _average(self, seconds: list[float]) -> list[float]:
        return [each / self._clock.seconds(at) for at, each in enumerate(seconds)]


def current_teams(observed: ObservedState) -> CurrentTeams:
    """Return the teams of now. The rest of the model may then be computed in another thread."""
    names = sorted({key.namespace for key in observed.state.local_queues})
    return CurrentTeams(tuple(names), _quotas(observed))


def _quotas(observed: ObservedState) -> Quotas:
    """Return the current nominal quota of the ClusterQueues that each team's LocalQueues name."""
    state = observed.state
    users: dict[str, set[str]] = {}
    for local in state.local_queues.values():
        users.setdefault(local.cluster_queue, set()).add(local.key.namespace)
    found: dict[tuple[str, str], tuple[float, bool]] = {}
    for name, teams in users.items():
        queue = state.queues.get(name)
        for column, quota in queue.node.quotas.items() if queue is not None else ():
            amount = as_float(written(quota.nominal, column.resource))
            for team in teams:
                total, shared = found.get((team, column.resource), _ZERO)
                found[team, column.resource] = total + amount, shared or len(teams) > 1
    return found
