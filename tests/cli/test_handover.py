# SPDX-License-Identifier: Apache-2.0
"""`kuota handover`, without a cluster."""

from __future__ import annotations

from pathlib import Path

from cli.cluster import Cluster

CONFIG = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"


def test_handover_is_rejected_on_the_embedded_server(cluster: Cluster) -> None:
    assert "this server is `kuota up`" in cluster.kuota("handover", code=1)


def test_a_bad_configuration_is_reported_before_any_server_is_asked(
    cluster: Cluster, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"{CONFIG}leaderElection: {{leaseDuration: soon}}\n")
    said = cluster.kuota("handover", "--config", str(config), "--kubeconfig", "/nowhere", code=1)
    assert "leaderElection.leaseDuration" in said
    assert "Nothing was handed over" in said


def test_it_says_which_server_is_meant(cluster: Cluster) -> None:
    assert "no such file" in cluster.kuota("handover", "--kubeconfig", "/nowhere", code=3)
