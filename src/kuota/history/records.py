# SPDX-License-Identifier: Apache-2.0
"""The record of one job, derived from the states of its Workload. Pure.

A record depends only on the states that were observed, and recording a state twice changes nothing.
All times come from the Workload, so the moment of observation does not matter, with two exceptions:
the deletion of a Workload, and a change of its amounts while it runs, have no timestamp.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from enum import StrEnum

import msgspec

from kuota.api.adjust import adjusted_spec
from kuota.api.base import Condition, by_type
from kuota.api.core import AUTHOR
from kuota.api.quantity import QuantityError, amount
from kuota.api.resources import nanos, pod_requests
from kuota.api.workload import PREEMPTOR_UID, Workload
from kuota.bridge.held_amounts import HeldAmounts, held_amounts
from kuota.view.workload_state import uid_in


class RecordedOutcome(StrEnum):
    """How a job ended. A job without an outcome has not ended."""

    NONE = ""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    REPLACED = "Replaced"
    """Another Workload of the same job took over."""
    DELETED = "Deleted"


_OUTCOMES = {
    "Failed": RecordedOutcome.FAILED,
    "OutOfSync": RecordedOutcome.REPLACED,
    "OwnerNotFound": RecordedOutcome.DELETED,
    "WorkloadSliceReplaced": RecordedOutcome.REPLACED,
}
"""By the reason of the condition Finished; all other reasons mean success."""
FINISHED = "Finished"
RESIZED = "Resized"
DELETED = "Deleted"
EVICTED = "Evicted"
PREEMPTED = "Preempted"
PODS_READY_TIMEOUT = "PodsReadyTimeout"
MOST_LABELS = 64
"""How many labels of a job are recorded."""
MOST_RESOURCES = 64
"""How many resources that a job requests are recorded."""
_OWN_DOMAINS = ("kueue.x-k8s.io", "kuota.dev", "batch.kubernetes.io")
"""Labels of these domains describe how a job runs, not whom it runs for."""


class Run(msgspec.Struct, frozen=True):
    """A period in which a job held the same amounts. Times are in seconds since the epoch.

    `admitted` is the time of the admission that the run belongs to: earlier than `started` if the
    amounts have changed since. `ending` is FINISHED, RESIZED, DELETED, or the reason of the
    eviction, such as PREEMPTED. It is empty while the run continues. `ready` states whether all
    pods were ready at some time since the admission; None if the Workload does not report it.
    `preemptor` is the UID of the Workload that preempted this one, "" if it is unknown.
    """

    admitted: float
    started: float
    cluster_queue: str
    amounts: HeldAmounts
    ended: float | None = None
    ending: str = ""
    ready: bool | None = None
    preemptor: str = ""

    @property
    def preempted(self) -> bool:
        return self.ending == PREEMPTED

    def touches(self, since: float, until: float) -> bool:
        """Whether a part of the run, which may have no length, is within a period."""
        return self.started < until and (self.ended is None or self.ended >= since)


def is_lost(ending: str) -> bool:
    """Whether an eviction ended an admission. Work since the last checkpoint was lost."""
    return ending not in ("", FINISHED, RESIZED, DELETED)


class Interval(msgspec.Struct, frozen=True):
    """From `started` up to `ended`, which is None while it continues."""

    started: float
    ended: float | None = None


class JobRecord(msgspec.Struct, frozen=True):
    """What is known about one Workload and its job.

    `workload` and `job` are names; `user` is "" if unknown. Workloads of one job have the same
    `job_uid`. `requests` are the amounts that the job needs, by resource, and `held` the times in
    which it was deactivated, so that it did not wait for quota. `target` is the ClusterQueue of
    `queue`; it is not stored, but added by readers, for jobs that have not run.
    """

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
    outcome: RecordedOutcome = RecordedOutcome.NONE
    cause: str = ""
    job_uid: str = ""
    labels: dict[str, str] = {}
    requests: dict[str, int] = {}
    held: tuple[Interval, ...] = ()
    target: str = ""

    @property
    def cluster_queue(self) -> str:
        """The ClusterQueue of the last run, or where the job has waited; "" if it is unknown."""
        return self.runs[-1].cluster_queue if self.runs else self.target

    @property
    def job_id(self) -> str:
        """Identifies the job: equal for all Workloads of one job.

        Users may claim any owner, so Workloads of other namespaces and users are other jobs.
        """
        identity = self.namespace, self.job_uid or self.uid, self.user
        return msgspec.json.encode(identity).decode()

    @property
    def running(self) -> Run | None:
        """The run that continues; None if the job waits or has ended."""
        return self.runs[-1] if self.runs and self.runs[-1].ended is None else None

    def losses(self) -> Iterator[tuple[Run, bool]]:
        """Yield each run with whether it is lost: whether an eviction ended its admission.

        Every report of lost hours uses this definition.
        """
        return ((run, is_lost(ending)) for run, ending in self.endings())

    def endings(self) -> Iterator[tuple[Run, str]]:
        """Yield each run with how its admission ended: a change of amounts ends no admission.

        Runs of one admission are adjacent in `runs`.
        """
        following: Run | None = None
        ending = ""
        for run in reversed(self.runs):
            same = following is not None and following.admitted == run.admitted
            ending = ending if run.ending == RESIZED and same else run.ending
            following = run
            yield run, ending

    @property
    def begun(self) -> float:
        """When the job was submitted, or first ran, if clocks differ."""
        return min((self.submitted, *(each.started for each in self.runs)))

    @property
    def preemptions(self) -> int:
        return sum(each.preempted for each in self.runs)

    def waiting(self) -> Iterator[Interval]:
        """Yield the times between submission and end in which the job neither ran nor was held."""
        begin: float | None = self.submitted
        busy: list[Run | Interval] = [*self.runs, *self.held]
        for each in sorted(busy, key=lambda each: each.started):
            if begin is None:
                return
            if each.started > begin:
                yield Interval(begin, each.started)
            begin = None if each.ended is None else max(begin, each.ended)
        if begin is not None and (self.finished is None or self.finished > begin):
            yield Interval(begin, self.finished)

    def waited_ms(self, since: int, until: int) -> int:
        """Return how long the job waited within a period."""
        return sum(overlap_ms(each, since, until) for each in self.waiting())


def milliseconds(moment: float) -> int:
    """Return a time as an integer, so that sums of durations are exact."""
    return round(moment * 1000)


def overlap_ms(interval: Interval | Run, since: int, until: int) -> int:
    """Return how long an interval lasted within a period, which is in milliseconds."""
    end = until if interval.ended is None else min(milliseconds(interval.ended), until)
    return max(0, end - max(milliseconds(interval.started), since))


def recorded(known: JobRecord | None, workload: Workload, now: float) -> JobRecord:
    """Return the record after a state of the Workload was observed.

    `now` is used only for changes that have no timestamp.
    """
    if known is not None and known.finished is not None:
        return known
    record = _described(known or _new(workload), workload, now)
    conditions = by_type(workload.status.conditions)
    finished = _true(conditions, FINISHED)
    if finished is None or record.running is None:
        record = _ran(record, workload, conditions, now)
    record = _with_readiness(record, conditions)
    if finished is None:
        return record
    record = _closed(record, _time(finished, now), FINISHED)
    at = _after_runs(record, _time(finished, now))
    outcome = _OUTCOMES.get(finished.reason, RecordedOutcome.SUCCEEDED)
    cause = "" if outcome is RecordedOutcome.SUCCEEDED else finished.message
    return msgspec.structs.replace(record, finished=at, outcome=outcome, cause=cause)


def forgotten(record: JobRecord, workload: Workload | None, now: float) -> JobRecord:
    """Return the record after the Workload was deleted. Its last state may be unknown."""
    if workload is not None:
        record = recorded(record, workload, now)
    if record.finished is not None:
        return record
    deleted = workload.metadata.deletion_timestamp if workload is not None else None
    at = deleted.timestamp() if deleted is not None else now
    record = _closed(record, at, DELETED)
    at = _after_runs(record, at)
    return msgspec.structs.replace(record, finished=at, outcome=RecordedOutcome.DELETED)


def _after_runs(record: JobRecord, at: float) -> float:
    """Return the end of a job, which is no earlier than that of its last run.

    Clocks of different machines differ.
    """
    ended = record.runs[-1].ended if record.runs else None
    return at if ended is None else max(at, ended)


def _new(workload: Workload) -> JobRecord:
    metadata = workload.metadata
    owners = metadata.owner_references or []
    owner = next((each for each in owners if each.controller), None)
    created = metadata.creation_timestamp
    # The pods of a group own its Workload together, which has the name of the group.
    alone = owners[0].kind if owners else "Workload"
    return JobRecord(
        uid=metadata.uid,
        namespace=metadata.namespace,
        workload=metadata.name,
        kind=owner.kind if owner is not None else alone,
        job=owner.name if owner is not None else metadata.name,
        queue=workload.spec.queue_name,
        user=metadata.annotation(AUTHOR),
        submitted=created.timestamp() if created is not None else 0.0,
        job_uid=owner.uid if owner is not None else "",
    )


def _described(record: JobRecord, workload: Workload, now: float) -> JobRecord:
    """Return the record with what users may change at any time."""
    held = record.held
    inactive = workload.spec.active is False
    if inactive and (not held or held[-1].ended is not None):
        held = (*held, Interval(now))
    elif not inactive and held and held[-1].ended is None:
        held = (*held[:-1], Interval(held[-1].started, max(now, held[-1].started)))
    return msgspec.structs.replace(
        record,
        queue=workload.spec.queue_name,
        labels=_labels(workload),
        requests=_requests(workload, record.requests),
        held=held,
    )


def _labels(workload: Workload) -> dict[str, str]:
    """Return the labels of the Workload and of its pods, without those of Kubernetes itself."""
    found: dict[str, str] = {}
    for each in workload.spec.pod_sets or []:
        found = (each.template.metadata.labels or {}) | found
    found |= workload.metadata.labels or {}
    own = sorted(name for name in found if not _internal(name))
    return {name: found[name] for name in own[:MOST_LABELS]}


def _internal(label: str) -> bool:
    domain = label.rpartition("/")[0]
    ours = any(domain == each or domain.endswith(f".{each}") for each in _OWN_DOMAINS)
    return ours or label in ("controller-uid", "job-name")


def _requests(workload: Workload, known: dict[str, int]) -> dict[str, int]:
    """Return the amounts that all pods request; the known ones if they cannot be parsed.

    The status has what counts against quota, but only while the Workload waits.
    """
    found: Counter[str] = Counter()
    try:
        for asked in workload.status.resource_requests or []:
            for resource, nano in nanos(asked.resources).items():
                found[resource] += amount(nano, resource)
        for each in [] if found or known else workload.spec.pod_sets or []:
            for resource, nano in pod_requests(adjusted_spec(each.template.spec, {}, {})).items():
                found[resource] += amount(nano, resource) * each.count
    except QuantityError:
        return known
    wanted = sorted(resource for resource, amount_ in found.items() if amount_ > 0)
    return {resource: found[resource] for resource in wanted[:MOST_RESOURCES]} or known


def _with_readiness(record: JobRecord, conditions: Mapping[str, Condition]) -> JobRecord:
    """Return the record with whether the pods of its continuing run were ready at some time."""
    running, reported = record.running, conditions.get("PodsReady")
    if running is None or running.ready or reported is None:
        return record
    # The condition may still be that of an earlier run.
    ready = reported.status == "True" and _time(reported, 0.0) >= running.admitted
    if running.ready == ready:
        return record
    run = msgspec.structs.replace(running, ready=ready)
    return msgspec.structs.replace(record, runs=(*record.runs[:-1], run))


def _ran(
    record: JobRecord, workload: Workload, conditions: Mapping[str, Condition], now: float
) -> JobRecord:
    """Return the record with the run that the state shows."""
    admission, admitted = workload.status.admission, _true(conditions, "Admitted")
    if admission is None:
        return _evicted(record, workload, conditions, now)
    if admitted is None:
        return record  # It waits for admission checks, or is about to stop.
    at, amounts = _time(admitted, now), held_amounts(workload)
    run = Run(at, at, admission.cluster_queue, amounts)
    running = record.running
    if running is not None and running.admitted == at:
        if running.amounts == amounts:
            return record
        record = _closed(record, now, RESIZED)
        run = msgspec.structs.replace(run, started=max(now, running.started), ready=running.ready)
    elif running is not None:
        # An eviction and another reservation were not observed.
        record = _evicted(record, workload, conditions, now)
    return msgspec.structs.replace(record, runs=(*record.runs, run))


def _evicted(
    record: JobRecord, workload: Workload, conditions: Mapping[str, Condition], now: float
) -> JobRecord:
    """Return the record without a continuing run. Quota is held until QuotaReserved changes."""
    if record.running is None:
        return record
    released = conditions.get("QuotaReserved")
    evicted = _true(conditions, "Evicted")
    at = _time(released, now) if released is not None else now
    reason = evicted.reason if evicted is not None else EVICTED
    return _closed(record, at, reason, _preemptor(workload, evicted))


def _preemptor(workload: Workload, evicted: Condition | None) -> str:
    """Return the UID of the Workload that preempted this one; "" after any other eviction.

    Kueue writes it into the message, Kuota into an annotation, both before the quota is released.
    """
    if evicted is None or evicted.reason != PREEMPTED:
        return ""
    return uid_in(evicted.message) or workload.metadata.annotation(PREEMPTOR_UID)


def _closed(record: JobRecord, at: float, ending: str, preemptor: str = "") -> JobRecord:
    """Return the record with its continuing run ended, if there is one."""
    running = record.running
    if running is None:
        return record
    ended = msgspec.structs.replace(
        running, ended=max(at, running.started), ending=ending, preemptor=preemptor
    )
    return msgspec.structs.replace(record, runs=(*record.runs[:-1], ended))


def _true(conditions: Mapping[str, Condition], type_: str) -> Condition | None:
    found = conditions.get(type_)
    return found if found is not None and found.status == "True" else None


def _time(condition: Condition, now: float) -> float:
    at = condition.last_transition_time
    return at.timestamp() if at is not None else now
