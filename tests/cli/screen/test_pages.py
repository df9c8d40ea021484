# SPDX-License-Identifier: Apache-2.0
"""The pages of the screen, as a terminal shows them."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest

from kuota.cli.safe_console import SafeConsole
from kuota.cli.screen.content import ScreenContent
from kuota.cli.screen.frame import frame, help_content
from kuota.cli.screen.job_page import gone_content, job_content, log_content
from kuota.cli.screen.jobs_page import jobs_content, queue_content
from kuota.cli.screen.navigation import Navigation, Order, ScreenPage
from kuota.cli.screen.quota_page import bar, queues_content, tree_content
from kuota.dashboard.shapes import (
    Amount,
    NodeKind,
    PodRow,
    QuotaCell,
    Ref,
    TimelineEntry,
    TimelineStep,
    TreeModel,
    TreeNode,
    WorkloadModel,
    WorkloadRow,
)
from kuota.view.plan import HelpRow, WhyRow
from kuota.view.workload_state import LiveState

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)


def screen(content: ScreenContent, nav: Navigation | None = None, width: int = 120) -> list[str]:
    """The lines of the terminal, which is 12 lines high."""
    file = io.StringIO()
    console = SafeConsole(file=file, width=width, height=12, legacy_windows=False)
    console.print(frame(content, nav or Navigation(), width, 12, ""))
    return [line.rstrip() for line in file.getvalue().splitlines()]


def amount(value: int) -> Amount:
    return Amount(text=str(value), value=value)


def cell(used: int, borrowed: int = 0, lent: int = 0) -> QuotaCell:
    return QuotaCell(
        flavor="h100",
        resource="nvidia.com/gpu",
        nominal=amount(4),
        total=amount(4),
        used=amount(used),
        borrowed=amount(borrowed),
        lent=amount(lent),
        available=amount(0),
    )


def queue(name: str, *quotas: QuotaCell, inactive: str = "") -> TreeNode:
    kind = NodeKind.CLUSTER_QUEUE
    return TreeNode(kind=kind, name=name, quotas=list(quotas), pending=1, inactive=inactive)


def job(name: str, state: LiveState = LiveState.PENDING, **fields: Any) -> WorkloadRow:
    given: dict[str, Any] = {"queue": "gpus", "cluster_queue": "ml"} | fields
    given.setdefault("created", "2026-11-16T08:59:00Z")
    key = f"team/job-{name}"
    return WorkloadRow(
        key=key, namespace="team", name=f"job-{name}", job=name, kind="Job", state=state, **given
    )


def test_the_tree_shows_what_is_used_borrowed_and_lent() -> None:
    children = [queue("speech", cell(6, borrowed=2)), queue("vision", cell(0, lent=2))]
    root = TreeNode(kind=NodeKind.COHORT, name="lab", quotas=[cell(6)], children=children)
    lines = screen(tree_content(TreeModel(roots=[root]), ""))
    assert lines[0].startswith("Quota")
    speech = next(line for line in lines if "speech" in line).split()
    assert ["speech", "h100", "nvidia.com/gpu", "6", "4", "2", "0"] == speech[:7]
    vision = next(line for line in lines if "vision" in line).split()
    assert ["vision", "h100", "nvidia.com/gpu", "0", "4", "2", "0"] == vision[:7]
    assert lines[-1].startswith("Enter: queue")


def test_reasons_and_cycles_are_shown() -> None:
    model = TreeModel(roots=[queue("ml", inactive="it is stopped")], cyclic=["loop"])
    lines = screen(tree_content(model, ""))
    assert any(line.startswith("ml") and "it is stopped" in line for line in lines)
    assert any(line.startswith("loop") and "its parents form a cycle" in line for line in lines)


def test_users_who_see_some_workloads_only_get_the_status_of_queues() -> None:
    used = {"name": "nvidia.com/gpu", "total": "5", "borrowed": "1"}
    spec = {"cohortName": "lab", "resourceGroups": []}
    status = {"flavorsReservation": [{"name": "h100", "resources": [used]}], "pendingWorkloads": 3}
    obj = {"metadata": {"name": "ml"}, "spec": spec, "status": status}
    content = queues_content([obj], "")
    assert ["", "ml"] == [each.id for each in content.rows]


@pytest.mark.parametrize(
    ("own", "borrowed", "total", "expected"),
    [
        (0, 0, 0, "············"),
        (4, 0, 4, "████████████"),
        (2, 0, 4, "██████······"),
        (4, 4, 4, "██████▒▒▒▒▒▒"),
        (1000, 1, 1000, "████████████"),
    ],
)
def test_bars_have_one_length(own: float, borrowed: float, total: float, expected: str) -> None:
    assert expected == bar(own, borrowed, total).plain


def test_jobs_are_filtered_and_sorted() -> None:
    rows = [
        job("b", LiveState.ADMITTED, priority=1, gets="2 gpus"),
        job("a", why="2 more needed", priority=5),
        job("c", LiveState.SUCCEEDED, user="ada"),
    ]
    nav = Navigation()
    nav.page = ScreenPage.JOBS
    assert ["team/job-b", "team/job-a", "team/job-c"] == ids(rows, nav)
    nav.order = Order.NAME
    assert ["team/job-a", "team/job-b", "team/job-c"] == ids(rows, nav)
    nav.reverse = True
    assert ["team/job-c", "team/job-b", "team/job-a"] == ids(rows, nav)
    nav.finished = False
    assert ["team/job-b", "team/job-a"] == ids(rows, nav)
    nav.filters[ScreenPage.JOBS] = "NEEDED team"
    assert ["team/job-a"] == ids(rows, nav)


def ids(rows: list[WorkloadRow], nav: Navigation) -> list[str]:
    return [each.id for each in jobs_content(rows, nav, NOW).rows]


def test_a_narrow_screen_shows_fewer_columns_and_never_wraps() -> None:
    rows = [job("a", why="a very long explanation " * 10)]
    nav = Navigation()
    nav.page = ScreenPage.JOBS
    wide = screen(jobs_content(rows, nav, NOW), nav)
    narrow = screen(jobs_content(rows, nav, NOW), nav, width=60)
    assert "PRIORITY" in wide[2]
    assert "PRIORITY" not in narrow[2]
    assert len(narrow) == 12
    assert max(map(len, narrow)) <= 60


def test_a_long_name_leaves_room_for_the_reason() -> None:
    rows = [job("n" * 60, why="2 more nvidia.com/gpu needed")]
    nav = Navigation()
    nav.page = ScreenPage.JOBS
    lines = screen(jobs_content(rows, nav, NOW), nav)
    assert "2 more nvidia.com/gpu" in lines[4]


def test_names_and_amounts_of_quota_fit_on_half_a_screen() -> None:
    root = TreeNode(kind=NodeKind.COHORT, name="lab", children=[queue("research", cell(3))])
    lines = screen(tree_content(TreeModel(roots=[root]), ""), width=60)
    assert ["NAME", "RESOURCE", "USED", "QUOTA", "PENDING", "ADMITTED"] == lines[2].split()
    assert ["research", "nvidia.com/gpu", "3", "4", "1", "0"] == lines[5].split()


def test_only_visible_rows_are_drawn() -> None:
    rows = [job(f"{each:04}", order=f"{each:04}") for each in range(5000)]
    nav = Navigation()
    nav.page = ScreenPage.QUEUE
    content = queue_content("ml", rows, "", NOW, 0)
    nav.selection.move_to(4999, [each.id for each in content.rows])
    lines = screen(content, nav)
    assert len(lines) == 12
    assert any("4999" in line and "5000" in line for line in lines)


def test_positions_are_unknown_if_workloads_are_hidden() -> None:
    content = queue_content("ml", [job("a", order="1")], "", NOW, 7)
    assert "you may not see 7 of them" in content.title.plain
    assert "-" == content.rows[0].drawn()[0]


def test_a_job_has_its_timeline_what_would_help_and_its_pods() -> None:
    preempted = TimelineEntry(
        time="2026-11-16T08:30:00Z",
        step=TimelineStep.PREEMPTED,
        text="preempted",
        by=Ref(kind="Workload", name="urgent", namespace="other"),
        count=2,
    )
    helps = [HelpRow(advice="AskLess", text="request at most 4 gpus")]
    model = WorkloadModel(
        row=job("train", why="2 more needed"),
        timeline=[preempted],
        explanation=WhyRow(text="", position=2, waiting=9, help=helps),
        pods=[PodRow(name="train-0", phase="Failed", why="exit code 3")],
    )
    content = job_content(model, NOW)
    text = "\n".join(str(each.drawn()[0]) for each in content.rows)
    assert "Position:     2 of 9" in text
    assert "request at most 4 gpus" in text
    assert "30m ago  preempted       preempted (by other/urgent) (2 times)" in text
    assert "train-0" == content.rows[-1].id
    assert "This workload was deleted." in gone_content("team/x").empty


def test_a_log_shows_its_end_and_what_matches_the_filter() -> None:
    nav = Navigation()
    nav.page = ScreenPage.LOG
    lines = [f"step {each}" for each in range(100)]
    shown = screen(log_content("p", lines, "", "followed"), nav)
    assert "step 99" in shown
    assert "step 0" not in shown
    assert ["step 42"] == [
        str(each.drawn()[0]) for each in log_content("p", lines, "STEP 42", "").rows
    ]


def test_texts_of_others_do_not_control_the_terminal() -> None:
    evil = "\x1b[2J\x1b]0;owned\x07[red]"
    nav = Navigation()
    nav.page = ScreenPage.JOBS
    text = "\n".join(screen(jobs_content([job("a", why=evil)], nav, NOW), nav))
    assert "\x1b]" not in text
    assert "\x1b[2J" not in text
    assert "[red]" in text


def test_the_help_fits_an_ordinary_terminal() -> None:
    assert len(help_content().rows) <= 18
