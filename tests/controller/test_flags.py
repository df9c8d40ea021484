# SPDX-License-Identifier: Apache-2.0
"""Flags and configuration file in both versions; all faults are reported at once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import yaml

from kuota.api.gates import Gate
from kuota.control.parts import DEFAULT, Part
from kuota.controller.flags import (
    ControllerSettings,
    Flags,
    InvalidSettings,
    chosen_connection,
    settings,
)
from kuota.history.address import SqliteFile
from kuota.kube.errors import ConfigError

V1BETA2 = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
V1BETA1 = {"apiVersion": "config.kueue.x-k8s.io/v1beta1", "kind": "Configuration"}


class ControllerFiles:
    """A folder with a kubeconfig, a configuration file, and a service account."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubeconfig = self._written("kubeconfig", _kubeconfig("https://named:6443"))
        self.account = folder / "account"

    def settings(self, config: object = None, **flags: object) -> ControllerSettings:
        path = self._written("config.yaml", config) if config is not None else ""
        given = {"kubeconfig": self.kubeconfig} | flags
        chosen = Flags(config=path, **given)  # type: ignore[arg-type]
        return settings(chosen, {"HOME": str(self.folder)}, self.account)

    def faults(self, config: object = None, **flags: object) -> list[str]:
        with pytest.raises(InvalidSettings) as caught:
            self.settings(config, **flags)
        return caught.value.faults

    def serve_in_cluster(self, namespace: str = "queueing") -> None:
        self.account.mkdir()
        (self.account / "namespace").write_text(f"{namespace}\n")
        (self.account / "token").write_text("t")

    def _written(self, name: str, content: object) -> str:
        path = self.folder / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(path)


def _kubeconfig(server: str) -> object:
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": server}}],
    }


@pytest.fixture
def desk(tmp_path: Path) -> ControllerFiles:
    return ControllerFiles(tmp_path)


def test_without_a_file_the_defaults_are_kueues(desk: ControllerFiles) -> None:
    found = desk.settings()
    config, election = found.config, found.config.leader_election
    assert DEFAULT == found.parts
    assert "kueue-system" == found.namespace
    assert (":8081", ":8443") == (
        config.health.health_probe_bind_address,
        config.metrics.bind_address,
    )
    assert 9443 == config.webhook.port
    assert election is not None
    assert election.leader_elect
    assert "c1f6bfd2.kueue.x-k8s.io" == election.resource_name
    assert config.client_connection is not None
    assert (300, 500) == (config.client_connection.qps, config.client_connection.burst)
    assert config.wait_for_pods_ready is not None


def test_the_older_version_of_the_file_is_read_with_its_own_defaults(desk: ControllerFiles) -> None:
    found = desk.settings(V1BETA1 | {"clientConnection": {"qps": 50, "burst": 100}})
    assert found.config.wait_for_pods_ready is None
    assert found.config.client_connection is not None
    assert 50 == found.config.client_connection.qps


def test_the_namespace_is_that_of_the_pod_unless_the_file_names_one(desk: ControllerFiles) -> None:
    desk.serve_in_cluster("queueing")
    assert "queueing" == desk.settings().namespace
    assert "other" == desk.settings(V1BETA2 | {"namespace": "other"}).namespace
    assert "queueing" == desk.settings(V1BETA2 | {"namespace": ""}).namespace


def test_everything_that_is_wrong_is_said_at_once(desk: ControllerFiles) -> None:
    config = V1BETA2 | {
        "health": {"healthProbeBindAddress": "8081"},
        "metrics": {"bindAddress": "::1:80"},
        "leaderElection": {
            "leaseDuration": "10s",
            "renewDeadline": "10s",
            "retryPeriod": "9s",
            "resourceLock": "configmaps",
        },
        "webhook": {"port": 9443},
        "fairSharing": {},
        "featureGates": {"NoSuchGate": True},
    }
    faults = desk.faults(config, parts="core,brain", log_level="loud", kubeconfig="/no/such/file")
    for words in (
        "healthProbeBindAddress",
        "leaseDuration: must be longer than renewDeadline",
        "renewDeadline: must be longer than 1.2 times retryPeriod",
        "resourceLock",
        "metrics.bindAddress",
        "fairSharing.preemptionStrategies",
        "NoSuchGate",
        "--parts: unknown part brain",
        "--zap-log-level",
        "--kubeconfig /no/such/file",
    ):
        assert any(words in each for each in faults), (words, faults)


