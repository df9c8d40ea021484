# SPDX-License-Identifier: Apache-2.0
"""`/metrics` and `kubectl top` of one machine."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from attack.members import Member, job, join
from up.machine import Machine, running


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    with running("--gpus", "2") as found:
        yield found


@pytest.fixture(scope="module")
def ann(machine: Machine, tmp_path_factory: pytest.TempPathFactory) -> Member:
    ann = join(machine, "ann", "vision", tmp_path_factory.mktemp("ann"))
    ann.create(job("busy", ["sh", "-c", "while :; do :; done"]))
    machine.started("busy", namespace="vision")
    return ann


@pytest.fixture
def bob(machine: Machine, tmp_path: Path) -> Member:
    return join(machine, "bob", "speech", tmp_path)


def test_metrics_of_queues_server_and_runner_are_served(machine: Machine, ann: Member) -> None:
    text = ann.kubectl("get", "--raw", "/metrics").stdout
    samples = dict(line.rpartition(" ")[::2] for line in text.splitlines() if line[:1] != "#")
    queue = '{cluster_queue="vision",replica_role="standalone"}'
    assert "1.0" == samples[f"kueue_admitted_active_workloads{queue}"]
    assert "1.0" == samples['kuota_runner_devices_allocated{resource="nvidia.com/gpu"}']
    assert "2.0" == samples['kuota_runner_devices{resource="nvidia.com/gpu"}']
    assert float(samples["apiserver_storage_size_bytes"]) > 0
    assert float(samples["apiserver_registered_watchers"]) > 0
    assert "1.0" == samples['apiserver_storage_objects{resource="jobs.batch"}']
    created = '{code="201",resource="jobs.batch",verb="POST"}'
    assert float(samples[f"apiserver_request_total{created}"]) >= 1
    assert any(name.startswith("apiserver_request_duration_seconds_bucket") for name in samples)
    assert any(name.startswith("controller_runtime_reconcile_total") for name in samples)


def test_metrics_require_a_token(machine: Machine) -> None:
    server = machine.kubectl("config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
    for path in ("/metrics", "/apis/metrics.k8s.io/v1beta1/nodes"):
        done = subprocess.run(
            ["curl", "-sk", "-o", "/dev/null", "-w", "%{http_code}", server + path],
            capture_output=True,
            text=True,
            check=True,
        )
        assert "401" == done.stdout


def test_top_shows_the_usage_of_pods_and_nodes(machine: Machine, ann: Member) -> None:
    pods = ann.kubectl("top", "pods", "--no-headers").stdout.split()
    assert pods[0].startswith("busy-")
    assert 0 < int(pods[1].removesuffix("m"))
    assert pods[2].endswith("Mi")
    shown = ann.kubectl("top", "pods", "--containers", "-l", "job-name=busy").stdout
    assert "main" in shown
    assert "busy" not in ann.kubectl("top", "pods", "-l", "job-name=other").stdout
    assert "%" in ann.kubectl("top", "nodes").stdout


def test_a_member_does_not_see_the_pods_of_another_team(ann: Member, bob: Member) -> None:
    pod = ann.kubectl("get", "pods", "-o", "jsonpath={.items[0].metadata.name}").stdout
    for attempt in (
        ("top", "pods", "-n", "vision"),
        ("top", "pods", "-A"),
        ("top", "pod", pod, "-n", "vision"),
    ):
        refused = bob.kubectl(*attempt)
        assert 0 != refused.returncode
        assert "orbidden" in refused.stderr
    assert 0 == bob.kubectl("top", "nodes").returncode
    assert "No resources found" in bob.kubectl("top", "pods").stderr


def test_a_member_does_not_see_the_metrics_of_another_team(
    machine: Machine, ann: Member, bob: Member, tmp_path: Path
) -> None:
    own, other = _teams(ann), _teams(bob)
    assert "vision" in own
    assert "vision" not in other
    assert "speech" in other
    reader = tmp_path / "prometheus.kubeconfig"
    machine.kuota("token", "create", "prometheus", "--metrics", "--out", str(reader))
    prometheus = Member(reader, "default")
    assert {"vision", "speech"} <= _teams(prometheus)
    assert "orbidden" in prometheus.kubectl("get", "jobs", "-n", "vision").stderr
    assert "orbidden" in prometheus.kubectl("get", "workloads", "-A").stderr


def _teams(member: Member) -> set[str]:
    """The namespaces in the metrics that a member reads."""
    text = member.kubectl("get", "--raw", "/metrics").stdout
    assert "kueue_cluster_queue_nominal_quota" in text
    return {
        sample.labels[name]
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        for name in ("team", "namespace")
        if name in sample.labels
    }
