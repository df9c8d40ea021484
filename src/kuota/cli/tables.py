# SPDX-License-Identifier: Apache-2.0
"""Prints a plan as tables. Files and pipes get plain text of 100 columns without color."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from rich import box
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from kuota.view.plan import Plan, PlannedState, PlannedWorkload, QueueRow, QuotaRow, WhyRow
from kuota.view.words import several
from kuota.view.workload_state import LiveState

from .output import counted
from .safe_console import SafeConsole
from .terminal import echo_raw

WIDTH = 100
WIDE = 160
_HELP_LINES = 2
STYLES = {
    PlannedState.ADMITTED: "green",
    PlannedState.RESERVED: "cyan",
    PlannedState.WAITING: "yellow",
    PlannedState.PREEMPTED: "magenta",
    PlannedState.NOT_QUEUED: "red",
    PlannedState.DEACTIVATED: "dim",
    PlannedState.FINISHED: "dim",
}
LIVE_STYLES = {
    LiveState.ADMITTED: "green",
    LiveState.QUOTARESERVED: "cyan",
    LiveState.PENDING: "yellow",
    LiveState.PREEMPTED: "magenta",
    LiveState.DEACTIVATED: "dim",
    LiveState.SUCCEEDED: "dim",
    LiveState.FAILED: "red",
    LiveState.TIMEOUT: "red",
}


def print_plan(plan: Plan, *, wide: bool) -> None:
    parts: list[RenderableType] = [Text(_headline(plan), style="bold")]
    if plan.timeline:
        parts += ["", _timeline(plan)]
    if plan.workloads:
        parts += ["", _workloads(plan, wide)]
    if plan.cluster_queues:
        parts += ["", _queues(plan, wide)]
    lines = _closing(plan)
    print_parts([*parts, *(["", *lines] if lines else [])], WIDE if wide else WIDTH)


def print_explanation(row: PlannedWorkload) -> None:
    title = Text.assemble((row.name, "bold"), f" ({row.kind}, priority {row.priority})")
    print_parts([title, *_explained(row)], WIDTH)


def print_details(why: WhyRow) -> None:
    """Print the flavors tried for a workload, what blocks it, and what would help."""
    print_parts(_details(why, indent=0), WIDTH)


def print_parts(parts: Iterable[RenderableType], width: int) -> None:
    """Print the tables. Trailing spaces are removed unless standard output is a terminal."""
    tty = sys.stdout.isatty()
    console = SafeConsole(width=None if tty else width, color_system="auto" if tty else None)
    with console.capture() as captured:
        for part in parts:
            console.print(part)
    lines = captured.get().splitlines()
    if lines:
        echo_raw("\n".join(line if tty else line.rstrip() for line in lines))


def _table(title: str, *columns: str, right: Iterable[str] = ()) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
        header_style="dim",
        show_edge=False,
    )
    for column in columns:
        table.add_column(
            column,
            justify="right" if column in right else "left",
            overflow="fold",
            no_wrap=column in ("TIME", "STATE"),
        )
    return table


def _headline(plan: Plan) -> str:
    count, queues = len(plan.workloads), len(plan.cluster_queues)
    if not count:
        return f"No workloads to plan for in {counted(queues, 'ClusterQueue')}."
    states = ", ".join(f"{number} {state}" for state, number in plan.summary.items())
    return f"{counted(count, 'workload')} in {counted(queues, 'ClusterQueue')}: {states}"


def _timeline(plan: Plan) -> Table:
    table = _table("What happens", "TIME", "WORKLOAD", "EVENT", right=("TIME",))
    last = ""
    for row in plan.timeline:
        table.add_row("" if row.time == last else row.time, row.workload, row.text)
        last = row.time
    return table


def _workloads(plan: Plan, wide: bool) -> Table:
    late = plan.timeline[-1].time if plan.timeline else ""
    title = f"Workloads after {late}" if late else "Workloads"
    more = ("LOCALQUEUE", "PRIORITY") if wide else ()
    table = _table(
        title,
        "WORKLOAD",
        "STATE",
        "QUEUE",
        *more,
        "PODS",
        "ASSIGNMENT OR REASON",
        right=("PODS", "PRIORITY"),
    )
    for row in plan.workloads:
        extra = (row.queue, str(row.priority)) if wide else ()
        table.add_row(
            row.name,
            Text(row.state, style=STYLES[row.state]),
            row.cluster_queue or f"({row.queue or 'none'})",
            *extra,
            _pods(row),
            _outcome(row, None if wide else _HELP_LINES),
        )
    return table


def _pods(row: PlannedWorkload) -> str:
    """The number of pods; "-" if it is unknown because the job has no valid Workload."""
    if row.pods == row.pods_asked:
        return str(row.pods or "-")
    return f"{row.pods} of {row.pods_asked}"


def _outcome(row: PlannedWorkload, most: int | None) -> RenderableType:
    """Return what a workload is assigned, or why it waits and what would help."""
    lines: list[RenderableType] = [_gets(row)] if row.gets else []
    if row.state is PlannedState.ADMITTED and not row.gets:
        lines.append(
            "requests no resource that its queue covers; check the resources of its containers"
        )
    if row.preempted_by and row.state is PlannedState.PREEMPTED:
        lines.append(f"preempted by {several(row.preempted_by)}")
    if row.why is not None and row.why.text:
        lines.append(row.why.text)
        lines += [_item(each) for each in _helps(row.why)[:most]]
    return Group(*lines)


def _item(line: str, mark: str = ">") -> RenderableType:
    """Return a list item. Wrapped lines are indented below the text."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(mark, line)
    return grid


