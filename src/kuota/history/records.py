# SPDX-License-Identifier: Apache-2.0
"""The record of one job, derived from the states of its Workload. Pure.

A record depends only on the states that were observed, and recording a state twice changes nothing.
All times come from the Workload, so the moment of observation does not matter, with two exceptions:
the deletion of a Workload, and a change of its amounts while it runs, have no timestamp.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from kuota.api.base import Condition, by_type
from kuota.api.core import AUTHOR
from kuota.api.workload import Workload
from kuota.bridge.held_amounts import HeldAmounts, held_amounts


class Outcome(StrEnum):
    """How a job ended. A job without an outcome has not ended."""

    NONE = ""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    REPLACED = "Replaced"
    """Another Workload of the same job took over."""
    DELETED = "Deleted"


_OUTCOMES = {
    "Failed": Outcome.FAILED,
    "OutOfSync": Outcome.REPLACED,
    "OwnerNotFound": Outcome.DELETED,
    "WorkloadSliceReplaced": Outcome.REPLACED,
}
"""By the reason of the condition Finished; all other reasons mean success."""
FINISHED = "Finished"
RESIZED = "Resized"
DELETED = "Deleted"
EVICTED = "Evicted"
PREEMPTED = "Preempted"


class Run(msgspec.Struct, frozen=True):
    """A period in which a job held the same amounts. Times are in seconds since the epoch.

    `admitted` is the time of the admission that the run belongs to: earlier than `started` if the
    amounts have changed since. `ending` is FINISHED, RESIZED, DELETED, or the reason of the
    eviction, such as PREEMPTED. It is empty while the run continues.
    """

    admitted: float
    started: float
    cluster_queue: str
    amounts: HeldAmounts
    ended: float | None = None
    ending: str = ""

    @property
    def lost(self) -> bool:
        """Whether an eviction ended the run. Work since the last checkpoint was lost."""
        return self.ended is not None and self.ending not in (FINISHED, RESIZED, DELETED)

    @property
    def preempted(self) -> bool:
        return self.ending == PREEMPTED

    def touches(self, since: float, until: float) -> bool:
        """Whether a part of the run, which may have no length, is within a period."""
        return self.started < until and (self.ended is None or self.ended >= since)

    def seconds(self, since: float, until: float) -> float:
        """Return how long the run lasted within a period."""
        end = until if self.ended is None else min(self.ended, until)
        return max(0.0, end - max(self.started, since))


class JobRecord(msgspec.Struct, frozen=True):
    """What is known about one job. `workload` and `job` are names; `user` is "" if unknown."""

    uid: str
    namespace: str
    workload: str
    kind: str
    job: str
    queue: str
    user: str
    submitted: float
    runs: tuple[Run, ...] = ()
    finished: float | None = None
    outcome: Outcome = Outcome.NONE
    cause: str = ""

    @property
    def running(self) -> Run | None:
        """The run that continues; None if the job waits or has ended."""
        return self.runs[-1] if self.runs and self.runs[-1].ended is None else None

    @property
    def preemptions(self) -> int:
        return sum(each.preempted for each in self.runs)

    def waited_s(self, since: float, until: float) -> float:
        """Return how long the job waited for its runs within a period."""
        begin, waited = self.submitted, 0.0
        for run in self.runs:
            waited += max(0.0, min(run.started, until) - max(begin, since))
            begin = run.ended if run.ended is not None else until
        if self.finished is None and self.running is None:
            waited += max(0.0, until - max(begin, since))
        return waited


def recorded(known: JobRecord | None, workload: Workload, now: float) -> JobRecord:
    """Return the record after a state of the Workload was observed.

    `now` is used only for changes that have no timestamp.
    """
    record = known or _new(workload)
    if record.finished is not None:
        return record
    conditions = by_type(workload.status.conditions)
    finished = _true(conditions, FINISHED)
    if finished is None or record.running is None:
        record = _ran(record, workload, conditions, now)
    if finished is None:
        return record
    at = _time(finished, now)
    record = _closed(record, at, FINISHED)
    outcome = _OUTCOMES.get(finished.reason, Outcome.SUCCEEDED)
    cause = "" if outcome is Outcome.SUCCEEDED else finished.message
    return msgspec.structs.replace(record, finished=at, outcome=outcome, cause=cause)


def forgotten(record: JobRecord, workload: Workload | None, now: float) -> JobRecord:
    """Return the record after the Workload was deleted. Its last state may be unknown."""
    if workload is not None:
        record = recorded(record, workload, now)
    if record.finished is not None:
        return record
    deleted = workload.metadata.deletion_timestamp if workload is not None else None
    at = deleted.timestamp() if deleted is not None else now
    return msgspec.structs.replace(
        _closed(record, at, DELETED), finished=at, outcome=Outcome.DELETED
    )


def _new(workload: Workload) -> JobRecord:
    metadata = workload.metadata
    owners = metadata.owner_references or []
    owner = next((each for each in owners if each.controller), owners[0] if owners else None)
    created = metadata.creation_timestamp
    return JobRecord(
        uid=metadata.uid,
        namespace=metadata.namespace,
        workload=metadata.name,
        kind=owner.kind if owner is not None else "Workload",
        job=owner.name if owner is not None else metadata.name,
        queue=workload.spec.queue_name,
        user=metadata.annotation(AUTHOR),
        submitted=created.timestamp() if created is not None else 0.0,
    )


def _ran(
    record: JobRecord, workload: Workload, conditions: Mapping[str, Condition], now: float
) -> JobRecord:
    """Return the record with the run that the state shows."""
    admission, admitted = workload.status.admission, _true(conditions, "Admitted")
    if admission is None:
        return _evicted(record, conditions, now)
    if admitted is None:
        return record  # It waits for admission checks, or is about to stop.
    at, amounts = _time(admitted, now), held_amounts(workload)
    run = Run(at, at, admission.cluster_queue, amounts)
    running = record.running
    if running is not None and running.admitted == at:
        if running.amounts == amounts:
            return record
        record, run = _closed(record, now, RESIZED), msgspec.structs.replace(run, started=now)
    elif running is not None:
        # An eviction and another reservation were not observed.
        record = _evicted(record, conditions, now)
    return msgspec.structs.replace(record, runs=(*record.runs, run))


def _evicted(record: JobRecord, conditions: Mapping[str, Condition], now: float) -> JobRecord:
    """Return the record without a continuing run. Quota is held until QuotaReserved changes."""
    if record.running is None:
        return record
    released = conditions.get("QuotaReserved")
    evicted = _true(conditions, "Evicted")
    at = _time(released, now) if released is not None else now
    return _closed(record, at, evicted.reason if evicted is not None else EVICTED)


def _closed(record: JobRecord, at: float, ending: str) -> JobRecord:
    """Return the record with its continuing run ended, if there is one."""
    running = record.running
    if running is None:
        return record
    ended = msgspec.structs.replace(running, ended=max(at, running.started), ending=ending)
    return msgspec.structs.replace(record, runs=(*record.runs[:-1], ended))


def _true(conditions: Mapping[str, Condition], type_: str) -> Condition | None:
    found = conditions.get(type_)
    return found if found is not None and found.status == "True" else None


def _time(condition: Condition, now: float) -> float:
    at = condition.last_transition_time
    return at.timestamp() if at is not None else now
