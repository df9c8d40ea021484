# SPDX-License-Identifier: Apache-2.0
"""Accounts of what jobs used, by team, queue, user or flavor. Pure.

Amounts and times are integers until they are reported, so accounts of parts of a period, and of
parts of the jobs, add up exactly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from kuota.api.quantity import NANO, nano_of

from .records import Interval, JobRecord, Run, milliseconds, overlap_ms

HOUR_MS = 3_600_000


class By(StrEnum):
    """What usage is grouped by. A team is a namespace."""

    TEAM = "team"
    QUEUE = "queue"
    USER = "user"
    FLAVOR = "flavor"


class Period(msgspec.Struct, frozen=True):
    """From `since` up to, but not including, `until`, in seconds since the epoch."""

    since: float
    until: float

    @property
    def bounds_ms(self) -> tuple[int, int]:
        return milliseconds(self.since), milliseconds(self.until)


class ResourceHours(msgspec.Struct):
    """Hours of one resource: the amount, multiplied by the time for which it was held.

    `lost` is the part in runs that an eviction ended: an upper bound of the work that was lost,
    because jobs that write checkpoints lose only the work since the last one.
    """

    hours: float = 0.0
    lost: float = 0.0


class UsageAccount(msgspec.Struct, rename="camel"):
    """The account of one group. `jobs` counts those that existed in the period.

    The group is "" for users and queues that are not known, and for flavors of jobs that have not
    run.
    """

    group: str
    jobs: int = 0
    preemptions: int = 0
    waiting_hours: float = 0.0
    resources: dict[str, ResourceHours] = msgspec.field(default_factory=dict)


class Share(msgspec.Struct, frozen=True):
    """What a run held of one resource of a flavor within a period: amount times milliseconds."""

    flavor: str
    resource: str
    amount_ms: int

    @property
    def hours(self) -> float:
        return hours_of(self.amount_ms, self.resource)


def hours_of(amount_ms: int, resource: str) -> float:
    """Return the hours of a resource in its own unit: cores, bytes or devices."""
    return nano_of(amount_ms, resource) / (HOUR_MS * NANO)


def shares(run: Run, period: Period) -> Iterator[Share]:
    """Yield what a run held within a period."""
    lasted = overlap_ms(run, *period.bounds_ms)
    if not lasted:
        return
    for flavor, amounts in run.amounts.items():
        for resource, amount in amounts.items():
            yield Share(flavor, resource, amount * lasted)


def merged(records: Iterable[JobRecord]) -> list[JobRecord]:
    """Return one record per job, with the runs of all its Workloads.

    A job has several Workloads, one after the other, if it is elastic or was changed.
    """
    by_job: dict[str, list[JobRecord]] = {}
    for each in records:
        by_job.setdefault(each.job_id, []).append(each)
    return [_merged(each) if len(each) > 1 else each[0] for each in by_job.values()]


def _merged(records: list[JobRecord]) -> JobRecord:
    records.sort(key=lambda each: (each.submitted, each.finished is None, each.finished or 0.0))
    last = records[-1]
    # Runs of one admission stay together, also beside those of another Workload.
    runs = [(run.admitted, at, run) for at, each in enumerate(records) for run in each.runs]
    runs.sort(key=lambda each: each[:2])
    continues = any(each.finished is None for each in records)
    return msgspec.structs.replace(
        last,
        submitted=records[0].submitted,
        runs=tuple(run for *_, run in runs),
        held=tuple(interval for each in records for interval in _held(each)),
        finished=None if continues else max(each.finished or 0.0 for each in records),
    )


def _held(record: JobRecord) -> Iterator[Interval]:
    """Yield the times in which a Workload was held, which its end ends too."""
    for each in record.held:
        yield Interval(each.started, record.finished if each.ended is None else each.ended)


class _Account(msgspec.Struct):
    """An account in integers."""

    group: str
    jobs: int = 0
    preemptions: int = 0
    waited_ms: int = 0
    used: Counter[str] = msgspec.field(default_factory=Counter)
    lost: Counter[str] = msgspec.field(default_factory=Counter)

    def add(self, share: Share, *, lost: bool) -> None:
        self.used[share.resource] += share.amount_ms
        if lost:
            self.lost[share.resource] += share.amount_ms

    def resources(self) -> dict[str, ResourceHours]:
        return {
            name: ResourceHours(hours_of(used, name), hours_of(self.lost[name], name))
            for name, used in self.used.items()
        }


def usage(records: Iterable[JobRecord], by: By, period: Period) -> list[UsageAccount]:
    """Return the account of each group, in the order of their names.

    A job counts in every group in which it ran. Its waiting time counts once, in its first group.
    """
    accounts: dict[str, _Account] = {}
    for record in merged(records):
        groups = _groups(record, by, period)
        for at, group in enumerate(groups):
            account = accounts.setdefault(group, _Account(group))
            account.jobs += 1
            if not at:
                account.waited_ms += record.waited_ms(*period.bounds_ms)
        if groups:
            for run, lost in record.losses():
                _add(accounts, record, run, by, period, lost=lost)
    return [_reported(accounts[each]) for each in sorted(accounts)]


def resource_hours(record: JobRecord, period: Period) -> dict[str, ResourceHours]:
    """Return the hours of one job by resource."""
    account = _Account("")
    for run, lost in record.losses():
        for share in shares(run, period):
            account.add(share, lost=lost)
    return account.resources()


def _reported(account: _Account) -> UsageAccount:
    return UsageAccount(
        group=account.group,
        jobs=account.jobs,
        preemptions=account.preemptions,
        waiting_hours=account.waited_ms / HOUR_MS,
        resources=account.resources(),
    )


def _groups(record: JobRecord, by: By, period: Period) -> list[str]:
    """Return the groups of a job in the period; empty if it was submitted or ended outside."""
    ended = period.until if record.finished is None else record.finished
    if record.begun >= period.until or ended < period.since:
        return []
    if by is By.TEAM:
        return [record.namespace]
    if by is By.USER:
        return [record.user]
    runs = [each for each in record.runs if each.touches(period.since, period.until)]
    if by is By.QUEUE:
        found = dict.fromkeys([each.cluster_queue for each in runs] or [record.cluster_queue])
    else:
        found = dict.fromkeys(flavor for each in runs for flavor in each.amounts)
    return list(found) or [""]


def _add(
    accounts: dict[str, _Account],
    record: JobRecord,
    run: Run,
    by: By,
    period: Period,
    *,
    lost: bool,
) -> None:
    whole = {By.TEAM: record.namespace, By.USER: record.user, By.QUEUE: run.cluster_queue}
    for share in shares(run, period):
        accounts[whole.get(by, share.flavor)].add(share, lost=lost)
    if run.preempted and run.ended is not None and period.since <= run.ended < period.until:
        for group in set(run.amounts) if by is By.FLAVOR else {whole[by]}:
            accounts[group].preemptions += 1
