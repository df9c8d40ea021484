# SPDX-License-Identifier: Apache-2.0
"""What happened to a workload, from its conditions, its history and its Events. Pure.

Conditions only record the last time that something happened, Events expire, and the history of a
job knows only its runs. The timeline merges all three: entries of the same step within a few
seconds of each other are the same occurrence.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from kuota.api.base import Json
from kuota.engine.reasons import WaitReason
from kuota.history.job_rows import JobRow, RunRow
from kuota.history.records import DELETED, FINISHED, PREEMPTED, RESIZED
from kuota.view.conditions import condition, holds, message
from kuota.view.events import occurred, occurrences
from kuota.view.live import gets, moment
from kuota.view.observed import ObservedState
from kuota.view.workload_state import preemptor_uid, uid_in

from ..shapes import TimelineEntry, TimelineStep
from .rows import workload_ref

_SAME_S = 3.0
"""Entries of one step within this time are the same occurrence."""
_ORDER = (
    *(
        TimelineStep.SUBMITTED,
        TimelineStep.HELD,
        TimelineStep.RELEASED,
        TimelineStep.PRIORITY,
        TimelineStep.RESERVED,
        TimelineStep.CHECK,
    ),
    *(
        TimelineStep.ADMITTED,
        TimelineStep.RESUMED,
        TimelineStep.RESIZED,
        TimelineStep.PODS_READY,
        TimelineStep.PREEMPTED,
        TimelineStep.EVICTED,
    ),
    *(
        TimelineStep.REQUEUED,
        TimelineStep.WAITING,
        TimelineStep.OTHER,
        TimelineStep.FINISHED,
        TimelineStep.FAILED,
    ),
)
"""The order of entries in one second, where times do not tell it."""
_EVENTS = {
    "QuotaReserved": TimelineStep.RESERVED,
    "Admitted": TimelineStep.ADMITTED,
    "Preempted": TimelineStep.PREEMPTED,
    "EvictedDueToPreempted": TimelineStep.PREEMPTED,
    "Pending": TimelineStep.WAITING,
    **dict.fromkeys(map(str, WaitReason), TimelineStep.WAITING),
    "Held": TimelineStep.HELD,
    "Released": TimelineStep.RELEASED,
    "PriorityChanged": TimelineStep.PRIORITY,
}
_BY_USER = re.compile(r" by user (.+)$")
_ACTIONS = (TimelineStep.HELD, TimelineStep.RELEASED, TimelineStep.PRIORITY)


def timeline(
    workload: Json,
    observed: ObservedState,
    events: Iterable[Json] = (),
    past: JobRow | None = None,
) -> list[TimelineEntry]:
    """Return the entries in order of time.

    `events` are those of the Workload, and `past` is what the history has about it.
    """
    found = [
        *_conditions(workload),
        *(_past(past, observed) if past is not None else ()),
        *_events(events),
    ]
    merged: list[TimelineEntry] = []
    for each in found:
        _merge(merged, each)
    ordered = list(_waits(_in_order(merged)))
    return list(_resumed(_with_preemptors(ordered, workload, observed)))


def _merge(known: list[TimelineEntry], entry: TimelineEntry) -> None:
    """Add an entry, or complete the one that stands for the same occurrence."""
    for at, other in enumerate(known if entry.step is not TimelineStep.WAITING else ()):
        if other.step is entry.step and abs(_instant(other) - _instant(entry)) <= _SAME_S:
            known[at] = msgspec.structs.replace(
                other,
                time=entry.time if _is_whole(other) else other.time,
                where=other.where or entry.where,
                user=other.user or entry.user,
                by=other.by or entry.by,
                count=max(other.count, entry.count),
            )
            return
    known.append(entry)


def _instant(entry: TimelineEntry) -> float:
    at = moment(entry.time)
    return at.timestamp() if at is not None else 0.0


def _is_whole(entry: TimelineEntry) -> bool:
    """Whether the time has no fraction of a second: that of a condition, or of the history."""
    return _instant(entry).is_integer()


def _in_order(entries: Iterable[TimelineEntry]) -> list[TimelineEntry]:
    """Return the entries by time. One without a fraction of a second has a usual place in it."""
    found: list[TimelineEntry] = []
    for each in sorted(entries, key=lambda each: (_is_whole(each), _instant(each), _rank(each))):
        at = len(found)
        while at and _precedes(each, found[at - 1]):
            at -= 1
        found.insert(at, each)
    return found


def _rank(entry: TimelineEntry) -> int:
    return _ORDER.index(entry.step)


def _precedes(entry: TimelineEntry, other: TimelineEntry) -> bool:
    second, others = int(_instant(entry)), int(_instant(other))
    if second != others or not _is_whole(entry):
        return _instant(entry) < _instant(other)
    return _rank(entry) < _rank(other)


def _waits(entries: Iterable[TimelineEntry]) -> Iterator[TimelineEntry]:
    """Yield each wait once: since when, and what it waited for in the end."""
    last: TimelineEntry | None = None
    for each in entries:
        if last is not None and last.step is each.step is TimelineStep.WAITING:
            last = msgspec.structs.replace(last, text=each.text, reason=each.reason)
            continue
        if last is not None:
            yield last
        last = each
    if last is not None:
        yield last


def _conditions(workload: Json) -> Iterator[TimelineEntry]:
    created = str(workload["metadata"].get("creationTimestamp") or "")
    queue = (workload.get("spec") or {}).get("queueName")
    where = f" to LocalQueue {queue}" if queue else ""
    yield TimelineEntry(time=created, step=TimelineStep.SUBMITTED, text=f"submitted{where}")
    yield from _progress(workload)
    for each in (workload.get("status") or {}).get("admissionChecks") or ():
        if each.get("lastTransitionTime") and each.get("state") != "Pending":
            words = ": ".join(
                filter(None, (f"{each.get('name')} is {each.get('state')}", each.get("message")))
            )
            yield TimelineEntry(
                time=str(each["lastTransitionTime"]), step=TimelineStep.CHECK, text=words
            )


def _progress(workload: Json) -> Iterator[TimelineEntry]:
    queue = str(((workload.get("status") or {}).get("admission") or {}).get("clusterQueue") or "")
    if holds(workload, "QuotaReserved"):
        yield _entry(
            workload, "QuotaReserved", TimelineStep.RESERVED, f"quota reserved in {queue}", queue
        )
    elif message(workload, "QuotaReserved") and not holds(workload, "Finished"):
        words = message(workload, "QuotaReserved")
        yield _entry(workload, "QuotaReserved", TimelineStep.WAITING, f"waits: {words}")
    if holds(workload, "Admitted"):
        given = gets(workload)
        words = f"admitted by {queue}: {given}" if given else f"admitted by {queue}"
        yield _entry(workload, "Admitted", TimelineStep.ADMITTED, words, queue)
    if holds(workload, "PodsReady"):
        yield _entry(workload, "PodsReady", TimelineStep.PODS_READY, "all pods are ready")
    if holds(workload, "Evicted"):
        preempted = (condition(workload, "Evicted") or {}).get("reason") == PREEMPTED
        step = TimelineStep.PREEMPTED if preempted else TimelineStep.EVICTED
        yield _entry(workload, "Evicted", step, message(workload, "Evicted"))
    if holds(workload, "Requeued") and holds(workload, "Evicted"):
        yield _entry(workload, "Requeued", TimelineStep.REQUEUED, "queued again")
    if holds(workload, "Finished"):
        failed = (condition(workload, "Finished") or {}).get("reason") == "Failed"
        step = TimelineStep.FAILED if failed else TimelineStep.FINISHED
        yield _entry(workload, "Finished", step, message(workload, "Finished"))


def _entry(
    workload: Json, kind: str, step: TimelineStep, text: str, where: str = ""
) -> TimelineEntry:
    found = condition(workload, kind) or {}
    return TimelineEntry(
        time=str(found.get("lastTransitionTime") or ""),
        step=step,
        text=text,
        reason=str(found.get("reason") or ""),
        where=where,
    )


def _past(past: JobRow, observed: ObservedState) -> Iterator[TimelineEntry]:
    """Yield the past runs of a job, and its end."""
    for run in past.runs:
        queue = run.cluster_queue
        if run.started == run.admitted:
            words = f"admitted by {queue}"
            yield _at(run.admitted, TimelineStep.ADMITTED, words, where=queue)
        else:
            yield _at(run.started, TimelineStep.RESIZED, "its amounts changed", where=queue)
        if run.ended and run.ending not in (FINISHED, RESIZED, DELETED):
            yield _stopped(run, observed)
    for each in past.held:
        yield _at(each.started, TimelineStep.HELD, "held")
        if each.ended:
            yield _at(each.ended, TimelineStep.RELEASED, "released")
    if past.finished:
        failed = past.outcome == "Failed"
        words = ": ".join(filter(None, (past.outcome.lower(), past.cause)))
        yield _at(past.finished, TimelineStep.FAILED if failed else TimelineStep.FINISHED, words)


def _stopped(run: RunRow, observed: ObservedState) -> TimelineEntry:
    if run.ending == PREEMPTED:
        entry = _at(run.ended, TimelineStep.PREEMPTED, "preempted", reason=run.ending)
        by = observed.workload_by_uid(run.preemptor_uid)
        return entry if by is None else msgspec.structs.replace(entry, by=workload_ref(by))
    return _at(run.ended, TimelineStep.EVICTED, f"evicted ({run.ending})", reason=run.ending)


def _at(
    time: str, step: TimelineStep, text: str, *, reason: str = "", where: str = ""
) -> TimelineEntry:
    return TimelineEntry(time=time, step=step, text=text, reason=reason, where=where)


def _events(events: Iterable[Json]) -> Iterator[TimelineEntry]:
    for each in events:
        reason, words = str(each.get("reason") or ""), str(each.get("message") or "")
        step = _EVENTS.get(reason)
        if step is None and reason.startswith("EvictedDueTo"):
            step = TimelineStep.EVICTED
        if step is None:
            continue
        user = _BY_USER.search(words) if step in _ACTIONS else None
        yield TimelineEntry(
            time=occurred(each),
            step=step,
            text=f"waits: {words}" if step is TimelineStep.WAITING else words,
            reason=reason,
            user=user[1] if user is not None else "",
            count=1 if step is TimelineStep.WAITING else occurrences(each),
        )


def _with_preemptors(
    entries: list[TimelineEntry], workload: Json, observed: ObservedState
) -> list[TimelineEntry]:
    """Name the preemptors that the history did not. The Workload records only the last one."""
    found, last = list(entries), preemptor_uid(workload)
    for at in range(len(found) - 1, -1, -1):
        if found[at].step is TimelineStep.PREEMPTED:
            by = observed.workload_by_uid(uid_in(found[at].text) or last)
            if by is not None and found[at].by is None:
                found[at] = msgspec.structs.replace(found[at], by=workload_ref(by))
            last = ""
    return found


def _resumed(entries: Iterable[TimelineEntry]) -> Iterator[TimelineEntry]:
    """Call an admission after an eviction a resumption."""
    stopped = False
    for each in entries:
        if each.step is TimelineStep.ADMITTED and stopped:
            stopped = False
            each = msgspec.structs.replace(each, step=TimelineStep.RESUMED)
        elif each.step in (TimelineStep.PREEMPTED, TimelineStep.EVICTED):
            stopped = True
        yield each
