# SPDX-License-Identifier: Apache-2.0
"""The dashboard of a team: what it uses, lends and loses, and what it waits for."""

from __future__ import annotations

from .table import JOB, GrafanaDashboard, Panel, PanelRow, Unit, Variable, panel

_TEAM = 'team=~"$team"'


def _hours(title: str, series: str, by: str, legend: str, about: str = "") -> Panel:
    expression = f"sum by ({by}) (increase({series}{{{_TEAM}}}[$__range])) / 3600"
    return panel(title, (expression, legend), unit=Unit.HOURS, about=about, stat=True)


_USAGE = PanelRow(
    "Device hours in the selected period",
    (
        _hours("Used", "kuota_device_seconds_total", "team, resource", "{{team}} {{resource}}"),
        _hours(
            "Lent",
            "kuota_device_lent_seconds_total",
            "team, resource",
            "{{team}} {{resource}}",
            "Quota of queues that only this team uses, which other queues used.",
        ),
        _hours(
            "Lost to evictions",
            "kuota_device_lost_seconds_total",
            "team, reason",
            "{{team}} {{reason}}",
            "Of runs that an eviction ended. Jobs that write checkpoints lose less.",
        ),
        _hours(
            "Idle",
            "kuota_device_idle_seconds_total",
            "team, resource",
            "{{team}} {{resource}}",
            "Allocated, but below the threshold of utilization for the configured time.",
        ),
    ),
)

_NOW = PanelRow(
    "Devices",
    (
        panel(
            "Devices in use",
            (
                "sum by (team, flavor, resource) "
                f"(rate(kuota_device_seconds_total{{{_TEAM}}}[$__rate_interval]))",
                "{{team}} {{flavor}} {{resource}}",
            ),
        ),
        panel(
            "Idle devices",
            (f"sum by (team, resource) (kuota_idle_devices{{{_TEAM}}})", "{{team}} {{resource}}"),
        ),
        panel(
            "Utilization by workload",
            (
                "avg by (workload, resource) "
                f"(kuota_workload_device_utilization_percent{{{_TEAM}}})",
                "{{workload}} {{resource}}",
            ),
            unit=Unit.PERCENT,
        ),
    ),
)

_WAITING = PanelRow(
    "Waiting",
    (
        panel(
            "Age of the oldest pending workload",
            (
                f"max by (team, cluster_queue) (kuota_oldest_pending_age_seconds{{{_TEAM}}})",
                "{{team}} {{cluster_queue}}",
            ),
            unit=Unit.SECONDS,
        ),
        panel(
            "Pending amounts",
            (
                f"sum by (team, flavor, resource) (kuota_pending_resource{{{_TEAM}}})",
                "{{team}} {{flavor}} {{resource}}",
            ),
        ),
        panel(
            "Time to admission in the queues of the team",
            (
                "histogram_quantile(0.95, sum by (le, cluster_queue) (increase("
                "kueue_admission_wait_time_seconds_bucket[$__range])) and on (cluster_queue) "
                f"kuota_oldest_pending_age_seconds{{{_TEAM}}})",
                "{{cluster_queue}}",
            ),
            unit=Unit.SECONDS,
            about="The 95th percentile, of all teams that share the queue.",
        ),
    ),
)

TEAM = GrafanaDashboard(
    uid="kuota-team",
    title="Kuota / Team",
    about="Device hours, utilization and waiting of a team. A team is a namespace.",
    variables=(
        JOB,
        Variable("team", "team", "kuota_oldest_pending_age_seconds"),
    ),
    rows=(_USAGE, _NOW, _WAITING),
)