def test_unknown_fields_and_unreadable_files_are_refused(desk: ControllerFiles) -> None:
    faults = desk.faults(V1BETA2 | {"webhok": {}, "health": {"por": 1}})
    assert 2 == len(faults), faults
    assert desk.faults("a: [")
    with pytest.raises(InvalidSettings, match=r"no\.yaml"):
        settings(Flags(config=str(desk.folder / "no.yaml"), kubeconfig=desk.kubeconfig), {})


def test_gates_come_from_the_flag_or_from_the_file_but_not_from_both(desk: ControllerFiles) -> None:
    assert desk.settings(feature_gates="PriorityBoost=true").gates.on(Gate.PriorityBoost)
    file = V1BETA2 | {"featureGates": {"PriorityBoost": True}}
    assert desk.settings(file).gates.on(Gate.PriorityBoost)
    assert desk.faults(file, feature_gates="PriorityBoost=true")


def test_the_history_runs_alone_and_needs_a_database(desk: ControllerFiles) -> None:
    found = desk.settings(parts="history", history_database="/records/history.db")
    assert SqliteFile("/records/history.db") == found.history
    assert None is desk.settings(history_database="/records/history.db").history
    faults = desk.faults(V1BETA2, parts="history,core")
    assert any("process of its own" in each for each in faults)
    assert any("needs a file or a database" in each for each in faults)
    (fault,) = desk.faults(V1BETA2, parts="history", history_database="mysql://u:secret@h/d")
    assert fault.startswith("--history-database: ")
    assert "secret" not in fault


def test_parts_are_picked_by_name(desk: ControllerFiles) -> None:
    assert {Part.WEBHOOKS, Part.CORE} == desk.settings(parts="core, webhooks").parts


@pytest.mark.parametrize(
    ("flags", "level", "json"),
    [
        ({}, logging.INFO, True),
        ({"log_level": "2"}, logging.INFO - 2, True),
        ({"log_level": "5"}, logging.DEBUG, True),
        ({"log_level": "error"}, logging.ERROR, True),
        ({"log_devel": True}, logging.DEBUG, False),
        ({"log_devel": True, "log_encoder": "json"}, logging.DEBUG, True),
        ({"log_encoder": "console", "verbosity": 6}, logging.DEBUG, False),
    ],
)
def test_log_flags_mean_what_they_mean_to_kueue(
    desk: ControllerFiles, flags: dict[str, object], level: int, json: bool
) -> None:
    found = desk.settings(**flags).log
    assert (level, json) == (found.level, found.json)


def test_in_a_pod_its_account_counts_unless_a_file_is_named(
    desk: ControllerFiles, tmp_path: Path
) -> None:
    desk.serve_in_cluster()
    pod = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOME": str(tmp_path)}
    home = tmp_path / ".kube"
    home.mkdir()
    (home / "config").write_text(yaml.safe_dump(_kubeconfig("https://home")))

    def server(path: str, environ: dict[str, str]) -> str:
        return chosen_connection(path, environ, desk.account).server

    assert "https://10.0.0.1:443" == server("", pod)
    assert "https://named:6443" == server(desk.kubeconfig, pod)
    assert "https://named:6443" == server("", pod | {"KUBECONFIG": desk.kubeconfig})
    assert "https://home" == server("", {"HOME": str(tmp_path)})
    with pytest.raises(ConfigError):
        server("", {"HOME": "/nowhere"})


def test_urls_of_exporters_are_validated_with_all_other_flags() -> None:
    with pytest.raises(InvalidSettings) as rejected:
        settings(
            Flags(dcgm_exporter=("dcgm:9400",), dcgm_prometheus="ftp://x", parts="nothing"), {}
        )
    assert 2 == sum("not a URL" in each for each in rejected.value.faults)
    assert any("--parts" in each for each in rejected.value.faults)
