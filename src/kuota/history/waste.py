# SPDX-License-Identifier: Apache-2.0
"""Waste by cause, in hours of each resource per team. Pure.

Every wasted hour has one cause. A run that was lost is wasted as a whole, so idle devices count
only in other runs. Quota that was free while a job waited is no part of any run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum
from itertools import pairwise

import msgspec

from kuota.engine.amounts import FlavorResource
from kuota.engine.tree import Journal, charge

from .accounts import Period, hours_of
from .quotas import QuotaFact, Quotas
from .records import (
    PODS_READY_TIMEOUT,
    PREEMPTED,
    Interval,
    JobRecord,
    RecordedOutcome,
    Run,
    is_lost,
    milliseconds,
    overlap_ms,
)

START_S = 60.0
"""A job that failed within this time never started, unless its pods were ready."""
MOST_MOMENTS = 50_000
"""How many changes of usage, demand and quota one report may contain."""


class Cause(StrEnum):
    """Why device hours were wasted."""

    WAITING = "waiting"
    """Quota was free for a job that waited."""
    PREEMPTED = "preempted"
    """The run was preempted."""
    EVICTED = "evicted"
    """The run was evicted for another reason."""
    FAILED_START = "failedStart"
    """The job never started: its pods did not become ready, or it failed at once."""
    IDLE = "idle"
    """Devices were allocated and not used."""


class IdleSpan(msgspec.Struct, frozen=True):
    """One device of a pod of this Workload was idle from `since` up to `until`.

    `pod` is the uid of the pod. Spans of one device may overlap: two processes may have read it.
    """

    pod: str
    device: str
    namespace: str
    workload: str
    resource: str
    since: float
    until: float


class Waste(msgspec.Struct, rename="camel"):
    """The waste of one team: hours by resource and cause."""

    group: str
    resources: dict[str, dict[str, float]] = msgspec.field(default_factory=dict)


class TooManyChanges(Exception):
    """A period has too many changes for one report."""

    def __init__(self) -> None:
        super().__init__(
            f"the period has more than {MOST_MOMENTS} changes of usage and demand; choose a "
            "shorter one"
        )


_Sums = Counter[tuple[str, str, Cause]]
"""Amount times milliseconds, by team, resource and cause."""


def waste(
    records: Iterable[JobRecord],
    quotas: Iterable[QuotaFact],
    idle: Iterable[IdleSpan],
    period: Period,
) -> list[Waste]:
    """Return the waste of each team, in the order of their names. Raises TooManyChanges."""
    known = list(records)
    sums: _Sums = Counter()
    for record in known:
        _add_runs(sums, record, period)
    _add_idle(sums, known, idle, period)
    _add_waiting(sums, known, Quotas(quotas), period)
    found: dict[str, Waste] = {}
    for (team, resource, cause), amount_ms in sorted(sums.items()):
        if amount_ms:
            resources = found.setdefault(team, Waste(team)).resources
            named = resources.setdefault(resource, {each.value: 0.0 for each in Cause})
            named[cause.value] = hours_of(amount_ms, resource)
    return list(found.values())


def cause_of(record: JobRecord, run: Run, ending: str) -> Cause | None:
    """Return why a run was wasted as a whole; None if it was not."""
    if ending == PODS_READY_TIMEOUT or (run is record.runs[-1] and _failed_at_start(record, run)):
        return Cause.FAILED_START
    if ending == PREEMPTED:
        return Cause.PREEMPTED
    return Cause.EVICTED if is_lost(ending) else None


def _failed_at_start(record: JobRecord, run: Run) -> bool:
    if record.outcome is not RecordedOutcome.FAILED or run.ended is None or run.ready:
        return False
    return run.ready is False or run.ended - run.admitted <= START_S


def _add_runs(sums: _Sums, record: JobRecord, period: Period) -> None:
    for run, ending in record.endings():
        cause = cause_of(record, run, ending)
        lasted = overlap_ms(run, *period.bounds_ms)
        if cause is None or not lasted:
            continue
        for amounts in run.amounts.values():
            for resource, amount in amounts.items():
                sums[record.namespace, resource, cause] += amount * lasted


def _add_idle(
    sums: _Sums, records: list[JobRecord], idle: Iterable[IdleSpan], period: Period
) -> None:
    """Count idle devices within runs that were not wasted as a whole.

    A span counts in the runs of all Workloads of the job: slices replace each other while pods of
    an elastic job continue to run.
    """
    jobs = {(each.namespace, each.workload): each.job_id for each in records}
    kept: dict[str, list[Run]] = {}
    for record in records:
        runs = [run for run, ending in record.endings() if cause_of(record, run, ending) is None]
        kept.setdefault(record.job_id, []).extend(runs)
    since, until = period.bounds_ms
    for span, begin, end in _each_once(idle):
        runs = kept.get(jobs.get((span.namespace, span.workload), ""), [])
        holding = [
            run for run in runs if any(span.resource in each for each in run.amounts.values())
        ]
        lasted = _covered_ms(holding, max(begin, since), min(end, until))
        sums[span.namespace, span.resource, Cause.IDLE] += lasted


def _each_once(idle: Iterable[IdleSpan]) -> Iterator[tuple[IdleSpan, int, int]]:
    """Yield spans with their times in milliseconds, without what earlier ones of a device cover."""
    covered: dict[tuple[str, str], int] = {}
    for span in sorted(idle, key=lambda each: (each.since, each.until)):
        device = span.pod, span.device
        begin, end = milliseconds(span.since), milliseconds(span.until)
        begin = max(begin, covered.get(device, begin))
        if begin < end:
            covered[device] = end
            yield span, begin, end


def _covered_ms(runs: list[Run], since: int, until: int) -> int:
    """Return how much of a period the runs cover, each moment once."""
    lasted, at = 0, since
    for run in sorted(runs, key=lambda each: each.started):
        part = overlap_ms(run, at, until)
        lasted += part
        if part:
            at = max(at, milliseconds(run.started)) + part
    return lasted


class _Change(msgspec.Struct, frozen=True):
    """At a time, a job begins (1) or ceases (-1) to hold amounts, or to wait for them."""

    at: int
    sign: int
    record: JobRecord
    run: Run | None = None


def _add_waiting(sums: _Sums, records: list[JobRecord], quotas: Quotas, period: Period) -> None:
    """Count quota that was free for jobs that waited, moment by moment."""
    changes = sorted(_changes(records, period), key=lambda each: each.at)
    times = {milliseconds(each) for each in quotas.times()} | {each.at for each in changes}
    since, until = period.bounds_ms
    moments = sorted({since, until, *(each for each in times if since < each < until)})
    if len(moments) > MOST_MOMENTS:
        raise TooManyChanges
    state, at = _State(quotas), 0
    for begin, end in pairwise(moments):
        quotas.advance(begin / 1000)
        while at < len(changes) and changes[at].at <= begin:
            state.apply(changes[at])
            at += 1
        for team, resource, amount in state.free_while_waiting():
            sums[team, resource, Cause.WAITING] += amount * (end - begin)


def _changes(records: list[JobRecord], period: Period) -> Iterator[_Change]:
    since, until = period.bounds_ms
    for record in records:
        for run in record.runs:
            if overlap_ms(run, since, until):
                yield from _both(run, record, run)
        for each in record.waiting():
            if overlap_ms(each, since, until):
                yield from _both(each, record, None)


def _both(interval: Interval | Run, record: JobRecord, run: Run | None) -> Iterator[_Change]:
    yield _Change(milliseconds(interval.started), 1, record, run)
    if interval.ended is not None:
        yield _Change(milliseconds(interval.ended), -1, record, run)


class _State:
    """What is held and what is wanted at one moment."""

    def __init__(self, quotas: Quotas) -> None:
        self._quotas = quotas
        self._held: Counter[tuple[str, str, str]] = Counter()
        self._wanted: Counter[tuple[str, str, str]] = Counter()
        """By LocalQueue, team and resource."""

    def apply(self, change: _Change) -> None:
        record, run = change.record, change.run
        if run is None:
            queue = f"{record.namespace}/{record.queue}"
            for resource, amount in record.requests.items():
                self._wanted[queue, record.namespace, resource] += change.sign * amount
            return
        for flavor, amounts in run.amounts.items():
            for resource, amount in amounts.items():
                self._held[run.cluster_queue, flavor, resource] += change.sign * amount

    def free_while_waiting(self) -> Iterator[tuple[str, str, int]]:
        """Yield for each team how much of what its jobs wait for is free in their queues.

        What is free counts once: queues of a cohort in the order of their names, and teams of a
        queue in proportion to what they want.
        """
        wanted: dict[tuple[str, str], Counter[str]] = {}
        for (queue, team, resource), amount in self._wanted.items():
            into = self._quotas.queues.get(queue, "")
            if amount > 0 and into:
                wanted.setdefault((into, resource), Counter())[team] += amount
        if not wanted:
            return
        journal: Journal = []
        for (queue, flavor, resource), amount in self._held.items():
            node = self._quotas.node(queue)
            if node is not None and amount > 0:
                charge(node.cell(FlavorResource(flavor, resource)), amount, journal)
        for (queue, resource), teams in sorted(wanted.items()):
            total = teams.total()
            taken = self._take(queue, resource, total, journal)
            yield from ((team, resource, taken * teams[team] // total) for team in teams)
        for cell, used in reversed(journal):
            cell.used = used

    def _take(self, queue: str, resource: str, amount: int, journal: Journal) -> int:
        """Charge what is free of a resource, up to an amount, and return how much that is."""
        node = self._quotas.node(queue)
        if node is None:
            return 0
        taken = 0
        for column in node.quotas:
            part = min(node.room(column), amount - taken)
            if column.resource == resource and part > 0:
                charge(node.cell(column), part, journal)
                taken += part
        return taken
