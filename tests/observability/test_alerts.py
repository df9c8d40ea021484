# SPDX-License-Identifier: Apache-2.0
"""Each alert fires when it should, and only then, as `promtool test rules` evaluates it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from kuota.install.monitoring.alerts import ALERTS
from observability.prometheus import binary

ROOT = Path(__file__).parents[2]
RULES = ROOT / "manifests" / "monitoring" / "alerts.yaml"
BUILD = 'kueue_build_info{job="k",instance="i"}'
Q = 'cluster_queue="cq",replica_role="leader"'
PLACE = f'{Q},team="a",flavor="f",resource="gpu"'
ON = 'job="k",instance="i"'


def _bucket(name: str, labels: str, fast: str, slow: str) -> dict[str, str]:
    """A histogram whose observations are at most 1, or far above all limits of alerts."""
    return {
        f'{name}_bucket{{{labels},le="1"}}': fast,
        f'{name}_bucket{{{labels},le="100000"}}': slow,
        f'{name}_bucket{{{labels},le="+Inf"}}': slow,
    }


CASES: dict[str, tuple[str, dict[str, str], dict[str, str]]] = {
    "KuotaAbsent": ("10m", {"other": "0x100"}, {BUILD: "1x100"}),
    "KuotaNoLeader": (
        "10m",
        {BUILD: "1x100", f"leader_election_master_status{{{ON}}}": "0x100"},
        {BUILD: "1x100", f"leader_election_master_status{{{ON}}}": "1x100"},
    ),
    "KuotaInternalErrors": (
        "30m",
        {'kuota_internal_errors_total{where="a"}': "_x25 1x100"},
        {'kuota_internal_errors_total{where="a"}': "3x100"},
    ),
    "KuotaReconcileErrors": (
        "40m",
        {
            BUILD: "1x100",
            f'controller_runtime_reconcile_errors_total{{{ON},controller="job"}}': "0+60x100",
        },
        {f'controller_runtime_reconcile_errors_total{{{ON},controller="job"}}': "0+60x100"},
    ),
    "KuotaSchedulingSlow": (
        "40m",
        _bucket("kueue_admission_attempt_duration_seconds", Q, "0+1x100", "0+60x100"),
        _bucket("kueue_admission_attempt_duration_seconds", Q, "0+60x100", "0+60x100"),
    ),
    "KuotaQueueInactive": (
        "30m",
        {f'kueue_cluster_queue_status{{{Q},status="pending"}}': "1x100"},
        {f'kueue_cluster_queue_status{{{Q},status="pending"}}': "0x100"},
    ),
    "KuotaWorkloadWaitsLong": (
        "30m",
        {f'kuota_oldest_pending_age_seconds{{{Q},team="a"}}': "90000x100"},
        {f'kuota_oldest_pending_age_seconds{{{Q},team="a"}}': "80000x100"},
    ),
    "KuotaManyPreemptions": (
        "70m",
        {f'kueue_evicted_workloads_total{{{Q},reason="Preempted"}}': "0+1x100"},
        {f'kueue_evicted_workloads_total{{{Q},reason="PodsReadyTimeout"}}': "0+1x100"},
    ),
    "KuotaMuchWorkLost": (
        "10h",
        {
            f'kuota_device_lost_seconds_total{{{PLACE},reason="Preempted"}}': "0+30x1000",
            f"kuota_device_seconds_total{{{PLACE}}}": "0+60x1000",
        },
        {
            f'kuota_device_lost_seconds_total{{{PLACE},reason="Preempted"}}': "0+30x1000",
            f"kuota_device_seconds_total{{{PLACE}}}": "0+600x1000",
        },
    ),
    "KuotaSlowRestarts": (
        "10h",
        _bucket("kuota_eviction_to_restart_time_seconds", Q, "0+0x1000", "0+1x1000"),
        _bucket("kuota_eviction_to_restart_time_seconds", Q, "0+1x1000", "0+1x1000"),
    ),
    "KuotaDevicesIdle": (
        "2h",
        {f'kuota_idle_devices{{{Q},team="a",resource="gpu"}}': "1x200"},
        {f'kuota_idle_devices{{{Q},team="a",resource="gpu"}}': "0x200"},
    ),
    "KuotaApiSlow": (
        "30m",
        {BUILD: "1x100"} | _bucket("apiserver_request_duration_seconds", ON, "0+1x100", "0+60x100"),
        _bucket("apiserver_request_duration_seconds", ON, "0+1x100", "0+60x100"),
    ),
    "KuotaRequestsRejected": (
        "30m",
        {
            BUILD: "1x100",
            f'apiserver_flowcontrol_rejected_requests_total{{{ON},reason="x"}}': "0+120x100",
        },
        {
            BUILD: "1x100",
            f'apiserver_flowcontrol_rejected_requests_total{{{ON},reason="x"}}': "0+6x100",
        },
    ),
    "KuotaStoreLarge": (
        "2h",
        {BUILD: "1x200", f"apiserver_storage_size_bytes{{{ON}}}": "11000000000x200"},
        {BUILD: "1x200", f"apiserver_storage_size_bytes{{{ON}}}": "9000000000x200"},
    ),
}
"""By alert: when to evaluate it, series with which it fires, and series with which it does not."""


def test_every_alert_has_a_case() -> None:
    assert {each.name for each in ALERTS} == set(CASES)


def _firing(folder: Path, name: str, at: str, series: dict[str, str]) -> str:
    """Return what promtool says about an alert that fires; "" if it is silent."""
    test: dict[str, Any] = {
        "interval": "1m",
        "input_series": [{"series": each, "values": values} for each, values in series.items()],
        "alert_rule_test": [{"eval_time": at, "alertname": name, "exp_alerts": []}],
    }
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"rule_files": [str(RULES)], "tests": [test]}))
    command = [binary("promtool"), "test", "rules", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr if done.returncode else ""


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_an_alert_fires_only_when_it_should(name: str, tmp_path: Path) -> None:
    at, fires, silent = CASES[name]
    assert "" == _firing(tmp_path, name, at, silent)
    shown = _firing(tmp_path, name, at, fires)
    assert f'alertname="{name}"' in shown
    assert "summary" in shown


@pytest.mark.slow
def test_prometheus_accepts_the_rules() -> None:
    command = [binary("promtool"), "check", "rules", str(RULES)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout + done.stderr
