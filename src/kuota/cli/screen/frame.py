# SPDX-License-Identifier: Apache-2.0
"""Draws a page into the size of the terminal: title, visible rows, filter and keys. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from .content import ScreenColumn, ScreenContent, ScreenRow
from .navigation import FILTERED, Navigation, ScreenPage

_HEAD, _FOOT = 2, 2
"""Lines above and below the rows: title and empty line; status and keys."""
_COLUMN_HEAD = 2
_WIDEST = 24
"""A column may always have this width. A wider one leaves two thirds of the screen to the rest."""
_KEYS = {
    ScreenPage.QUOTA: "Enter: queue  /: filter  2: jobs",
    ScreenPage.JOBS: "Enter: job  /: filter  s: sort  r: reverse  f: finished  1: quota",
    ScreenPage.QUEUE: "Enter: job  /: filter  Esc: back",
    ScreenPage.JOB: "Enter or l: log  Esc: back",
    ScreenPage.LOG: "/: filter  G: follow the end  Esc: back",
    ScreenPage.HELP: "Esc: back",
}
HELP = (
    ("1  2", "quota, jobs"),
    ("↑ ↓  j k", "move"),
    ("PgUp PgDn  Ctrl-U Ctrl-D", "move by a screen"),
    ("Home End  g G", "first and last row; in a log, G follows its end"),
    ("Enter  →", "open the queue, the job, or the log of the pod"),
    ("Esc  ←", "clear the filter, or go back"),
    ("/", "filter: rows that contain all words"),
    ("s  r", "sort jobs by state, name, queue, priority or age; reverse"),
    ("f", "show or hide finished jobs"),
    ("l", "the log of the selected pod, or of the last one"),
    ("?", "this page"),
    ("q  Ctrl-C", "quit"),
)


def help_content() -> ScreenContent:
    columns = (ScreenColumn("KEYS"), ScreenColumn("", fills=True))
    return ScreenContent(Text("Keys", style="bold"), columns, [ScreenRow(each) for each in HELP])


def body_height(height: int, content: ScreenContent) -> int:
    """Return how many rows fit."""
    head = _COLUMN_HEAD if any(each.title for each in content.columns) else 0
    return max(1, height - _HEAD - _FOOT - head)


def frame(
    content: ScreenContent, nav: Navigation, width: int, height: int, error: str
) -> RenderableType:
    """Return the whole screen. Moves the selection so that it is visible."""
    room = body_height(height, content)
    ids = [each.id for each in content.rows]
    if content.last and nav.at_end:
        nav.selection.move_to(len(ids), ids)
    else:
        nav.selection.follow(ids)
    nav.selection.scroll(room, len(ids))
    body: RenderableType = Text(content.empty, style="dim")
    if content.rows:
        body = _table(content, nav, room, width)
    used = min(len(content.rows), room) or 1
    blank = Text("\n" * max(0, room - used - 1)) if room > used else ""
    return Group(
        _title(content, nav, width),
        "",
        body,
        *([blank] if blank else []),
        *_foot(nav, error, width),
    )


def _title(content: ScreenContent, nav: Navigation, width: int) -> Text:
    title = content.title.copy()
    count = len(content.rows)
    if count and nav.page is not ScreenPage.JOB:
        title.append(f"  {nav.selection.index + 1}/{count}", style="dim")
    title.truncate(width, overflow="ellipsis")
    return title


def _foot(nav: Navigation, error: str, width: int) -> Sequence[Text]:
    if error:
        status = Text(f"the server does not answer: {error}", style="red")
    elif nav.editing or (nav.filter and nav.page in FILTERED):
        status = Text(f"/{nav.filter}{'▏' if nav.editing else ''}", style="yellow")
    else:
        status = Text("")
    keys = "Enter: apply  Esc: clear" if nav.editing else f"{_KEYS[nav.page]}  ?: keys  q: quit"
    lines = (status, Text(keys, style="dim"))
    for each in lines:
        each.truncate(width, overflow="ellipsis")
    return lines


def _table(content: ScreenContent, nav: Navigation, room: int, width: int) -> Table:
    shown = [at for at, each in enumerate(content.columns) if width >= each.least]
    columns = [content.columns[at] for at in shown]
    table = Table(
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="dim",
        show_edge=False,
        show_header=any(each.title for each in columns),
        expand=True,
    )
    for each in columns:
        table.add_column(
            each.title,
            justify="right" if each.right else "left",
            no_wrap=True,
            overflow="ellipsis",
            ratio=1 if each.fills else None,
            max_width=None if each.fills else max(_WIDEST, width // 3),
        )
    first = nav.selection.top
    for at, row in enumerate(content.rows[first : first + room], start=first):
        drawn = row.drawn()
        cells = [*drawn, *[""] * (len(content.columns) - len(drawn))]
        style = "reverse" if at == nav.selection.index and not content.last else ""
        table.add_row(*(cells[each] for each in shown), style=style)
    return table
