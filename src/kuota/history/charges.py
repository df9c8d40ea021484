# SPDX-License-Identifier: Apache-2.0
"""What each job held in each hour or day: the accounts in the detail that cost tools need. Pure.

Periods are half-open and aligned to UTC. Charges of adjacent periods neither overlap nor leave a
gap, and their sum is what `accounts.usage` reports for the whole period.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from kuota.api.quantity import NANO, nano_of

from .accounts import HOUR_MS, Period
from .records import JobRecord, Run, milliseconds, overlap_ms

MOST_CHARGES = 100_000
"""The most charges in one response."""


class ChargePeriod(StrEnum):
    """How long one charge lasts."""

    HOUR = "hour"
    DAY = "day"

    @property
    def length_ms(self) -> int:
        return HOUR_MS if self is ChargePeriod.HOUR else 24 * HOUR_MS


class TooManyCharges(Exception):
    """A period has more charges than one response can contain."""

    def __init__(self) -> None:
        super().__init__(
            f"the period has more than {MOST_CHARGES} charges; request a shorter period, or days "
            "instead of hours"
        )


class Charge(msgspec.Struct, frozen=True, rename="camel"):
    """What a job held of one resource of a flavor, from `start_ms` up to `end_ms`.

    `resource_seconds` is the amount, in cores, bytes or devices, multiplied by seconds: an exact
    decimal.
    """

    start_ms: int
    end_ms: int
    namespace: str
    kind: str
    job: str
    job_uid: str
    user: str
    queue: str
    cluster_queue: str
    flavor: str
    resource: str
    resource_seconds: str
    labels: dict[str, str]


_Line = tuple[int, str, str, str, str]
"""The start of a charge, and the job, ClusterQueue, flavor and resource that it is for."""


def charges(records: Iterable[JobRecord], period: Period, every: ChargePeriod) -> list[Charge]:
    """Return the charges of a period, in order. Raises TooManyCharges."""
    sums: dict[_Line, int] = {}
    described: dict[str, JobRecord] = {}
    for record in records:
        known = described.get(record.job_id)
        if known is None or known.submitted < record.submitted:
            described[record.job_id] = record
        for run in record.runs:
            for line, amount_ms in _lines(record, run, period, every):
                sums[line] = sums.get(line, 0) + amount_ms
            if len(sums) > MOST_CHARGES:
                raise TooManyCharges
    return [_charge(described[line[1]], line, sums[line], period, every) for line in sorted(sums)]


def _lines(
    record: JobRecord, run: Run, period: Period, every: ChargePeriod
) -> Iterator[tuple[_Line, int]]:
    since, until = period.bounds_ms
    ended = until if run.ended is None else min(milliseconds(run.ended), until)
    at = max(milliseconds(run.started), since) // every.length_ms * every.length_ms
    while at < ended:
        lasted = overlap_ms(run, max(at, since), min(at + every.length_ms, until))
        for flavor, amounts in run.amounts.items():
            for resource, amount in amounts.items():
                if lasted and amount:
                    line = at, record.job_id, run.cluster_queue, flavor, resource
                    yield line, amount * lasted
        at += every.length_ms


def _charge(
    record: JobRecord, line: _Line, amount_ms: int, period: Period, every: ChargePeriod
) -> Charge:
    at, _, cluster_queue, flavor, resource = line
    since, until = period.bounds_ms
    return Charge(
        start_ms=max(at, since),
        end_ms=min(at + every.length_ms, until),
        namespace=record.namespace,
        kind=record.kind,
        job=record.job,
        job_uid=record.job_uid or record.uid,
        user=record.user,
        queue=record.queue,
        cluster_queue=cluster_queue,
        flavor=flavor,
        resource=resource,
        resource_seconds=_decimal(amount_ms, resource),
        labels=record.labels,
    )


def _decimal(amount_ms: int, resource: str) -> str:
    """Return amount times seconds as an exact decimal without an exponent."""
    whole, rest = divmod(nano_of(amount_ms, resource), NANO * 1000)
    return f"{whole}.{rest:012}".rstrip("0").rstrip(".")
