# SPDX-License-Identifier: Apache-2.0
"""Which server commands connect to, and their messages if there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from cli.cluster import Cluster
from kuota.cli.connect import explained
from kuota.kube.errors import Unreachable
from kuota.up.state_dir import RunningInstance, StateDir


def test_a_certificate_that_proves_nothing_is_distinguished_from_silence() -> None:
    error = Unreachable("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")
    assert "the certificate of the server cannot be verified" in explained(error).message


def test_without_a_server_the_status_is_three(cluster: Cluster) -> None:
    said = cluster.kuota("list", "cq", code=3, KUBECONFIG="")
    assert "Start one with `kuota up`" in said
    cluster.close()
    assert "does not answer" in cluster.kuota("list", "cq", code=3)
    assert "no such file" in cluster.kuota("list", "cq", "--kubeconfig", "/none", code=3)


def test_a_token_that_is_not_known_is_refused(cluster: Cluster) -> None:
    text = cluster.kubeconfig.read_text().replace("admin-token", "wrong")
    cluster.kubeconfig.write_text(text)
    assert "does not accept these credentials" in cluster.kuota("list", "cq", code=1)


def test_the_running_installation_is_found(cluster: Cluster) -> None:
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    running = RunningInstance(pid=os.getpid(), started=started, port=cluster.port, version="test")
    StateDir(cluster.folder).announce(running)
    state = str(cluster.folder)
    said = cluster.kuota("describe", "ns", "default", KUBECONFIG="", KUOTA_STATE=state)
    assert "Name:        default\n" in said


OTHER_USER = """
import os, sys
import kuota.kube.config, kuota.up.state_dir
from kuota.cli.connect import Choice, connection_of
if os.geteuid() == 0:
    os.setuid(65534)
print(connection_of(Choice()).server)
"""


def test_somebody_elses_installation_is_reached_by_its_socket() -> None:
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    with TemporaryDirectory() as folder:
        state_dir = StateDir(Path(folder))
        state_dir.root.chmod(0o711)
        state_dir.announce(
            RunningInstance(pid=os.getpid(), started=started, port=1, version="test")
        )
        state_dir.kubeconfig.touch(mode=0)
        env = os.environ | {"KUOTA_STATE": folder, "KUBECONFIG": "", "HOME": "/"}
        done = subprocess.run(
            [sys.executable, "-c", OTHER_USER], env=env, check=True, capture_output=True, text=True
        )
        assert f"unix://{state_dir.socket}\n" == done.stdout
