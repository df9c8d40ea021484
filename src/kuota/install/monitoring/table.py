# SPDX-License-Identifier: Apache-2.0
"""What a panel, a dashboard and an alert consist of, and how they are checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from enum import StrEnum

import msgspec

from .promql import faults, grouped_labels, is_own, of_job, of_leader, selectors

_LEGEND = re.compile(r"\{\{\s*(\w+)\s*\}\}")
_LABEL = re.compile(r"\$labels\.(\w+)")


class Unit(StrEnum):
    """The unit of a panel, as Grafana names it."""

    COUNT = "short"
    SECONDS = "s"
    BYTES = "bytes"
    PERCENT = "percent"
    RATIO = "percentunit"
    PER_SECOND = "ops"
    HOURS = "h"


class AlertSeverity(StrEnum):
    """How urgent an alert is."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class PanelQuery(msgspec.Struct, frozen=True):
    """An expression, and the legend of its series, in which `{{label}}` is a label."""

    expression: str
    legend: str = ""

    @property
    def shown(self) -> str:
        """The expression as it is sent to Prometheus."""
        return of_job(of_leader(self.expression))


class Panel(msgspec.Struct, frozen=True):
    """One panel. `stat` shows the latest value instead of a graph."""

    title: str
    queries: tuple[PanelQuery, ...]
    unit: Unit = Unit.COUNT
    about: str = ""
    stat: bool = False


class PanelRow(msgspec.Struct, frozen=True):
    """A titled group of panels."""

    title: str
    panels: tuple[Panel, ...]


class Variable(msgspec.Struct, frozen=True):
    """A choice at the top of a dashboard: the values of a label."""

    name: str
    label: str
    series: str
    many: bool = True


JOB = Variable("job", "job", "kueue_build_info")
"""Selects the job of Prometheus that scrapes Kuota."""


class GrafanaDashboard(msgspec.Struct, frozen=True):
    """One dashboard."""

    uid: str
    title: str
    about: str
    variables: tuple[Variable, ...]
    rows: tuple[PanelRow, ...]

    def panels(self) -> Iterator[Panel]:
        for row in self.rows:
            yield from row.panels


class Alert(msgspec.Struct, frozen=True):
    """One alert with its runbook: what it means, how to check, and what to do.

    `for_` is how long the expression must hold. The summary may contain `$labels.x`.
    """

    name: str
    expression: str
    for_: str
    severity: AlertSeverity
    summary: str
    meaning: str
    check: tuple[str, ...]
    action: tuple[str, ...]

    @property
    def shown(self) -> str:
        """The expression as Prometheus evaluates it."""
        return of_leader(self.expression)


def panel(title: str, *queries: str | tuple[str, str], **given: object) -> Panel:
    """Return a panel of expressions, each with an optional legend."""
    made = tuple(
        PanelQuery(each) if isinstance(each, str) else PanelQuery(*each) for each in queries
    )
    return msgspec.convert({"title": title, "queries": made, **given}, Panel, from_attributes=True)


def dashboard_faults(dashboards: Iterable[GrafanaDashboard]) -> Iterator[str]:
    """Yield every reference of a dashboard to a series or label that does not exist."""
    for each in dashboards:
        for variable in each.variables:
            for fault in faults(f"count by ({variable.label}) ({variable.series})"):
                yield f"{each.uid}: variable {variable.name}: {fault}"
        for shown in each.panels():
            for query in shown.queries:
                for fault in (*faults(query.expression), *_legend_faults(query)):
                    yield f"{each.uid}: {shown.title}: {fault}"


def _legend_faults(query: PanelQuery) -> Iterator[str]:
    """Yield labels of a legend that the result of the query lacks, because it is aggregated."""
    grouped = grouped_labels(query.expression)
    for label in _LEGEND.findall(query.legend):
        if label not in grouped:
            yield f"the legend {query.legend!r} has a label that the query does not group by"


def alert_faults(alerts: Iterable[Alert]) -> Iterator[str]:
    """Yield every reference of an alert to a series or label that does not exist."""
    for each in alerts:
        for fault in faults(each.expression):
            yield f"{each.name}: {fault}"
        found = [selector.name for selector in selectors(each.expression)]
        if not any(map(is_own, found)):
            yield f"{each.name}: join the expression with kueue_build_info: others have such series"
        for label in _LABEL.findall(each.summary):
            if label not in grouped_labels(each.expression):
                yield f"{each.name}: the summary has the label {label}, which is not grouped by"
        if not (each.meaning and each.check and each.action):
            yield f"{each.name}: the runbook is incomplete"
