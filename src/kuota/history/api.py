# SPDX-License-Identifier: Apache-2.0
"""The API of the history, without a transport: paths, parameters and documents."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import TypeVar
from urllib.parse import unquote

import msgspec

from kuota.api.base import Json
from kuota.api.faults import FieldError, Invalid, invalid
from kuota.bridge.conditions import timestamp

from .accounts import By, Period, merged, usage
from .charges import ChargePeriod, charges
from .job_rows import detailed_row, job_row
from .quotas import QuotaFact
from .records import JobRecord
from .series import series_report
from .waste import IdleSpan, waste

GROUP = "history.kuota.dev"
VERSION = "v1alpha1"
PREFIX = f"/apis/{GROUP}"
MOST_JOBS = 10_000
"""The most jobs in one response."""
LONGEST_STEP_S = 366 * 86_400
_LIMIT = 500
_STEP_S = 3600.0
C = TypeVar("C", By, ChargePeriod)


class Report(StrEnum):
    """What can be read: jobs, accounts, charges per job and hour or day, waste, teams over time."""

    JOBS = "jobs"
    USAGE = "usage"
    CHARGES = "charges"
    WASTE = "waste"
    SERIES = "series"


KINDS = {
    Report.JOBS: "JobHistory",
    Report.USAGE: "UsageReport",
    Report.CHARGES: "ChargeReport",
    Report.WASTE: "WasteReport",
    Report.SERIES: "SeriesReport",
}
"""The kind of each document."""


class ReportScope(msgspec.Struct, frozen=True):
    """A report about some namespaces; None means all. There is at least one."""

    report: Report
    namespaces: tuple[str, ...] | None

    def includes(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces


class Question(msgspec.Struct, frozen=True):
    """The parameters of a request.

    `job` and `user` select rows of the list of jobs, if set, and `uid` that of one Workload, with
    its runs. `step_s` is the length of a step of series.
    """

    period: Period
    by: By = By.TEAM
    limit: int = _LIMIT
    every: ChargePeriod = ChargePeriod.DAY
    job: str = ""
    user: str = ""
    uid: str = ""
    step_s: float = _STEP_S

    def selects(self, record: JobRecord) -> bool:
        return self.job in ("", record.job) and self.user in ("", record.user)


def path(report: Report, namespace: str | None) -> str:
    """Return where a report is served."""
    inside = f"/namespaces/{namespace}" if namespace is not None else ""
    return f"{PREFIX}/{VERSION}{inside}/{report}"


def parse_scope(given: str, query: Mapping[str, str]) -> ReportScope | None:
    """Return what a path and its query name; None if there is no such report.

    A path without a namespace reads those that the parameter `namespaces` lists, or all.
    """
    match [unquote(each) for each in given.strip("/").split("/")]:
        case ["apis", group, version, *rest] if (group, version) == (GROUP, VERSION):
            listed = sorted(set(filter(None, query.get("namespaces", "").split(","))))
            if len(rest) == 3 and rest[0] == "namespaces":
                listed, rest = [rest[1]], rest[2:]
            if len(rest) == 1 and rest[0] in tuple(Report):
                return ReportScope(Report(rest[0]), tuple(listed) or None)
    return None


def parse_query(query: Mapping[str, str], now: float) -> Question:
    """Return the parameters: since, until, by, limit, every, step, job, user and uid.

    Raises Invalid with all faults.
    """
    faults: list[FieldError] = []
    # What has not happened yet is not counted.
    until = min(_time(query, "until", now, faults), now)
    since = _time(query, "since", 0.0, faults)
    by = _choice(query, "by", By.TEAM, faults)
    every = _choice(query, "every", ChargePeriod.DAY, faults)
    limit = query.get("limit", str(_LIMIT))
    number = int(limit) if limit.isascii() and limit.isdigit() and len(limit) <= 9 else 0
    if not 0 < number <= MOST_JOBS:
        faults.append(invalid("limit", limit, f"must be a number from 1 to {MOST_JOBS}"))
    step_s = _step(query, max(60.0, (until - since) / 100), faults)
    if not faults and since >= until:
        reason = "must be before until, and in the past"
        faults.append(invalid("since", query.get("since", ""), reason))
    if faults:
        raise Invalid(faults)
    selected = {name: query.get(name, "") for name in ("job", "user", "uid")}
    return Question(Period(since, until), by, number, every, step_s=step_s, **selected)


def document(place: ReportScope, question: Question, records: Iterable[JobRecord]) -> Json:
    """Return any report but waste. The newest jobs come first. Raises TooManyCharges."""
    body = _head(place, question)
    match place.report:
        case Report.USAGE:
            found = usage(records, question.by, question.period)
            return body | {"by": str(question.by), "items": msgspec.to_builtins(found)}
        case Report.CHARGES:
            made = charges(records, question.period, question.every)
            return body | {"every": str(question.every), "items": msgspec.to_builtins(made)}
        case Report.SERIES:
            series = series_report(records, question.period, question.step_s)
            return {**body, **msgspec.to_builtins(series)}
    return body | _jobs(question, records)


def waste_document(
    place: ReportScope,
    question: Question,
    records: Iterable[JobRecord],
    quotas: Iterable[QuotaFact],
    idle: Iterable[IdleSpan],
) -> Json:
    """Return the waste of each team. Raises TooManyChanges.

    The records are those of all namespaces: whether quota is free depends on what others use.
    """
    found = waste(records, quotas, idle, question.period)
    shown = [each for each in found if place.includes(each.group)]
    return _head(place, question) | {"by": "team", "items": msgspec.to_builtins(shown)}


def detailed_document(place: ReportScope, question: Question, record: JobRecord | None) -> Json:
    """Return the list of jobs with one Workload, if it is in the scope."""
    found = [record] if record is not None and place.includes(record.namespace) else []
    items = [msgspec.to_builtins(detailed_row(each, question.period.until)) for each in found]
    return _head(place, question) | {"items": items, "remaining": 0}


def _head(place: ReportScope, question: Question) -> Json:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KINDS[place.report],
        "since": timestamp(question.period.since),
        "until": timestamp(question.period.until),
    }


def _jobs(question: Question, records: Iterable[JobRecord]) -> Json:
    until, limit = question.period.until, question.limit
    rows = [each for each in merged(records) if each.begun < until and question.selects(each)]
    rows.sort(key=lambda each: (-(each.finished or until), -each.submitted))
    items = [msgspec.to_builtins(job_row(each, until)) for each in rows[:limit]]
    return {"items": items, "remaining": max(0, len(rows) - limit)}


def _choice(query: Mapping[str, str], name: str, default: C, faults: list[FieldError]) -> C:
    given, choices = query.get(name, default), type(default)
    if given not in tuple(choices):
        faults.append(invalid(name, given, f"must be one of {', '.join(choices)}"))
        return default
    return choices(given)


def _step(query: Mapping[str, str], default: float, faults: list[FieldError]) -> float:
    given = query.get("step")
    try:
        found = default if given is None else float(given)
    except ValueError:
        found = math.nan
    if not 1 <= found <= LONGEST_STEP_S:
        faults.append(invalid("step", given, "must be a number of seconds, such as 3600"))
    return found


def _time(query: Mapping[str, str], name: str, default: float, faults: list[FieldError]) -> float:
    given = query.get(name)
    if given is None:
        return default
    try:
        moment = datetime.fromisoformat(given)
        # In UTC, the year may be one that cannot be represented.
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        faults.append(invalid(name, given, "must be a time such as 2026-01-31T12:00:00Z"))
        return default
