# SPDX-License-Identifier: Apache-2.0
"""Panels and alerts refer only to series and labels that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest
import yaml

from kuota.install.chart import generated
from kuota.install.monitoring.alerts import ALERTS
from kuota.install.monitoring.objects import DASHBOARDS, grafana_dashboards, prometheus_rule
from kuota.install.monitoring.promql import faults, of_job, of_leader, selectors
from kuota.install.monitoring.table import PanelQuery, alert_faults, dashboard_faults, panel
from kuota.install.settings import Settings

ROOT = Path(__file__).parents[2]


def test_no_panel_and_no_alert_refers_to_a_series_that_does_not_exist() -> None:
    assert [] == list(dashboard_faults(DASHBOARDS))
    assert [] == list(alert_faults(ALERTS))


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("sum(kueue_no_such_series)", "no series kueue_no_such_series"),
        ("sum(kuota_idle_devices_total)", "no series kuota_idle_devices_total"),
        ('rate(kuota_idle_devices{namespace="a"}[5m])', "no label namespace"),
        ("sum by (tema) (kuota_idle_devices)", "label tema"),
        ("kueue_admission_wait_time_seconds", "no series kueue_admission_wait_time_seconds"),
        ("sum without (nothing) (kuota_idle_devices)", "label nothing"),
        ("kuota_idle_devices and on (pod) kueue_build_info", "label pod"),
    ],
)
def test_a_wrong_reference_is_a_fault(expression: str, fault: str) -> None:
    assert fault in "; ".join(faults(expression))


def test_functions_keywords_and_texts_are_not_series() -> None:
    expression = (
        "histogram_quantile(0.9, sum by (le) (rate(kueue_admission_wait_time_seconds_bucket"
        '{cluster_queue=~"a_series|other"}[$__rate_interval] offset 1h))) or vector(0) > bool 1e3'
    )
    assert ["kueue_admission_wait_time_seconds_bucket"] == [
        each.name for each in selectors(expression)
    ]
    assert [] == list(faults(expression))


def test_a_label_that_is_aggregated_away_cannot_be_in_a_legend_or_summary() -> None:
    wrong = panel("p", ("sum by (team) (kuota_idle_devices)", "{{resource}}"))
    row = msgspec.structs.replace(DASHBOARDS[0].rows[0], panels=(wrong,))
    assert 1 == len(list(dashboard_faults([msgspec.structs.replace(DASHBOARDS[0], rows=(row,))])))
    alert = msgspec.structs.replace(ALERTS[-1], summary="{{ $labels.pod }}")
    assert 1 == len(list(alert_faults([alert])))


def test_an_alert_about_series_of_other_programs_must_select_those_of_kuota() -> None:
    alert = msgspec.structs.replace(
        ALERTS[0], summary="", expression="sum(process_open_fds) > 1000"
    )
    assert 1 == len(list(alert_faults([alert])))


def test_followers_and_other_jobs_are_left_out() -> None:
    assert 'sum(kuota_idle_devices{replica_role!="follower"})' == of_leader(
        "sum(kuota_idle_devices)"
    )
    assert 'kuota_idle_devices{replica_role!="follower",team="a"}' == of_leader(
        'kuota_idle_devices{team="a"}'
    )
    assert "kueue_build_info" == of_leader("kueue_build_info")
    assert 'max(process_open_fds{job=~"$job"})' == of_job("max(process_open_fds)")
    assert (
        'max(process_open_fds{job=~"$job"}) or kueue_build_info'
        == PanelQuery("max(process_open_fds{}) or kueue_build_info").shown
    )


def test_every_alert_has_a_section_in_the_runbooks() -> None:
    page = (ROOT / "docs" / "runbooks.md").read_text()
    sections = re.findall(r"^## (\w+)$", page, re.MULTILINE)
    assert [each.name for each in ALERTS] == sections
    assert len(set(sections)) == len(sections)


def test_the_chart_contains_dashboards_and_alerts_behind_values() -> None:
    settings = Settings(namespace="{{ .Release.Namespace }}", alerts=True, grafana_dashboards=True)
    for file, condition, made in (
        (
            "grafana-dashboards.yaml",
            ".Values.grafanaDashboards.enabled",
            grafana_dashboards(settings),
        ),
        ("alerts.yaml", ".Values.alerts.enabled", prometheus_rule(settings)),
    ):
        text = generated()[file]
        assert f"{{{{- if {condition} }}}}" in text
        # What Helm does with the only template actions that remain.
        lines = [each for each in text.splitlines() if not each.startswith("{{-")]
        rendered = "\n".join(lines).replace('{{ "{{" }}', "{{")
        quoted = rendered.replace(
            "namespace: {{ .Release.Namespace }}", 'namespace: "{{ .Release.Namespace }}"'
        )
        assert made == list(yaml.safe_load_all(quoted))
        assert [] == (prometheus_rule if "alerts" in file else grafana_dashboards)(Settings())


def test_dashboards_are_what_the_sidecar_of_grafana_collects() -> None:
    for each in grafana_dashboards(Settings(grafana_dashboards=True)):
        assert "1" == each["metadata"]["labels"]["grafana_dashboard"]
        (model,) = map(json.loads, each["data"].values())
        ids = [shown["id"] for shown in model["panels"]]
        assert len(set(ids)) == len(ids)
        for shown in model["panels"]:
            place = shown["gridPos"]
            assert place["x"] + place["w"] <= 24
            if shown["type"] != "row":
                assert shown["targets"]
