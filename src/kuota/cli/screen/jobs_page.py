# SPDX-License-Identifier: Apache-2.0
"""The pages Jobs and Queue: workloads with their state and why they wait. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial

from rich.text import Text

from kuota.dashboard.shapes import WorkloadRow
from kuota.view.live import age
from kuota.view.workload_state import OVER, LiveState

from ..tables import LIVE_STYLES
from .content import WIDE, Cells, ScreenColumn, ScreenContent, ScreenRow
from .navigation import Navigation, Order

_STATE, _AGE, _WHY = (
    ScreenColumn("STATE"),
    ScreenColumn("AGE", right=True),
    ScreenColumn("DETAILS", fills=True),
)
_PRIORITY = ScreenColumn("PRIORITY", right=True, least=WIDE)
JOB_COLUMNS = (
    *(ScreenColumn("JOB"), ScreenColumn("KIND", least=WIDE), _STATE, ScreenColumn("QUEUE")),
    *(_PRIORITY, ScreenColumn("USER", least=WIDE), _AGE, _WHY),
)
QUEUE_COLUMNS = (
    ScreenColumn("POSITION", right=True),
    ScreenColumn("JOB"),
    _STATE,
    _PRIORITY,
    _AGE,
    _WHY,
)

_RANKS = {LiveState.ADMITTED: 0, LiveState.QUOTARESERVED: 1}
_ORDERS: dict[Order, Callable[[WorkloadRow], tuple[object, ...]]] = {
    Order.STATE: lambda row: (_rank(row.state), -row.priority, row.created),
    Order.NAME: lambda row: (),
    Order.QUEUE: lambda row: (row.cluster_queue, row.queue, row.order or "~"),
    Order.PRIORITY: lambda row: (-row.priority, row.created),
    Order.AGE: lambda row: (row.created,),
}


def jobs_content(rows: Iterable[WorkloadRow], nav: Navigation, now: datetime) -> ScreenContent:
    """Return the page Jobs, with the filter and in the order of the user."""
    known = [row for row in rows if nav.finished or row.state not in OVER]
    shown = [row for row in known if _matches(row, nav.filter)]
    shown.sort(key=lambda row: (*_ORDERS[nav.order](row), row.key), reverse=nav.reverse)
    counts = Counter(row.state for row in known)
    words = ", ".join(f"{counts[each]} {each}" for each in LiveState if counts[each])
    title = Text(f"Jobs  {words}", style="bold")
    title.append(f"  by {nav.order}{', reversed' if nav.reverse else ''}", style="dim")
    empty = "No job matches the filter." if known else "There are no jobs."
    return ScreenContent(
        title, JOB_COLUMNS, [ScreenRow(partial(_job, row, now), row.key) for row in shown], empty
    )


def queue_content(
    name: str, rows: Iterable[WorkloadRow], filter: str, now: datetime, hidden: int
) -> ScreenContent:
    """Return the page of a ClusterQueue: its pending workloads in order.

    `hidden` are pending workloads that the user may not see, so that positions are unknown.
    """
    pending = sorted(
        (row for row in rows if row.cluster_queue == name and row.order), key=lambda row: row.order
    )
    shown = [
        ScreenRow(partial(_pending, "-" if hidden else str(at), row, now), row.key)
        for at, row in enumerate(pending, start=1)
        if _matches(row, filter)
    ]
    title = Text(f"ClusterQueue {name}", style="bold")
    title.append(f"  {len(pending) + hidden} pending, in the order of the scheduler", style="dim")
    if hidden:
        title.append(f"; you may not see {hidden} of them", style="dim")
    return ScreenContent(title, QUEUE_COLUMNS, shown, "No workload is pending here.")


def _rank(state: LiveState) -> int:
    return 3 if state in OVER else _RANKS.get(state, 2)


def _matches(row: WorkloadRow, filter: str) -> bool:
    """Whether all words of the filter occur in the row."""
    if not filter:
        return True
    fields = (row.key, row.job, row.kind, row.state, row.queue, row.cluster_queue, row.user)
    text = " ".join((*fields, row.priority_class, row.why, row.gets or row.requests)).lower()
    return all(word in text for word in filter.lower().split())


def _job(row: WorkloadRow, now: datetime) -> Cells:
    return [
        f"{row.namespace}/{row.job}",
        row.kind,
        Text(str(row.state), style=LIVE_STYLES[row.state]),
        row.cluster_queue or f"({row.queue})",
        str(row.priority),
        row.user,
        age(row.created, now),
        details(row),
    ]


def _pending(position: str, row: WorkloadRow, now: datetime) -> Cells:
    state = Text(str(row.state), style=LIVE_STYLES[row.state])
    name = f"{row.namespace}/{row.job}"
    return [position, name, state, str(row.priority), age(row.created, now), details(row)]


def details(row: WorkloadRow) -> str:
    """Return what an admitted workload has, and why another one waits or how it ended."""
    words = row.gets or row.why if row.state is LiveState.ADMITTED else row.why
    return " ".join(words.split())
