# SPDX-License-Identifier: Apache-2.0
"""The pages Job and Log: one workload with its timeline, pods and explanation; a log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from rich.text import Text

from kuota.dashboard.shapes import PodRow, TimelineEntry, WorkloadModel
from kuota.view.live import age

from ..tables import LIVE_STYLES
from .content import ScreenColumn, ScreenContent, ScreenRow

_LINE = (ScreenColumn("", fills=True),)
_LABEL = 14


def job_content(model: WorkloadModel, now: datetime) -> ScreenContent:
    """Return the page of one workload. The rows of pods have the name of the pod as their ID."""
    row = model.row
    title = Text(f"{row.kind} {row.namespace}/{row.job}", style="bold")
    lines = [*_facts(model, now), *_explanation(model), *_timeline(model.timeline, now)]
    return ScreenContent(title, _LINE, [*map(_row, lines), *_pods(model.pods, now)])


def gone_content(name: str) -> ScreenContent:
    """Return the page of a workload that does not exist any more."""
    return ScreenContent(
        Text(name, style="bold"), _LINE, [], "This workload was deleted. Esc: back"
    )


def log_content(pod: str, lines: Sequence[str], filter: str, note: str) -> ScreenContent:
    """Return the page of a log. `note` says why it ends, or that it is followed."""
    wanted = filter.lower()
    shown = [ScreenRow([each]) for each in lines if not wanted or wanted in each.lower()]
    title = Text(f"Log of pod {pod}", style="bold").append(f"  {note}", style="dim")
    return ScreenContent(title, _LINE, shown, "The log is empty so far.", last=True)


def _row(line: Text) -> ScreenRow:
    return ScreenRow([line])


def _facts(model: WorkloadModel, now: datetime) -> Iterator[Text]:
    row = model.row
    priority = f"{row.priority} ({row.priority_class})" if row.priority_class else str(row.priority)
    state = Text(str(row.state), style=LIVE_STYLES[row.state])
    if row.since:
        state.append(f" for {age(row.since, now)}", style="dim")
    yield _fact("State", state)
    facts = {
        "Why": " ".join(row.why.split()),
        "To fix": row.way_out,
        "Queue": f"{row.queue} (ClusterQueue {row.cluster_queue})"
        if row.cluster_queue
        else row.queue,
        "Priority": priority,
        "User": row.user,
        "Requests": row.requests,
        "Quota": row.gets,
        "Evictions": str(row.evictions or ""),
        "Requeued at": model.requeue_at,
    }
    for label, value in facts.items():
        if value:
            yield _fact(label, Text(value))
    for check in model.checks:
        yield _fact("Check", Text(f"{check.name}: {check.state} {check.message}".rstrip()))


def _fact(label: str, value: Text) -> Text:
    return Text(f"{label + ':':<{_LABEL}}", style="dim").append_text(value)


def _explanation(model: WorkloadModel) -> Iterator[Text]:
    why = model.explanation
    if why is None:
        return
    if why.position is not None:
        yield _fact("Position", Text(f"{why.position} of {why.waiting}"))
    sections = (
        (
            "Flavors tried",
            [_tried(each.flavor, [lack.text for lack in each.lacks]) for each in why.tried],
        ),
        ("Not preempted", [f"{each.workload}: {each.text}" for each in why.protected]),
        ("What would help", [each.text for each in why.help]),
    )
    for title, lines in sections:
        yield from _section(title, map(Text, lines))


def _tried(flavor: str, lacks: Sequence[str]) -> str:
    return f"{flavor or 'any flavor'}: {'; '.join(lacks) or 'fits'}"


def _section(title: str, lines: Iterable[Text]) -> Iterator[Text]:
    found = list(lines)
    if found:
        yield Text("")
        yield Text(title, style="bold")
        yield from (Text("  ").append_text(each) for each in found)


def _timeline(entries: Sequence[TimelineEntry], now: datetime) -> Iterator[Text]:
    return _section("Timeline", (_entry(each, now) for each in entries))


def _entry(entry: TimelineEntry, now: datetime) -> Text:
    line = Text(f"{age(entry.time, now) + ' ago':>10}  ", style="dim")
    line.append(f"{entry.step:<16}", style="bold")
    words = entry.text
    if entry.by is not None:
        words += f" (by {entry.by.namespace}/{entry.by.name})"
    if entry.count > 1:
        words += f" ({entry.count} times)"
    return line.append(" ".join(words.split()))


def _pods(pods: Sequence[PodRow], now: datetime) -> Iterator[ScreenRow]:
    if not pods:
        return
    yield ScreenRow([Text("")])
    yield ScreenRow([Text("Pods").append("  Enter or l: log", style="dim")])
    for pod in pods:
        where = f" on {pod.node}" if pod.node else ""
        why = f": {' '.join(pod.why.split())}" if pod.why else ""
        line = f"  {pod.name}  {pod.phase}{where}, {age(pod.created, now)}{why}"
        yield ScreenRow([Text(line)], pod.name)
