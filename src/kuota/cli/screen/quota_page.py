# SPDX-License-Identifier: Apache-2.0
"""The page Quota: cohorts and ClusterQueues with what they may use, use, lend and borrow. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.text import Text

from kuota.api.base import Json
from kuota.dashboard.shapes import NodeKind, QuotaCell, TreeModel, TreeNode
from kuota.view.live import LiveQueue, LiveQuota, queue_rows

from .content import USUAL, WIDE, ScreenColumn, ScreenContent, ScreenRow

COLUMNS = (
    ScreenColumn("NAME"),
    ScreenColumn("FLAVOR", least=WIDE),
    ScreenColumn("RESOURCE"),
    ScreenColumn("USED", right=True),
    ScreenColumn("QUOTA", right=True),
    ScreenColumn("BORROWED", right=True, least=USUAL),
    ScreenColumn("LENT", right=True, least=WIDE),
    ScreenColumn("AVAILABLE", right=True, least=WIDE),
    ScreenColumn("", least=USUAL),
    ScreenColumn("PENDING", right=True),
    ScreenColumn("ADMITTED", right=True),
    ScreenColumn("", fills=True),
)
_BAR = 12
_EMPTY = "There are no ClusterQueues. `kuota create clusterqueue --help` shows how to create one."


def tree_content(model: TreeModel, filter: str) -> ScreenContent:
    """Return the page for users who see all workloads, so that all usage is known."""
    rows = [row for root in model.roots for row in _node(root, 0)]
    cycle = Text("its parents form a cycle", style="red")
    rows += [ScreenRow([Text(each, style="bold"), *[""] * 10, cycle]) for each in model.cyclic]
    return _content(rows, filter)


def queues_content(cluster_queues: Iterable[Json], filter: str) -> ScreenContent:
    """Return the page for users who see some workloads only: what the queues' status says."""
    rows: list[ScreenRow] = []
    cohort = ""
    for each in queue_rows(cluster_queues):
        if each.cohort and each.cohort != cohort:
            rows.append(ScreenRow([Text(each.cohort, style="bold")]))
        cohort = each.cohort
        rows += _queue(each, 1 if cohort else 0)
    return _content(rows, filter)


def _content(rows: list[ScreenRow], filter: str) -> ScreenContent:
    wanted = filter.lower()
    shown = [row for row in rows if not wanted or wanted in _words(row)]
    return ScreenContent(Text("Quota", style="bold"), COLUMNS, shown, _EMPTY)


def _words(row: ScreenRow) -> str:
    return " ".join([row.id, *map(str, row.drawn())]).lower()


def _node(node: TreeNode, depth: int) -> Iterator[ScreenRow]:
    cohort = node.kind is NodeKind.COHORT
    name = Text("  " * depth + node.name, style="bold" if cohort else "")
    counts = [str(node.pending), str(node.admitted)]
    id = "" if cohort else node.name
    note = Text(_stopped(node.stop_policy, node.inactive), style="red")
    if not node.quotas:
        yield ScreenRow([name, *[""] * 8, *counts, note], id)
    for index, quota in enumerate(node.quotas):
        first = not index
        begin: list[str | Text] = [name if first else ""]
        end: list[str | Text] = [*counts, note] if first else ["", "", ""]
        yield ScreenRow([*begin, *_cells(quota), *end], id)
    for child in node.children:
        yield from _node(child, depth + 1)


def _stopped(policy: str, inactive: str) -> str:
    stopped = "" if policy in ("", "None") else f"stopped ({policy})"
    return stopped or inactive


def _cells(quota: QuotaCell) -> list[str | Text]:
    own = quota.used.value - quota.borrowed.value
    return [
        quota.flavor,
        quota.resource,
        quota.used.text,
        quota.total.text,
        _nonzero(quota.borrowed.text),
        _nonzero(quota.lent.text),
        quota.available.text,
        bar(own, quota.borrowed.value, quota.total.value),
    ]


def _queue(queue: LiveQueue, depth: int) -> Iterator[ScreenRow]:
    for index, quota in enumerate(queue.quotas or [None]):
        first = not index
        name = "  " * depth + queue.name if first else ""
        counts = [str(queue.pending), str(queue.admitted)] if first else ["", ""]
        note = Text(queue.inactive if first else "", style="red")
        yield ScreenRow([name, *_live_cells(quota), *counts, note], queue.name)


def _live_cells(quota: LiveQuota | None) -> list[str | Text]:
    if quota is None:
        return [""] * 8
    amounts = (quota.used, quota.nominal, _nonzero(quota.borrowed))
    return [quota.flavor, quota.resource, *amounts, "", "", ""]


def _nonzero(amount: str) -> str:
    return "" if amount == "0" else amount


def bar(own: float, borrowed: float, total: float) -> Text:
    """Return usage as a bar: full blocks are the own quota, shaded ones are borrowed."""
    scale = max(total, own + borrowed)
    if scale <= 0:
        return Text("·" * _BAR, style="dim")
    full = round(_BAR * own / scale)
    shaded = min(_BAR - full, max(round(_BAR * borrowed / scale), 1 if borrowed > 0 else 0))
    found = Text("█" * full, style="blue")
    found.append("▒" * shaded, style="yellow")
    return found.append("·" * (_BAR - full - shaded), style="dim")
