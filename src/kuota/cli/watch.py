# SPDX-License-Identifier: Apache-2.0
"""`kuota watch`: queues and workloads as they change. Without a terminal, as they are."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

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
from kuota.kube.resources import CLUSTER_QUEUES, WORKLOADS
from kuota.view.live import LiveQueue, LiveWorkload, queue_rows, workload_rows
from kuota.view.plan import State

from .connect import Choice, conduct, server_options
from .tables import STYLES, print_parts

if TYPE_CHECKING:
    from .session import Session

_BOUNDLESS = 10_000
_NARROW = 100
_TICK_S = 1.0
_CALM_S = 0.1
"""Changes come in bursts; drawing them one by one would only flicker."""
_FRAME_LINES = 8


@click.command("watch")
@click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="In every namespace.")
@click.option("--finished/--no-finished", default=True, help="Whether to show what is over.")
@click.option("--once", is_flag=True, help="Show it once, and return.")
@server_options
def command(everywhere: bool, finished: bool, once: bool, choice: Choice) -> None:
    """Watch queues and workloads: who runs, who waits, and why. q or Ctrl-C ends it.

    Workloads of all namespaces are shown unless -n names one; those of your own where you may not
    see the others.
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


class LiveView:
    """Two informers and what they look like. `where` is a namespace, None for all."""

    def __init__(self, session: Session, where: str | None, finished: bool) -> None:
        self._session = session
        self._where = where
        self._finished = finished
        self._queues: Informer[Json] = Informer(session.client, CLUSTER_QUEUES)
        self._workloads: Informer[Json] = Informer(session.client, WORKLOADS, where)

    async def print_once(self) -> None:
        queues = await self._session.client.list(CLUSTER_QUEUES)
        workloads = await self._session.client.list(WORKLOADS, self._where)
        width = Console().width if sys.stdout.isatty() else None
        print_parts([self._drawn(queues.items, workloads.items, None, width)], _BOUNDLESS)

    async def run(self) -> None:
        """Draw until the user has seen enough."""
        changed, enough = asyncio.Event(), asyncio.Event()
        informers = (self._queues, self._workloads)
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
        with _keys(enough), Live(screen=True, auto_refresh=False) as live:
            while not enough.is_set():
                changed.clear()
                live.update(self._frame(live.console), refresh=True)
                await _first(changed, enough)
                await asyncio.sleep(_CALM_S)

    def _frame(self, console: Console) -> RenderableType:
        error = self._queues.error or self._workloads.error
        if error is None and not self._workloads.synced.is_set():
            return Text("asking the server ...", style="dim")
        queues, workloads = self._queues.values(), self._workloads.values()
        body = self._drawn(queues, workloads, console.height, console.width)
        last = f"the server does not answer: {error}" if error else "q: quit"
        return Group(body, "", Text(last, style="red" if error else "dim"))

    def _drawn(
        self,
        queues: Iterable[Json],
        workloads: Iterable[Json],
        height: int | None,
        width: int | None,
    ) -> RenderableType:
        """The picture; without a height or a width there is room for everything."""
        now = datetime.now(UTC)
        quota = queue_rows(queues)
        rows = workload_rows(workloads, now)
        shown = [each for each in rows if self._finished or each.state is not State.FINISHED]
        room = None
        if height is not None:
            used = sum(max(1, len(each.quotas)) for each in quota)
            room = max(3, height - used - _FRAME_LINES)
        counts = {each: sum(row.state is each for row in rows) for each in State}
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
        # Else the last column, which may be long, would take the room of the others.
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


def _queue_table(rows: Iterable[LiveQueue], width: int | None) -> Table:
    numbers = ("NOMINAL", "USED", "BORROWED", "WAITING", "RUNNING")
    words = ("COHORT", "QUEUE", "FLAVOR", "RESOURCE")
    table = _table(*words, *numbers, "", width=width, right=numbers)
    cohort: str | None = None
    for row in rows:
        for index, quota in enumerate(row.quotas or [None]):
            first = not index
            cells = (
                [quota.flavor, quota.resource, quota.nominal, quota.used, quota.borrowed]
                if quota is not None
                else ["", "", "", "", ""]
            )
            table.add_row(
                row.cohort if first and row.cohort != cohort else "",
                row.name if first else "",
                *cells,
                str(row.pending) if first else "",
                str(row.admitted) if first else "",
                Text(row.inactive if first else "", style="red"),
            )
        cohort = row.cohort
    return table


def _workload_table(rows: list[LiveWorkload], room: int | None, width: int | None) -> Table:
    """A line for each that there is room for. A narrow screen has none for lesser numbers."""
    numbers = () if width is not None and width < _NARROW else ("PRIORITY", "PODS")
    words = ("WORKLOAD", "STATE", "QUEUE", *numbers, "AGE", "GETS, OR WHY NOT")
    table = _table(*words, width=width, right=(*numbers, "AGE"))
    for row in rows[:room]:
        waiting = row.state is not State.ADMITTED
        table.add_row(
            row.name,
            Text(str(row.state), style=STYLES[row.state]),
            row.cluster_queue or f"({row.queue})",
            *((str(row.priority), str(row.pods)) if numbers else ()),
            row.age,
            " ".join((row.why if waiting else row.gets or row.why).split()),
        )
    if room is not None and len(rows) > room:
        table.add_row(f"and {len(rows) - room} more", style="dim")
    return table


async def _first(*events: asyncio.Event) -> None:
    """Return at the first event, or when the times on the screen have to move on."""
    tasks = [asyncio.create_task(each.wait()) for each in events]
    await asyncio.wait(tasks, timeout=_TICK_S, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


@contextmanager
def _keys(enough: asyncio.Event) -> Iterator[None]:
    """Set `enough` when q is pressed. Other keys do nothing, and are not shown."""
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
