# SPDX-License-Identifier: Apache-2.0
"""Dashboards as Grafana reads them, alerts as Prometheus reads them, and the objects with both."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kuota.api.base import Json
from kuota.install.settings import Settings, named, named_object

from .alerts import GROUPS
from .platform import PLATFORM
from .table import Alert, GrafanaDashboard, Panel, Variable
from .team import TEAM

DASHBOARDS = (PLATFORM, TEAM)
RUNBOOKS = "docs/runbooks.md"
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT, _PER_ROW = 24, 8, 3


def grafana(dashboard: GrafanaDashboard) -> Json:
    """Return the JSON model of a dashboard."""
    return {
        "uid": dashboard.uid,
        "title": dashboard.title,
        "description": dashboard.about,
        "tags": ["kuota"],
        "editable": True,
        "graphTooltip": 1,
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "1m",
        "templating": {"list": [_datasource(), *map(_variable, dashboard.variables)]},
        "panels": list(_panels(dashboard)),
    }


def _datasource() -> Json:
    return {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Source"}


def _variable(variable: Variable) -> Json:
    return {
        "name": variable.name,
        "type": "query",
        "datasource": _SOURCE,
        "query": f"label_values({variable.series}, {variable.label})",
        "refresh": 2,
        "multi": variable.many,
        "includeAll": variable.many,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def _panels(dashboard: GrafanaDashboard) -> Iterator[Json]:
    number, top = 1, 0
    for row in dashboard.rows:
        yield {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"x": 0, "y": top, "w": _WIDTH, "h": 1},
        }
        number, top = number + 1, top + 1
        per_row = 4 if all(each.stat for each in row.panels) else _PER_ROW
        for at, each in enumerate(row.panels):
            width = _WIDTH // per_row
            place = {
                "x": at % per_row * width,
                "y": top + at // per_row * _HEIGHT,
                "w": width,
                "h": _HEIGHT,
            }
            yield _panel(each, number, place)
            number += 1
        top += -(-len(row.panels) // per_row) * _HEIGHT


def _panel(panel: Panel, number: int, place: Json) -> Json:
    targets = [
        {
            "refId": chr(ord("A") + at),
            "datasource": _SOURCE,
            "expr": query.shown,
            "legendFormat": query.legend or panel.title,
            "instant": panel.stat,
            "range": not panel.stat,
        }
        for at, query in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "type": "stat" if panel.stat else "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit.value, "min": 0}, "overrides": []},
        "targets": targets,
    }


def rule_groups() -> list[Json]:
    """Return the groups of alerting rules, as in a rule file of Prometheus."""
    return [
        {"name": name, "rules": [_rule(each) for each in alerts]} for name, alerts in GROUPS.items()
    ]


def _rule(alert: Alert) -> Json:
    return {
        "alert": alert.name,
        "expr": alert.shown,
        "for": alert.for_,
        "labels": {"severity": alert.severity.value},
        "annotations": {
            "summary": alert.summary,
            "description": alert.meaning,
            "runbook": f"{RUNBOOKS}#{alert.name.lower()}",
        },
    }


def grafana_dashboards(settings: Settings) -> list[Json]:
    """The dashboards, for the sidecar of Grafana that collects ConfigMaps with this label."""
    if not settings.grafana_dashboards:
        return []
    return [
        named_object(
            "v1",
            "ConfigMap",
            named(f"dashboard-{each.uid.removeprefix('kuota-')}"),
            namespace=settings.namespace,
            labels={"grafana_dashboard": "1"},
            data={f"{each.uid}.json": json.dumps(grafana(each), indent=1, sort_keys=True)},
        )
        for each in DASHBOARDS
    ]


def prometheus_rule(settings: Settings) -> list[Json]:
    """The alerts, for clusters with the Prometheus operator."""
    if not settings.alerts:
        return []
    return [
        named_object(
            "monitoring.coreos.com/v1",
            "PrometheusRule",
            named("alerts"),
            namespace=settings.namespace,
            spec={"groups": rule_groups()},
        )
    ]
