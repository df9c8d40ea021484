# SPDX-License-Identifier: Apache-2.0
"""Which server commands connect to, and their messages if there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cli.cluster import MEMBER_TOKEN, TOKEN, Cluster, job, workload
from kuota.cli.connect import explained
from kuota.kube.errors import ApiError, Unreachable
from kuota.kube.resources import JOBS, NAMESPACES, WORKLOADS
from kuota.server import http
from kuota.server.requests import User
from kuota.up import state_dir as state_dirs
from kuota.up.state_dir import RunningInstance, StateDir


def test_a_certificate_that_proves_nothing_is_distinguished_from_silence() -> None:
    error = Unreachable("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate")
    assert "the certificate of the server cannot be verified" in explained(error).message


def test_several_faults_are_reported_once_each() -> None:
    causes = [{"field": "spec.a", "message": "wrong"}, {"field": "spec.b", "message": "wrong"}]
    message = 'Job.batch "x" is invalid: [spec.a: wrong, spec.b: wrong]'
    error = ApiError(422, "Invalid", message, {"causes": causes})
    said = 'Job.batch "x" is invalid:\n  spec.a: wrong\n  spec.b: wrong'
    assert said == explained(error).message


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


def test_a_forbidden_namespace_leads_to_those_of_the_team(cluster: Cluster) -> None:
    text = cluster.kubeconfig.read_text().replace(TOKEN, MEMBER_TOKEN)
    cluster.kubeconfig.write_text(text)
    assert "Ask an admin for access" in cluster.kuota("list", code=1)
    labels = {"kuota.dev/team": "vision"}
    for name in ("vision", "vision-eval"):
        cluster.create(NAMESPACES, {"metadata": {"name": name, "labels": labels}})
    assert "You can work in vision and vision-eval: say -n vision" in cluster.kuota("list", code=1)
    assert "" == cluster.kuota("list", "-n", "vision")
    made = cluster.create(JOBS, job("train"))
    place = {"metadata": {"name": "job-train", "namespace": "vision-eval"}}
    cluster.create(WORKLOADS, workload("job-train", made) | place)
    assert "workload.kueue.x-k8s.io/job-train\n" == cluster.kuota("list", "-A", "-o", "name")
    said = cluster.kuota("create", "lq", "x", "-c", "a", "-i", "-n", "vision", code=1)
    assert said.endswith("Members of a team may not do this. Ask an admin.\n")
    assert cluster.kuota("create", "cq", "x", code=1).endswith("Ask an admin for access.\n")
    said = cluster.kuota("stop", "workload", "job-train", "-n", "vision-eval", code=1)
    assert said.endswith("Members of a team may not do this. Ask an admin.\n")


def test_a_local_user_of_one_team_needs_no_namespace_option(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = User("ann", ("vision", "system:authenticated"), "1001")
    monkeypatch.setattr(http, "unix_user", lambda uid, owner: ann)
    text = cluster.kubeconfig.read_text().replace(TOKEN, "''")
    address = f"http://127.0.0.1:{cluster.port}"
    cluster.kubeconfig.write_text(text.replace(address, f"unix://{cluster.socket}"))
    labels = {"kuota.dev/team": "vision"}
    cluster.create(NAMESPACES, {"metadata": {"name": "vision", "labels": labels}})
    assert "found in namespace vision" in cluster.hints("list")
    assert 'in the namespace "default"' in cluster.kuota("list", "-n", "default", code=1)
    cluster.create(NAMESPACES, {"metadata": {"name": "vision-eval", "labels": labels}})
    said = cluster.kuota("list", code=1)
    assert said.endswith("You can work in vision and vision-eval: say -n vision.\n")


def test_what_nobody_may_do_does_not_lead_to_an_admin(cluster: Cluster) -> None:
    role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: x}\n"
    said = cluster.kuota("apply", "-f", "-", stdin=role, code=1)
    assert "the roles are fixed" in said
    assert "Ask an admin" not in said


@pytest.mark.parametrize(
    "args",
    [
        *(("logs", "job/"), ("logs", ""), ("logs", "job/a/b"), ("describe", "job", "")),
        *(("list", "-n", "a/b"), ("list", "pods", "--for", "job/"), ("stop", "wl", "..")),
    ],
)
def test_a_name_that_no_object_can_have_is_wrong_usage(
    cluster: Cluster, args: tuple[str, ...]
) -> None:
    assert "is not a valid object name" in cluster.kuota(*args, code=2)


def _announce(cluster: Cluster) -> None:
    """Let this process be the control plane that runs from the folder of the server."""
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    running = RunningInstance(pid=os.getpid(), started=started, port=cluster.port, version="test")
    StateDir(cluster.folder).announce(running)


@pytest.mark.skipif(os.geteuid() != 0, reason="the directory of root must belong to root")
def test_the_control_plane_of_root_is_found_by_all_users(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_dirs, "SYSTEM_STATE", cluster.folder)
    home = cluster.folder / "home"

    def said(*args: str, code: int, state: str = "") -> str:
        own = {"HOME": str(home), "XDG_STATE_HOME": str(home), "KUOTA_STATE": state}
        return cluster.kuota(*args, stdin=None, code=code, KUBECONFIG="", **own)

    assert "no server to talk to" in said("list", "cq", code=3)
    assert "No control plane is running" in said("status", code=3)
    _announce(cluster)
    assert "Name:        default\n" in said("describe", "ns", "default", code=0)
    assert "Kuota test is running" in said("status", code=0)
    assert "no server to talk to" in said("list", "cq", code=3, state=str(home))


def test_the_status_names_the_server_of_the_kubeconfig(cluster: Cluster) -> None:
    said = cluster.kuota("status", code=3)
    server = f"the server that $KUBECONFIG selects, http://127.0.0.1:{cluster.port}, which"
    assert "No control plane is running" in said
    assert f"{server} responds.\n" in said
    cluster.close()
    assert f"{server} does not answer" in cluster.kuota("status", code=3)
    assert "Commands use" not in cluster.kuota("status", code=3, KUBECONFIG="")


def test_the_running_installation_is_found(cluster: Cluster) -> None:
    _announce(cluster)
    state = str(cluster.folder)
    said = cluster.kuota("describe", "ns", "default", KUBECONFIG="", KUOTA_STATE=state)
    assert "Name:        default\n" in said


def test_the_kubeconfig_of_another_user_is_not_selected(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    _announce(cluster)
    state = str(cluster.folder)
    line = f"export KUBECONFIG={cluster.kubeconfig}\n"
    assert line == cluster.kuota("status", "-o", "env", KUOTA_STATE=state)
    monkeypatch.setattr("os.access", lambda *_: False)
    said = cluster.kuota("status", "-o", "env", code=1, KUOTA_STATE=state)
    assert "export" not in said
    assert "ask an admin for `kuota token create`\n" in said


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