def _helps(why: WhyRow) -> list[str]:
    return list(dict.fromkeys(each.text for each in why.help))


def _gets(row: PlannedWorkload) -> str:
    several_sets = len({each.pod_set for each in row.gets}) > 1
    given: dict[tuple[str, str], list[str]] = {}
    for each in sorted(row.gets, key=lambda each: each.resource):
        place = (each.pod_set if several_sets else "", each.flavor)
        given.setdefault(place, []).append(f"{each.amount} {each.resource}")
    words = ", ".join(
        f"{f'{pod_set}: ' if pod_set else ''}{several(amounts, 9)} on {flavor}"
        for (pod_set, flavor), amounts in given.items()
    )
    if row.borrows:
        loans = [
            f"{each.amount} {each.resource} from {each.lender or 'nobody (over quota)'}"
            for each in row.borrows
        ]
        words += f"; borrows {several(loans)}"
    if row.preempts:
        words += f"; preempted {several(row.preempts)}"
    return words


def _queues(plan: Plan, wide: bool) -> Table:
    numbers = ("NOMINAL", "USED", "BORROWED", "LENT", "WAITING")
    limits = ("MAY BORROW", "MAY LEND") if wide else ()
    table = _table(
        "Quota",
        *("COHORT", "QUEUE", "FLAVOR", "RESOURCE", *numbers[:-1], *limits, "WAITING", ""),
        right=(*numbers, *limits),
    )
    groups = sorted({(each.cohort == "", each.cohort) for each in plan.cluster_queues})
    for _, cohort in groups:
        members = [each for each in plan.cluster_queues if each.cohort == cohort]
        for number, queue in enumerate(members):
            for index, quota in enumerate(queue.quotas or [None]):
                first = cohort if not number and not index else ""
                table.add_row(first, *_queue_cells(queue, quota, index == 0, wide))
        if len(members) > 1:
            for cells in _totals(plan, cohort, wide):
                table.add_row("", *cells, style="dim")
    return table


def _totals(plan: Plan, cohort: str, wide: bool) -> Iterator[list[str]]:
    """Yield rows with the total quota and usage of the cohort's subtree."""
    found = next((each for each in plan.cohorts if each.name == cohort), None)
    for quota in found.quotas if found is not None else ():
        limits = ["", ""] if wide else []
        numbers = [quota.total, quota.used, "", ""]
        yield ["total", quota.flavor, quota.resource, *numbers, *limits, "", ""]


def _queue_cells(queue: QueueRow, quota: QuotaRow | None, first: bool, wide: bool) -> list[str]:
    name = queue.name if first else ""
    waiting = str(queue.pending) if first else ""
    if quota is None:
        return [name, "", "", "", "", "", "", *(["", ""] if wide else []), waiting, "no quota"]
    limits = [quota.borrowing_limit or "-", quota.lending_limit or "-"] if wide else []
    return [
        name,
        quota.flavor,
        quota.resource,
        quota.nominal,
        quota.used,
        _nonzero(quota.borrowed),
        _nonzero(quota.lent),
        *limits,
        waiting,
        "" if queue.active else "inactive",
    ]


def _nonzero(amount: str) -> str:
    return "" if amount == "0" else amount


def _closing(plan: Plan) -> list[RenderableType]:
    lines: list[RenderableType] = []
    for queue in plan.cluster_queues:
        if not queue.active:
            lines.append(f"ClusterQueue {queue.name} is inactive: {'; '.join(queue.inactive)}.")
    if plan.restless:
        lines.append(
            f"The plan does not converge: {several(plan.restless, 6)} keep preempting each other. "
            "Check their priorities and the preemption policies."
        )
    lines += [_item(each, "Note:") for each in plan.notes]
    waiting = [each.name for each in plan.workloads if each.why is not None]
    if waiting:
        lines.append(f"For details of a workload, use --explain {waiting[0]}")
    return lines


def _explained(row: PlannedWorkload) -> list[RenderableType]:
    where = f"ClusterQueue {row.cluster_queue}" if row.cluster_queue else "no ClusterQueue"
    facts = [("state", f"{row.state}; LocalQueue {row.queue or '(none)'}, {where}")]
    if row.gets:
        facts.append(("gets", _gets(row)))
    if row.preempted_by:
        facts.append(("preempted by", several(row.preempted_by)))
    why = row.why
    if why is not None and why.position is not None:
        facts.append(("place", f"{why.position} of {why.waiting} in ClusterQueue"))
    if why is not None and why.text:
        facts.append(("why", why.text))
    lines: list[RenderableType] = [_item(value, f"  {name}:") for name, value in facts]
    return lines + (_details(why) if why is not None else [])


def _details(why: WhyRow, indent: int = 2) -> list[RenderableType]:
    tried = [
        f"{each.flavor or 'any flavor'} for {each.pod_set}: "
        f"{'; '.join(lack.text for lack in each.lacks) or 'fits'}"
        for each in why.tried
    ]
    stay = [
        f"{each.workload} (queue {each.cluster_queue}, priority {each.priority}): {each.text}"
        for each in why.protected
    ]
    # `why.text` already describes a single flavor.
    lone = len(tried) == 1 and tried[0].endswith(why.text)
    sections = (
        ("flavors tried", [] if lone else tried),
        ("not preempted", stay),
        ("what would help", _helps(why)),
    )
    return [line for title, lines in sections for line in _section(title, lines, indent)]


def _section(title: str, lines: list[str], indent: int) -> list[RenderableType]:
    items = [Padding(_item(each, "-"), (0, 0, 0, indent + 2)) for each in lines]
    shown = title if indent else title.capitalize()
    return [f"{' ' * indent}{shown}:", *items] if items else []
