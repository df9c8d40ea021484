# SPDX-License-Identifier: Apache-2.0
"""A shared machine: members connect to its address and are limited to their roles."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
import trustme

from up.machine import KUBECTL, KUOTA, Machine

TEAM = """
apiVersion: v1
kind: Namespace
metadata: {name: vision, labels: {kuota.dev/team: vision}}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: vision}
spec: {namespaceSelector: {}}
"""


def test_a_member_is_let_in_by_token_without_a_restart_and_out_again(tmp_path: Path) -> None:
    authority = trustme.CA()
    leaf = authority.issue_cert("localhost", "127.0.0.2")
    leaf.private_key_pem.write_to_path(str(tmp_path / "tls.key"))
    leaf.cert_chain_pems[0].write_to_path(str(tmp_path / "tls.crt"))
    authority.cert_pem.write_to_path(str(tmp_path / "ca.crt"))
    machine = Machine(tmp_path / "state")
    port = _free_port()
    machine.up(
        *("--address", f"127.0.0.2:{port}"),
        *("--tls-cert", str(tmp_path / "tls.crt"), "--tls-key", str(tmp_path / "tls.key")),
    )
    try:
        machine.apply(TEAM)
        ann = tmp_path / "ann.kubeconfig"
        _kuota(
            machine,
            *("create", "ann", "--team", "vision", "-n", "vision", "--out", str(ann)),
            *("--server", f"https://127.0.0.2:{port}"),
            *("--certificate-authority", str(tmp_path / "ca.crt")),
        )
        assert "job.batch/hers" in _kubectl(ann, "create", "job", "hers", "--image=x", "--", "true")
        assert "vision" in _kubectl(ann, "get", "clusterqueues", "-o", "name")
        patch = '{"spec":{"cohortName":"all"}}'
        refused = ("patch", "clusterqueue", "vision", "--type=merge", "-p", patch)
        for attempt in (refused, ("get", "secrets", "-n", "default")):
            with pytest.raises(subprocess.CalledProcessError) as failure:
                _kubectl(ann, *attempt)
            assert "Forbidden" in failure.value.stderr
        _kuota(machine, "revoke", "ann")
        with pytest.raises(subprocess.CalledProcessError) as failure:
            _kubectl(ann, "get", "jobs")
        assert "Unauthorized" in failure.value.stderr or "logged in" in failure.value.stderr
    finally:
        machine.down()


@pytest.mark.slow
def test_kubeconfigs_outlive_a_restart(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    try:
        machine.up()
        before = (tmp_path / "kubeconfig").read_text()
        machine.kill()
        machine.up()
        assert before == (tmp_path / "kubeconfig").read_text()
        assert "default" in machine.kubectl("get", "namespaces", "-o", "name")
    finally:
        machine.down()


def test_kuota_get_runs_kubectl_on_the_control_plane_of_the_machine(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    machine.up()
    try:
        done = subprocess.run(
            [KUOTA, "get", "namespace", "default", "-o", "name"],
            env=os.environ | {"KUOTA_STATE": str(tmp_path), "KUBECONFIG": ""},
            check=True,
            capture_output=True,
            text=True,
        )
        assert "namespace/default\n" == done.stdout
    finally:
        machine.down()


def _kuota(machine: Machine, *words: str) -> None:
    command = [KUOTA, "token", *words, "--state", str(machine.state)]
    subprocess.run(command, check=True, capture_output=True, text=True)


def _kubectl(kubeconfig: Path, *words: str) -> str:
    command = [KUBECTL, "--kubeconfig", str(kubeconfig), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def _free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.2", 0))
        return int(found.getsockname()[1])
