# SPDX-License-Identifier: Apache-2.0
"""The timeline of a plan: one line per workload and instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from kuota.api.base import Key
from kuota.api.config.duration import SECOND, Duration
from kuota.engine.explanation import Explanation
from kuota.engine.model import Instant, Struct
from kuota.engine.reasons import PreemptionReason

from .loans import Loan
from .plan import TimelineRow
from .words import TAKES, Naming, loans_text, several, why_text


class TimelineEventType(StrEnum):
    ARRIVED = "Arrived"
    ADMITTED = "Admitted"
    RESERVED = "QuotaReserved"
    PREEMPTED = "Preempted"
    EVICTED = "Evicted"
    FINISHED = "Finished"


class TimelineEvent(Struct):
    """An event of a workload. `by` and `reason` name the preemptor and the reason.

    `why` is the reason why a submitted workload had to wait.
    """

    at: Instant
    what: TimelineEventType
    workload: Key
    by: Key | None = None
    reason: PreemptionReason | None = None
    why: Explanation | None = None


def timeline(
    events: Sequence[TimelineEvent], borrowed: Mapping[Instant, list[Loan]], named: Naming = str
) -> list[TimelineRow]:
    """Return the lines in order; empty if all events are simultaneous and nothing was preempted."""
    later = any(each.at > 0 for each in events)
    if not later and not any(each.what is TimelineEventType.PREEMPTED for each in events):
        return []
    rows = []
    for at in dict.fromkeys(each.at for each in events):
        here = [each for each in events if each.at == at]
        for key in dict.fromkeys(each.workload for each in here):
            rows.append(_row(at, key, here, borrowed.get(at, []), named))
    return rows


def _row(
    at: Instant, key: Key, here: Sequence[TimelineEvent], borrowed: Sequence[Loan], named: Naming
) -> TimelineRow:
    own = [each for each in here if each.workload == key]
    own_loans = [each for each in borrowed if each.workload == key]
    clauses = list(dict.fromkeys(_clauses(key, here, own_loans, named)))
    return TimelineRow(
        at_s=at,
        time=clock(at),
        workload=named(key),
        events=[each.what for each in own],
        text=several(clauses, most=len(clauses)),
    )


def _clauses(
    key: Key, here: Sequence[TimelineEvent], borrowed: Sequence[Loan], named: Naming
) -> Iterator[str]:
    victims = [each for each in here if each.by == key and each.what is TimelineEventType.PREEMPTED]
    own = [each for each in here if each.workload == key]
    whats = {each.what for each in own}
    if TimelineEventType.FINISHED in whats:
        yield "finishes"
    if TimelineEventType.ARRIVED in whats:
        yield "arrives"
    if victims:
        names = dict.fromkeys(named(each.workload) for each in victims)
        yield f"preempts {several(names)}"
    if TimelineEventType.ADMITTED in whats:
        yield f"is admitted{loans_text(borrowed)}"
    if TimelineEventType.RESERVED in whats:
        yield f"gets its quota reserved{loans_text(borrowed)}"
    for each in own:
        if each.what is TimelineEventType.PREEMPTED and each.by is not None:
            reason = f", {TAKES[each.reason]}" if each.reason is not None else ""
            yield f"is preempted by {named(each.by)}{reason}"
        elif each.what is TimelineEventType.EVICTED:
            yield f"is evicted{f' for {named(each.by)}' if each.by is not None else ''}"
    if own[-1].what is TimelineEventType.ARRIVED:
        why = own[-1].why
        yield f"waits: {why_text(why, named)}" if why is not None and why.tried else "waits"


def clock(at: Instant) -> str:
    """Format seconds as a duration: "0s", "1m30s", "2h"."""
    whole = str(Duration(round(at * SECOND)))
    whole = whole.removesuffix("0s") if whole.endswith("m0s") else whole
    return whole.removesuffix("0m") if whole.endswith("h0m") else whole
