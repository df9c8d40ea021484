# SPDX-License-Identifier: Apache-2.0
"""`kuota watch`: shows queues and workloads, continuously on a terminal and otherwise once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

import click
from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from kuota.api.base import Json
from kuota.failures import alongside
from kuota.kube.errors import Forbidden
from kuota.kube.informer import Informer
from kuota.kube.requests import Selection, listing
from kuota.kube.resources import CLUSTER_QUEUES, PODS, WORKLOADS
from kuota.view.live import LiveQueue, LiveWorkload, queue_rows, workload_rows
from kuota.view.workload_state import OVER, LiveState, pods_by_owner

from .connect import Choice, conduct, server_options
from .job_objects import FAILED_PHASE, JOB_NAME, failed_pods
from .safe_console import SafeConsole
from .tables import LIVE_STYLES, print_parts

if TYPE_CHECKING:
    from .session import Session

_BOUNDLESS = 10_000
_NARROW = 100
_TICK_S = 1.0
_CALM_S = 0.1
"""Minimum time between updates. Changes come in bursts, and the display would flicker."""
_FRAME_LINES = 8


@click.command("watch")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="In every namespace.")
@click.option("--finished/--no-finished", default=True, help="Show jobs that are over.")
@click.option("--once", is_flag=True, help="Print the tables once and exit.")
@server_options
def command(everywhere: bool, finished: bool, once: bool, choice: Choice) -> None:
    """Watch queues and workloads: which run, which wait, and why. Press q or Ctrl-C to quit.

    Shows the workloads of all namespaces, or of the namespace given by -n. Users who may not read
    all namespaces see the workloads of their own namespace.
    """

    async def work(session: Session) -> None:
        inside = session.namespace if choice.namespace and not everywhere else None
        if inside is None and not everywhere and not await _sees_all(session):
            inside = session.namespace
        view = LiveView(session, inside, finished)
        if once or not sys.stdout.isatty():
            await view.print_once()
        else:
            await view.run()

    conduct(choice, work)


async def _sees_all(session: Session) -> bool:

    try:
        await session.answer(listing(WORKLOADS, Selection(), limit=1))
    except Forbidden:
        return False
    return True


class _Objects(NamedTuple):
    """The objects to display."""

    queues: Iterable[Json]
    workloads: Iterable[Json]
    failed_pods: Iterable[Json]


class LiveView:
    """Displays the objects of informers. `where` is a namespace; None means all namespaces."""

    def __init__(self, session: Session, where: str | None, finished: bool) -> None:
        self._session = session
        self._where = where
        self._finished = finished
        self._queues: Informer[Json] = Informer(session.client, CLUSTER_QUEUES)
        self._workloads: Informer[Json] = Informer(session.client, WORKLOADS, where)
        self._failed: Informer[Json] = Informer(
            session.client, PODS, where, label_selector=JOB_NAME, field_selector=FAILED_PHASE
        )

    async def print_once(self) -> None:
        queues = await self._session.client.list(CLUSTER_QUEUES)
        workloads = await self._session.client.list(WORKLOADS, self._where)
        failed = await failed_pods(self._session, self._where)
        objects = _Objects(queues.items, workloads.items, failed)
        width = SafeConsole().width if sys.stdout.isatty() else None
        print_parts([self._drawn(objects, None, width)], _BOUNDLESS)

    async def run(self) -> None:
        """Update the display until the user quits."""
        changed, enough = asyncio.Event(), asyncio.Event()
        informers = (self._queues, self._workloads, self._failed)
        for each in informers:
            each.observe(lambda old, new: changed.set())
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, enough.set)
        try:
            async with alongside(*(each.run() for each in informers)):
                await self._draw(changed, enough)
        finally:
            loop.remove_signal_handler(signal.SIGINT)

    async def _draw(self, changed: asyncio.Event, enough: asyncio.Event) -> None:
        with _keys(enough), Live(console=SafeConsole(), screen=True, auto_refresh=False) as live:
            while not enough.is_set():
                changed.clear()
                live.update(self._frame(live.console), refresh=True)
                await _first(changed, enough)
                await asyncio.sleep(_CALM_S)

    def _frame(self, console: Console) -> RenderableType:
        error = self._queues.error or self._workloads.error
        if error is None and not self._workloads.synced.is_set():
            return Text("asking the server ...", style="dim")
        objects = _Objects(self._queues.values(), self._workloads.values(), self._failed.values())
        body = self._drawn(objects, console.height, console.width)
        last = f"the server does not answer: {error}" if error else "q: quit"
        return Group(body, "", Text(last, style="red" if error else "dim"))

    def _drawn(self, objects: _Objects, height: int | None, width: int | None) -> RenderableType:
        """Return the tables. Without a height or width, nothing is truncated."""
        now = datetime.now(UTC)
        quota = queue_rows(objects.queues)
        rows = workload_rows(objects.workloads, now, pods_by_owner(objects.failed_pods))
        shown = [each for each in rows if self._finished or each.state not in OVER]
        room = None
        if height is not None:
            used = sum(max(1, len(each.quotas)) for each in quota)
            room = max(3, height - used - _FRAME_LINES)
        counts = {each: sum(row.state is each for row in rows) for each in LiveState}
        words = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        noun = "workload" if len(rows) == 1 else "workloads"
        title = Text(f"{len(rows)} {noun}: {words}" if rows else "no workloads", style="bold")
        return Group(title, "", _queue_table(quota, width), "", _workload_table(shown, room, width))


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


def _workload_table(rows: list[LiveWorkload], room: int | None, width: int | None) -> Table:
    """Return a table of the workloads that fit. Narrow screens omit PRIORITY and PODS."""
    numbers = () if width is not None and width < _NARROW else ("PRIORITY", "PODS")
    words = ("WORKLOAD", "STATE", "QUEUE", *numbers, "AGE", "DETAILS")
    table = _table(*words, width=width, right=(*numbers, "AGE"))
    for row in rows[:room]:
        waiting = row.state is not LiveState.ADMITTED
        table.add_row(
            row.name,
            Text(str(row.state), style=LIVE_STYLES[row.state]),
            row.cluster_queue or f"({row.queue})",
            *((str(row.priority), str(row.pods)) if numbers else ()),
            row.age,
            " ".join((row.why if waiting else row.gets or row.why).split()),
        )
    if room is not None and len(rows) > room:
        table.add_row(f"and {len(rows) - room} more", style="dim")
    return table


async def _first(*events: asyncio.Event) -> None:
    """Wait for the first event, or until the displayed times are outdated."""
    tasks = [asyncio.create_task(each.wait()) for each in events]
    await asyncio.wait(tasks, timeout=_TICK_S, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


@contextmanager
def _keys(enough: asyncio.Event) -> Iterator[None]:
    """Set `enough` when q is pressed. Other keys are ignored and not echoed."""
    if not sys.stdin.isatty():
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    loop = asyncio.get_running_loop()

    def pressed() -> None:
        if os.read(descriptor, 1) in (b"q", b"Q", b""):
            enough.set()

    tty.setcbreak(descriptor)
    loop.add_reader(descriptor, pressed)
    try:
        yield
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
