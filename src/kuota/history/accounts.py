# SPDX-License-Identifier: Apache-2.0
"""Accounts of what jobs used, by team, queue, user or flavor. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from kuota.api.quantity import as_float, written

from .records import JobRecord, Run

HOUR_S = 3600.0


class By(StrEnum):
    """What usage is grouped by. A team is a namespace."""

    TEAM = "team"
    QUEUE = "queue"
    USER = "user"
    FLAVOR = "flavor"


class Period(msgspec.Struct, frozen=True):
    """From `since` up to `until`, in seconds since the epoch."""

    since: float
    until: float


class ResourceUsage(msgspec.Struct):
    """Hours of one resource: the amount, multiplied by the time for which it was held.

    `lost` is the part in runs that an eviction ended: an upper bound of the work that was lost,
    because jobs that write checkpoints lose only the work since the last one.
    """

    hours: float = 0.0
    lost: float = 0.0


class Usage(msgspec.Struct, rename="camel"):
    """The account of one group. `jobs` counts those that existed in the period.

    The group is "" for users that are not known, and for jobs that have not run anywhere.
    """

    group: str
    jobs: int = 0
    preemptions: int = 0
    waiting_hours: float = 0.0
    resources: dict[str, ResourceUsage] = msgspec.field(default_factory=dict)


def usage(records: Iterable[JobRecord], by: By, period: Period) -> list[Usage]:
    """Return the account of each group, in the order of their names.

    A job counts in every group in which it ran. Its waiting time counts once, in its first group.
    """
    accounts: dict[str, Usage] = {}
    for record in records:
        groups = _groups(record, by, period)
        for at, group in enumerate(groups):
            account = accounts.setdefault(group, Usage(group))
            account.jobs += 1
            if not at:
                account.waiting_hours += record.waited_s(period.since, period.until) / HOUR_S
        for run in record.runs:
            _add(accounts, record, run, by, period)
    return [accounts[each] for each in sorted(accounts)]


def resource_hours(record: JobRecord, period: Period) -> dict[str, ResourceUsage]:
    """Return the hours of one job by resource."""
    account = Usage("")
    for run in record.runs:
        for _, resource, hours in _hours(run, period):
            _count(account, resource, hours, run)
    return account.resources


def _groups(record: JobRecord, by: By, period: Period) -> list[str]:
    """Return the groups of a job in the period; empty if it was submitted or ended outside."""
    if record.submitted >= period.until or (record.finished or period.until) < period.since:
        return []
    if by is By.TEAM:
        return [record.namespace]
    if by is By.USER:
        return [record.user]
    runs = [each for each in record.runs if each.touches(period.since, period.until)]
    if by is By.QUEUE:
        found = dict.fromkeys(each.cluster_queue for each in runs)
    else:
        found = dict.fromkeys(flavor for each in runs for flavor in each.amounts)
    return list(found) or [""]


def _add(accounts: dict[str, Usage], record: JobRecord, run: Run, by: By, period: Period) -> None:
    whole = {By.TEAM: record.namespace, By.USER: record.user, By.QUEUE: run.cluster_queue}
    touched = set()
    for flavor, resource, hours in _hours(run, period):
        account = accounts[whole.get(by, flavor)]
        _count(account, resource, hours, run)
        touched.add(account.group)
    if run.preempted and run.ended is not None and period.since <= run.ended < period.until:
        for group in touched:
            accounts[group].preemptions += 1


def _hours(run: Run, period: Period) -> Iterator[tuple[str, str, float]]:
    seconds = run.seconds(period.since, period.until)
    if not seconds:
        return
    for flavor, amounts in run.amounts.items():
        for resource, amount in amounts.items():
            yield flavor, resource, as_float(written(amount, resource)) * seconds / HOUR_S


def _count(account: Usage, resource: str, hours: float, run: Run) -> None:
    found = account.resources.setdefault(resource, ResourceUsage())
    found.hours += hours
    if run.lost:
        found.lost += hours
