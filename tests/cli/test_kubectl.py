# SPDX-License-Identifier: Apache-2.0
"""`kuota get` and the other commands that run kubectl."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.cluster import Cluster, job
from hang import HANG_S
from kuota.kube.resources import JOBS, NAMESPACES
from kuota.server import http
from kuota.server.requests import User
from kuota.up.state_dir import RunningInstance, StateDir
from server.served import kubectl

KUOTA = "import sys; sys.executable = sys.argv.pop(1); from kuota.cli.main import main; main()"
"""`kuota` of a Python that is installed elsewhere."""
ECHO = """#!/bin/sh
printf '%s\\n' "$@"
echo "KUBECONFIG=$KUBECONFIG"
exit 7
"""
"""A kubectl that prints its arguments."""
RELAYED = """
import sys
from pathlib import Path
from kuota.cli.relay import relayed
sys.exit(relayed(Path(sys.argv[1]), sys.argv[2:]))
"""
INTRUDER = """
import os, sys, urllib.error, urllib.request
import yaml
with open(os.environ["KUBECONFIG"]) as file:
    assert os.fstat(file.fileno()).st_mode & 0o077 == 0
    server = yaml.safe_load(file)["clusters"][0]["cluster"]["server"]
print(urllib.request.urlopen(server + "/version").status)
for path in ("/version", "/wrong/version", "//version"):
    try:
        urllib.request.urlopen(server.rpartition("/")[0] + path)
    except urllib.error.HTTPError as error:
        print(error.code)
"""


class Shell:
    """A home folder, and a Python environment with a kubectl that prints its arguments."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.program = folder / "bin" / "kubectl"
        self.program.parent.mkdir()
        self.program.write_text(ECHO)
        self.program.chmod(0o755)

    def kuota(self, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
        own = {"HOME": str(self.folder), "KUOTA_STATE": str(self.state), "KUBECONFIG": ""}
        return subprocess.run(
            [sys.executable, "-c", KUOTA, str(self.program.with_name("python")), *args],
            env=os.environ | own | {"PATH": "/usr/bin:/bin"} | env,
            capture_output=True,
            text=True,
            timeout=HANG_S,
        )

    def start(self) -> StateDir:
        """Let a control plane run on this machine, as far as anybody can tell."""
        state_dir = StateDir(self.state)
        state_dir.prepare()
        started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        state_dir.announce(
            RunningInstance(pid=os.getpid(), started=started, port=1, version="test")
        )
        state_dir.kubeconfig.touch()
        return state_dir


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


@pytest.mark.parametrize("verb", ["get", "delete", "edit", "patch"])
def test_arguments_and_exit_status_are_those_of_kubectl(shell: Shell, verb: str) -> None:
    words = ["jobs", "-n", "a b", "--help", "-ojson", "$(id)", "--", "-x", ""]
    done = shell.kuota(verb, *words, KUBECONFIG="mine")
    assert "\n".join([verb, *words, "KUBECONFIG=mine\n"]) == done.stdout
    assert 7 == done.returncode


def test_the_control_plane_of_this_machine_is_meant_unless_another_is_named(shell: Shell) -> None:
    local = f"KUBECONFIG={shell.start().kubeconfig}"
    home = shell.folder / ".kube" / "config"
    assert local == shell.kuota("get", "jobs").stdout.splitlines()[-1]
    for named in (["--context", "x"], ["--context=x"]):
        said = shell.kuota("get", "jobs", *named).stdout.splitlines()
        assert [*named, f"{local}:{home}"] == said[2:]
    other = str(shell.program)
    files = (["--kubeconfig", other], [f"--kubeconfig={other}"])
    servers = (["--server=https://x"], ["-s", "https://x"], ["-shttps://x"])
    for named in (*files, *servers):
        assert "KUBECONFIG=" == shell.kuota("get", "jobs", *named).stdout.splitlines()[-1]


def test_a_kind_may_be_called_as_in_other_commands(shell: Shell) -> None:
    shell.start()
    said = shell.kuota("get", "cq,wl/wl", "-n", "wl").stdout.splitlines()
    assert ["get", "cq,workloads/wl", "-n", "wl"] == said[:-1]


@pytest.mark.parametrize("args", [("train",), ("train", "-n", "vision")])
def test_a_name_without_a_kind_is_not_passed_to_kubectl(shell: Shell, args: list[str]) -> None:
    shell.start()
    done = shell.kuota("delete", *args)
    assert (2, "") == (done.returncode, done.stdout)
    assert f"if train is a job: kuota delete job {' '.join(args)}\n" in done.stderr
    for other in ("job/train", "--all", "-ftrain.yaml"):
        assert f"delete\n{other}\n" in shell.kuota("delete", other).stdout
    assert "delete\njobs\n--all\n" in shell.kuota("delete", "jobs", "--all").stdout


def test_without_kubectl_the_user_is_reported_what_to_install(shell: Shell) -> None:
    shell.program.unlink()
    done = shell.kuota("get", "jobs", PATH="")
    assert (1, "") == (done.returncode, done.stdout)
    assert "Install it with `pip install 'kuota[kubectl]'`" in done.stderr
    assert 1 == done.stderr.count("\n")


def test_without_a_server_the_status_is_three(shell: Shell) -> None:
    done = shell.kuota("get", "jobs")
    assert 3 == done.returncode
    assert "Start one with `kuota up`" in done.stderr
    assert 7 == shell.kuota("get", "--help").returncode


def _relayed(cluster: Cluster, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RELAYED, str(cluster.socket), *command],
        env=cluster.environment(),
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )


def test_kubectl_reaches_a_unix_socket_through_a_relay(cluster: Cluster) -> None:
    cluster.create(JOBS, job("train"))
    assert "job.batch/train\n" == _relayed(cluster, kubectl(), "get", "job", "-o", "name").stdout
    assert 1 == _relayed(cluster, kubectl(), "get", "job", "none").returncode
    deleted = _relayed(cluster, kubectl(), "delete", "job", "train")
    assert (0, []) == (deleted.returncode, cluster.names(JOBS)), deleted.stderr


def test_a_relay_selects_the_namespace_of_the_only_team(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann = User("ann", ("vision", "system:authenticated"), "1001")
    monkeypatch.setattr(http, "unix_user", lambda uid, owner: ann)
    team = {"name": "vision", "labels": {"kuota.dev/team": "vision"}}
    cluster.create(NAMESPACES, {"metadata": team})
    said = _relayed(cluster, kubectl(), "get", "jobs").stderr
    assert "No resources found in vision namespace.\n" == said


def test_a_relay_refuses_requests_without_its_secret(cluster: Cluster) -> None:
    done = _relayed(cluster, sys.executable, "-c", INTRUDER)
    assert "200\n404\n404\n404\n" == done.stdout, done.stderr


def test_a_command_behind_a_relay_that_is_killed_fails(cluster: Cluster) -> None:
    assert 128 + 9 == _relayed(cluster, "sh", "-c", "kill -9 $$").returncode


def test_what_kuota_cannot_create_is_passed_to_kubectl(shell: Shell) -> None:
    shell.start()
    for args in (("namespace", "vision"), ("-f", "job.yaml"), ("--filename=job.yaml", "-n", "a")):
        done = shell.kuota("create", *args)
        assert ["create", *args] == done.stdout.splitlines()[:-1], done.stderr
    assert "did you mean clusterqueue?" in shell.kuota("create", "clusterqeue", "x").stderr
