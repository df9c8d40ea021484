# SPDX-License-Identifier: Apache-2.0
"""`kuota watch`: the full-screen interface on a terminal, and otherwise two tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from kuota.api.base import Json
from kuota.kube.errors import ApiError, Forbidden
from kuota.kube.requests import Selection, listing
from kuota.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS
from kuota.view.live import LiveQueue, LiveWorkload, queue_rows, workload_rows
from kuota.view.workload_state import OVER, LiveState, pods_by_owner

from .connect import Choice, conduct, server_options
from .job_objects import failed_pods
from .safe_console import SafeConsole
from .tables import LIVE_STYLES, print_parts

if TYPE_CHECKING:
    from .session import Session

_BOUNDLESS = 10_000
_NARROW = 100


@click.command("watch")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Show all namespaces.")
@click.option("--finished/--no-finished", default=True, help="Show finished jobs.")
@click.option("--once", is_flag=True, help="Print the tables once and exit.")
@server_options
def command(everywhere: bool, finished: bool, once: bool, choice: Choice) -> None:
    """Watch quota and jobs: which run, which wait, and why.

    On a terminal, it fills the screen: the cohort tree, all jobs, the pending jobs of a queue, one
    job with its timeline, and logs. The last line shows the keys, and ? shows all of them; q quits.
    Otherwise it prints two tables.

    Shows the workloads of all namespaces, or of the namespace given by -n. Users who may not read
    all namespaces see the workloads of their own namespace.

    \b
    Examples:
      kuota watch
      kuota watch --once --no-finished | head -20
    """

    async def work(session: Session) -> None:
        inside = session.namespace if choice.namespace and not everywhere else None
        if inside is None and not everywhere and not await _sees_all(session):
            inside = session.namespace
        if once or not sys.stdout.isatty():
            await print_once(session, inside, finished)
        else:
            from .screen.screen import Screen

            await Screen(session, inside, finished).run()

    conduct(choice, work)


async def _sees_all(session: Session) -> bool:
    try:
        await session.answer(listing(WORKLOADS, Selection(), limit=1))
    except Forbidden:
        return False
    return True


async def print_once(session: Session, where: str | None, finished: bool) -> None:
    """Print queues and workloads of a namespace; None means all namespaces."""
    queues = queue_rows((await session.client.list(CLUSTER_QUEUES)).items)
    workloads = await session.client.list(WORKLOADS, where)
    failed = pods_by_owner(await failed_pods(session, where))
    local_queues = await _local_queues(session, where)
    rows = workload_rows(workloads.items, datetime.now(UTC), failed, local_queues)
    shown = [each for each in rows if finished or each.state not in OVER]
    counts = {each: sum(row.state is each for row in rows) for each in LiveState}
    words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    noun = "workload" if len(rows) == 1 else "workloads"
    title = Text(f"{len(rows)} {noun}: {words}" if rows else "no workloads", style="bold")
    width = SafeConsole().width if sys.stdout.isatty() else None
    tables = (_queue_table(queues, width), "", _workload_table(shown, width))
    print_parts([Group(title, "", *tables)], _BOUNDLESS)


async def _local_queues(session: Session, where: str | None) -> list[Json]:
    """Return the LocalQueues; empty if they cannot be read."""
    try:
        return (await session.client.list(LOCAL_QUEUES, where)).items
    except ApiError:
        return []


def _table(*header: str, width: int | None, right: tuple[str, ...] = ()) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="dim",
        show_edge=False,
        # Otherwise a long last column would take the space of the others.
        expand=width is not None,
    )
    for each in header:
        last = each == header[-1]
        table.add_column(
            each,
            justify="right" if each in right else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if last else None,
        )
    return table


_QUEUE_NUMBERS = ("NOMINAL", "USED", "BORROWED", "WAITING", "RUNNING")
_QUEUE_HEADER = ("COHORT", "QUEUE", "FLAVOR", "RESOURCE", *_QUEUE_NUMBERS, "")


def _queue_table(rows: Sequence[LiveQueue], width: int | None) -> Table:
    """Return a table with one row per quota. Narrow screens omit empty columns."""
    cells = [line for row in rows for line in _queue_lines(row)]
    narrow = width is not None and width < _NARROW
    shown = [
        at
        for at, title in enumerate(_QUEUE_HEADER)
        if title in ("QUEUE", "WAITING", "RUNNING", "")
        or not narrow
        or any(line[at] for line in cells)
    ]
    header = [_QUEUE_HEADER[at] for at in shown]
    table = _table(*header, width=width, right=_QUEUE_NUMBERS)
    cohort = ""
    for line in cells:
        first, line[0] = line[0], "" if line[0] == cohort else line[0]
        cohort = first or cohort
        table.add_row(*(Text(line[at], style="red" if at == len(line) - 1 else "") for at in shown))
    return table


def _queue_lines(row: LiveQueue) -> Iterator[list[str]]:
    """Yield one row of cells per quota. Cells about the whole queue are in the first row only."""
    for index, quota in enumerate(row.quotas or [None]):
        amounts = [""] * 5
        if quota is not None:
            amounts = [quota.flavor, quota.resource, quota.nominal, quota.used, quota.borrowed]
        first = not index
        counts = [str(row.pending), str(row.admitted)] if first else ["", ""]
        names = [row.cohort, row.name] if first else ["", ""]
        yield [*names, *amounts, *counts, row.inactive if first else ""]


def _workload_table(rows: list[LiveWorkload], width: int | None) -> Table:
    """Return a table of the workloads. Narrow screens omit PRIORITY and PODS."""
    numbers = () if width is not None and width < _NARROW else ("PRIORITY", "PODS")
    words = ("WORKLOAD", "STATE", "QUEUE", *numbers, "AGE", "DETAILS")
    table = _table(*words, width=width, right=(*numbers, "AGE"))
    for row in rows:
        waiting = row.state is not LiveState.ADMITTED
        table.add_row(
            row.name,
            Text(str(row.state), style=LIVE_STYLES[row.state]),
            row.cluster_queue or f"({row.queue})",
            *((str(row.priority), str(row.pods)) if numbers else ()),
            row.age,
            " ".join((row.why if waiting else row.gets or row.why).split()),
        )
    return table
