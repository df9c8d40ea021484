# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus scrapes a running control plane: every panel and every alert gets data."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from attack.members import job
from hang import HANG_S
from kuota.install.monitoring.alerts import ALERTS
from kuota.install.monitoring.objects import DASHBOARDS
from kuota.install.monitoring.promql import selectors
from kuota.metrics.all_metrics import samples
from kuota.metrics.catalog import METRICS
from kuota.metrics.metric import MetricType
from kuota.metrics.own_catalog import OWN_METRICS
from observability.prometheus import Prometheus, scraping
from up.machine import Machine, running

ROOT = Path(__file__).parents[2]
RULES = ROOT / "manifests" / "monitoring" / "alerts.yaml"
GATES = (
    "MetricsForCohorts=true,UnadmittedWorkloadsObservability=true,"
    "MetricForWorkloadCreationLatency=true"
)
CONFIG = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
metrics: {enableClusterQueueResources: true}
fairSharing: {preemptionStrategies: [LessThanOrEqualToFinalShare]}
waitForPodsReady: {timeout: 10m, blockAdmission: false}
"""
TEAM = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: TEAM}
spec:
  cohortName: all
  namespaceSelector: {}
  preemption: {withinClusterQueue: LowerPriority, reclaimWithinCohort: Never}
  resourceGroups:
  - coveredResources: ["nvidia.com/gpu"]
    flavors: [{name: default, resources: [{name: nvidia.com/gpu, nominalQuota: QUOTA}]}]
---
apiVersion: v1
kind: Namespace
metadata: {name: TEAM}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: main, namespace: TEAM}
spec: {clusterQueue: TEAM}
"""
COMMON = """
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: default}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: high}
value: 100
"""
VARIABLES = {
    "$__rate_interval": "10m",
    "$__range": "10m",
    "$cluster_queue": ".*",
    "$team": ".*",
    "$job": "kuota",
}
NOT_HERE = {
    "multikueue_workloads_dispatched_total": "there is one cluster",
    "multikueue_workloads_admitted_total": "there is one cluster",
    "kueue_admission_checks_wait_time_seconds": "there are no admission checks",
    "kueue_local_queue_admission_checks_wait_time_seconds": "there are no admission checks",
    "kueue_pod_scheduling_gate_removal_seconds": "the integration of Pods is not enabled",
    "kueue_local_queue_admission_fair_sharing_usage": "no queue orders by usage",
    "kueue_preemption_target_recomputations_total": "no preemptions compete",
}
"""Metrics of Kueue that this story does not cause, each with the reason."""


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    config = tmp_path_factory.mktemp("config") / "kuota.yaml"
    config.write_text(CONFIG)
    options = ("--gpus", "4", "--idle-after", "2", "--feature-gates", GATES)
    with running(*options, "--config", str(config)) as found:
        found.apply(COMMON)
        found.apply(TEAM.replace("TEAM", "vision").replace("QUOTA", "3"))
        found.apply(TEAM.replace("TEAM", "speech").replace("QUOTA", "1"))
        yield found


@pytest.fixture(scope="module")
def prometheus(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    reader = folder / "reader.kubeconfig"
    machine.kuota("token", "create", "prometheus", "--metrics", "--out", str(reader))
    view = ("--kubeconfig", str(reader), "config", "view", "--raw", "-o")
    token = machine.kubectl(*view, "jsonpath={.users[0].user.token}")
    server = machine.kubectl(*view, "jsonpath={.clusters[0].cluster.server}")
    target = server.removeprefix("https://")
    authority = machine.state / "tls" / "server.crt"
    with scraping(folder, target, token, authority, RULES) as found:
        found.wait('up{job="kuota"} == 1')
        _work(machine, found)
        yield found


def _work(machine: Machine, prometheus: Prometheus) -> None:
    """Cause admissions, loans, waiting, preemptions, restarts and idle devices, each twice."""
    _submit(machine, "speech", "borrows", ["sleep", "3600"], gpus=2)
    machine.started("borrows", namespace="speech")
    _submit(machine, "speech", "waits", ["sleep", "3600"], gpus=4)
    _submit(machine, "vision", "low", ["sleep", "3600"], gpus=2)
    for count in (1, 2):
        machine.started("low", namespace="vision")
        name = f"urgent-{count}"
        _submit(machine, "vision", name, ["sleep", "2"], priority="high")
        machine.wait(f"job/{name} -n vision", "condition=complete")
        restarts = "kuota_eviction_to_restart_time_seconds_count"
        prometheus.wait(f'{restarts}{{reason="Preempted"}} >= {count}')
    prometheus.wait("kuota_device_idle_seconds_total > 2")


def _submit(
    machine: Machine, team: str, name: str, command: list[str], gpus: int = 1, priority: str = ""
) -> None:
    made = job(name, command, gpus=gpus)
    made["metadata"]["namespace"] = team
    if priority:
        labels = made["metadata"].setdefault("labels", {})
        labels["kueue.x-k8s.io/priority-class"] = priority
    machine.kubectl("create", "-f", "-", stdin=json.dumps(made))


def _filled(expression: str) -> str:
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


PANELS = [
    pytest.param(query.shown, id=f"{dashboard.uid}: {panel.title} {number}")
    for dashboard in DASHBOARDS
    for panel in dashboard.panels()
    for number, query in enumerate(panel.queries)
]


@pytest.mark.slow
def test_every_panel_and_every_alert_gets_data_of_a_running_control_plane(
    prometheus: Prometheus,
) -> None:
    lacking = {query.values[0] for query in PANELS}
    until = time.monotonic() + HANG_S
    while lacking and time.monotonic() < until:
        lacking = {each for each in lacking if not _has_numbers(prometheus, str(each))}
        time.sleep(1 if lacking else 0)
    assert set() == lacking
    assert {each.name: "ok" for each in ALERTS} == prometheus.rules()


def _has_numbers(prometheus: Prometheus, expression: str) -> bool:
    found = prometheus.query(_filled(expression))
    return any(not math.isnan(float(each["value"][1])) for each in found)


@pytest.mark.slow
def test_variables_of_dashboards_have_values(prometheus: Prometheus) -> None:
    for dashboard in DASHBOARDS:
        for each in dashboard.variables:
            found = prometheus.query(f"count by ({each.label}) ({each.series})")
            assert all(series["metric"].get(each.label) for series in found), each.name
            assert found, each.name


@pytest.mark.slow
def test_one_machine_serves_every_metric_that_a_controller_has(prometheus: Prometheus) -> None:
    found = prometheus.query('count by (__name__) ({job="kuota"})')
    names = {each["metric"]["__name__"] for each in found}
    expected = {
        f"{name}_bucket" if metric.kind is MetricType.HISTOGRAM else name
        for name, metric in (METRICS | OWN_METRICS).items()
        if name not in NOT_HERE
    }
    assert set() == expected - names
    known = set(samples()) | {"up"}
    foreign = {each for each in names - known if not each.startswith(("scrape_", "python_"))}
    assert {"ALERTS", "ALERTS_FOR_STATE"} >= foreign


@pytest.mark.slow
def test_every_series_has_the_labels_of_the_catalog(prometheus: Prometheus) -> None:
    known = samples()
    used = {each.name for query in PANELS for each in selectors(str(query.values[0]))}
    for name in sorted(used & set(known)):
        for each in prometheus.query(name):
            labels = set(each["metric"]) - {"__name__", "job", "instance"}
            # Prometheus drops labels with an empty value.
            assert labels <= known[name], name
