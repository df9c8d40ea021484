# SPDX-License-Identifier: Apache-2.0
"""The API of the history, without a transport: paths, parameters and documents."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from urllib.parse import unquote

import msgspec

from kuota.api.base import Json
from kuota.api.faults import FieldError, Invalid, invalid
from kuota.kube.clock import time_text

from .accounts import By, Period, ResourceHours, merged, resource_hours, usage
from .charges import ChargePeriod, charges
from .quotas import QuotaFact
from .records import JobRecord, overlap_ms
from .waste import IdleSpan, waste

GROUP = "history.kuota.dev"
VERSION = "v1alpha1"
PREFIX = f"/apis/{GROUP}"
MOST_JOBS = 10_000
"""The most jobs in one response."""
_LIMIT = 500


class Report(StrEnum):
    """What can be read: one row per job, accounts, charges per job and hour or day, or waste."""

    JOBS = "jobs"
    USAGE = "usage"
    CHARGES = "charges"
    WASTE = "waste"


KINDS = {
    Report.JOBS: "JobHistory",
    Report.USAGE: "UsageReport",
    Report.CHARGES: "ChargeReport",
    Report.WASTE: "WasteReport",
}
"""The kind of each document."""


class ReportScope(msgspec.Struct, frozen=True):
    """A report about one namespace, or about all."""

    report: Report
    namespace: str | None


class Question(msgspec.Struct, frozen=True):
    """The parameters of a request. `job` and `user` select rows of the list of jobs, if set."""

    period: Period
    by: By = By.TEAM
    limit: int = _LIMIT
    every: ChargePeriod = ChargePeriod.DAY
    job: str = ""
    user: str = ""

    def selects(self, record: JobRecord) -> bool:
        return self.job in ("", record.job) and self.user in ("", record.user)


class JobRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One job. Times are RFC 3339, and empty if they are not known yet."""

    namespace: str
    kind: str
    job: str
    workload: str
    submitted: str
    queue: str = ""
    cluster_queue: str = ""
    user: str = ""
    started: str = ""
    finished: str = ""
    outcome: str = ""
    cause: str = ""
    waited_seconds: float = 0.0
    ran_seconds: float = 0.0
    preemptions: int = 0
    resources: dict[str, ResourceHours] = {}


def path(report: Report, namespace: str | None) -> str:
    """Return where a report is served."""
    inside = f"/namespaces/{namespace}" if namespace is not None else ""
    return f"{PREFIX}/{VERSION}{inside}/{report}"


def parse_path(given: str) -> ReportScope | None:
    """Return what the path names; None if there is no such report."""
    match [unquote(each) for each in given.strip("/").split("/")]:
        case ["apis", group, version, *rest] if (group, version) == (GROUP, VERSION):
            namespace: str | None = None
            if len(rest) == 3 and rest[0] == "namespaces":
                namespace, rest = rest[1], rest[2:]
            if len(rest) == 1 and rest[0] in tuple(Report):
                return ReportScope(Report(rest[0]), namespace)
    return None


def parse_query(query: Mapping[str, str], now: float) -> Question:
    """Return the parameters: since, until, by, limit, every, job and user.

    Raises Invalid with all faults.
    """
    faults: list[FieldError] = []
    # What has not happened yet is not counted.
    until = min(_time(query, "until", now, faults), now)
    since = _time(query, "since", 0.0, faults)
    by, limit = query.get("by", By.TEAM), query.get("limit", str(_LIMIT))
    every = query.get("every", ChargePeriod.DAY)
    if by not in tuple(By):
        faults.append(invalid("by", by, f"must be one of {', '.join(By)}"))
    if every not in tuple(ChargePeriod):
        faults.append(invalid("every", every, f"must be one of {', '.join(ChargePeriod)}"))
    number = int(limit) if limit.isascii() and limit.isdigit() and len(limit) <= 9 else 0
    if not 0 < number <= MOST_JOBS:
        faults.append(invalid("limit", limit, f"must be a number from 1 to {MOST_JOBS}"))
    if not faults and since >= until:
        reason = "must be before until, and in the past"
        faults.append(invalid("since", query.get("since", ""), reason))
    if faults:
        raise Invalid(faults)
    chosen = query.get("job", ""), query.get("user", "")
    return Question(Period(since, until), By(by), number, ChargePeriod(every), *chosen)


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
    shown = [each for each in found if place.namespace in (None, each.group)]
    return _head(place, question) | {"by": "team", "items": msgspec.to_builtins(shown)}


def _head(place: ReportScope, question: Question) -> Json:
    return {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": KINDS[place.report],
        "since": _text(question.period.since),
        "until": _text(question.period.until),
    }


def _jobs(question: Question, records: Iterable[JobRecord]) -> Json:
    until, limit = question.period.until, question.limit
    rows = [each for each in merged(records) if each.begun < until and question.selects(each)]
    rows.sort(key=lambda each: (-(each.finished or until), -each.submitted))
    items = [msgspec.to_builtins(_row(each, question.period)) for each in rows[:limit]]
    return {"items": items, "remaining": max(0, len(rows) - limit)}


def _row(record: JobRecord, period: Period) -> JobRow:
    whole = Period(0.0, period.until)
    return JobRow(
        namespace=record.namespace,
        kind=record.kind,
        job=record.job,
        workload=record.workload,
        submitted=_text(record.submitted),
        queue=record.queue,
        cluster_queue=record.cluster_queue,
        user=record.user,
        started=_text(record.runs[0].started) if record.runs else "",
        finished=_text(record.finished) if record.finished is not None else "",
        outcome=str(record.outcome),
        cause=record.cause,
        waited_seconds=record.waited_ms(*whole.bounds_ms) / 1000,
        ran_seconds=sum(overlap_ms(each, *whole.bounds_ms) for each in record.runs) / 1000,
        preemptions=record.preemptions,
        resources=resource_hours(record, whole),
    )


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


def _text(moment: float) -> str:
    return time_text(datetime.fromtimestamp(moment, UTC))
