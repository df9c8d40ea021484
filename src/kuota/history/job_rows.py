# SPDX-License-Identifier: Apache-2.0
"""Jobs as the API lists them. Times are RFC 3339, and empty if they are not known yet. Pure."""

from __future__ import annotations

import msgspec

from kuota.bridge.conditions import timestamp

from .accounts import Period, ResourceHours, resource_hours
from .records import JobRecord, overlap_ms


class RunRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A `kuota.history.records.Run`: when a job held the same amounts, and why that ended.

    `preemptor_uid` identifies the Workload that preempted the job, if it is known.
    """

    admitted: str
    started: str
    cluster_queue: str
    ended: str = ""
    ending: str = ""
    preemptor_uid: str = ""


class HeldRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A period in which a job was deactivated, so that it did not wait."""

    started: str
    ended: str = ""


class JobRow(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """One job. `state` is its outcome, or what it does now.

    `runs` and `held` are set if the request selected a single Workload.
    """

    namespace: str
    kind: str
    job: str
    workload: str
    submitted: str
    state: str = ""
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
    runs: tuple[RunRow, ...] = ()
    held: tuple[HeldRow, ...] = ()


def job_row(record: JobRecord, until: float) -> JobRow:
    """Return a job with what it used up to a time."""
    whole = Period(0.0, until)
    return JobRow(
        namespace=record.namespace,
        kind=record.kind,
        job=record.job,
        workload=record.workload,
        submitted=timestamp(record.submitted),
        state=_state(record),
        queue=record.queue,
        cluster_queue=record.cluster_queue,
        user=record.user,
        started=timestamp(record.runs[0].started) if record.runs else "",
        finished=_if_known(record.finished),
        outcome=str(record.outcome),
        cause=record.cause,
        waited_seconds=record.waited_ms(*whole.bounds_ms) / 1000,
        ran_seconds=sum(overlap_ms(each, *whole.bounds_ms) for each in record.runs) / 1000,
        preemptions=record.preemptions,
        resources=resource_hours(record, whole),
    )


def detailed_row(record: JobRecord, until: float) -> JobRow:
    """Return a job with its runs, and with the times in which it was held."""
    runs = tuple(
        RunRow(
            admitted=timestamp(each.admitted),
            started=timestamp(each.started),
            cluster_queue=each.cluster_queue,
            ended=_if_known(each.ended),
            ending=each.ending,
            preemptor_uid=each.preemptor,
        )
        for each in record.runs
    )
    held = tuple(HeldRow(timestamp(each.started), _if_known(each.ended)) for each in record.held)
    return msgspec.structs.replace(job_row(record, until), runs=runs, held=held)


def _state(record: JobRecord) -> str:
    if record.outcome:
        return record.outcome.value
    # Slices of an elastic job overlap, so the last run need not be the one that continues.
    if any(each.ended is None for each in record.runs):
        return "Running"
    held = bool(record.held) and record.held[-1].ended is None
    return "Deactivated" if held else "Waiting"


def _if_known(moment: float | None) -> str:
    return "" if moment is None else timestamp(moment)
