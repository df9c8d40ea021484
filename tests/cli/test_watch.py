# SPDX-License-Identifier: Apache-2.0
"""`kuota watch`: one picture without a terminal, a live one on a terminal."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess

from cli.cluster import MEMBER_TOKEN, PATIENCE_S, TOKEN, Cluster, condition, job, workload
from kuota.api.base import Key
from kuota.kube.resources import CLUSTER_QUEUES, JOBS, NAMESPACES, WORKLOADS


def _populated(cluster: Cluster) -> None:
    quota = ("--nominal-quota", "any:nvidia.com/gpu=8")
    cluster.kuota("create", "cq", "gpus", "--cohort", "lab", *quota)
    used = {"name": "nvidia.com/gpu", "total": "10", "borrowed": "2"}
    reservation = [{"name": "any", "resources": [used]}]
    status = {"flavorsReservation": reservation, "pendingWorkloads": 1, "admittedWorkloads": 1}
    cluster.status(CLUSTER_QUEUES, "gpus", status)
    cluster.create(WORKLOADS, workload("w1", cluster.create(JOBS, job("waits"))))
    waits = condition("QuotaReserved", holds=False, message="2 more needed")
    cluster.status(WORKLOADS, "w1", {"conditions": [waits]})


def test_without_a_terminal_it_shows_how_things_are_and_returns(cluster: Cluster) -> None:
    _populated(cluster)
    said = cluster.kuota("watch")
    assert "1 workload: 1 waiting" in said
    queue = next(line for line in said.splitlines() if line.startswith("lab"))
    assert ["lab", "gpus", "any", "nvidia.com/gpu", "8", "10", "2", "1", "1"] == queue.split()
    row = next(line for line in said.splitlines() if line.startswith("default/waits"))
    assert row.endswith("2 more needed")


def test_on_a_terminal_changes_are_drawn_until_q(cluster: Cluster) -> None:
    _populated(cluster)
    leader, follower = pty.openpty()
    env = cluster.environment() | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    command = [cluster.program, "watch"]
    with subprocess.Popen(command, stdin=follower, stdout=follower, env=env) as process:
        os.close(follower)
        _until(leader, b"2 more needed")
        waits = condition("QuotaReserved", holds=False, message="still 1 more needed")
        cluster.status(WORKLOADS, "w1", {"conditions": [waits]})
        _until(leader, b"still 1 more needed")
        os.write(leader, b"q")
        _until(leader, b"\x1b[?1049l")
        assert 0 == process.wait(PATIENCE_S)
    os.close(leader)


def test_ctrl_c_is_a_way_to_end_it(cluster: Cluster) -> None:
    _populated(cluster)
    leader, follower = pty.openpty()
    env = cluster.environment() | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    command = [cluster.program, "watch"]
    with subprocess.Popen(command, stdin=follower, stdout=follower, env=env) as process:
        os.close(follower)
        _until(leader, b"2 more needed")
        process.send_signal(signal.SIGINT)
        _until(leader, b"\x1b[?1049l")
        assert 0 == process.wait(PATIENCE_S)
    os.close(leader)


def test_a_member_sees_the_workloads_of_the_own_namespace(cluster: Cluster) -> None:
    _populated(cluster)
    team = {"metadata": {"labels": {"kuota.dev/team": "vision"}}}
    cluster.do(cluster.client.patch(NAMESPACES, Key("", "default"), team))
    member = cluster.folder / "member"
    member.write_text(cluster.kubeconfig.read_text().replace(TOKEN, MEMBER_TOKEN))
    assert "default/waits" in cluster.kuota("watch", KUBECONFIG=str(member))
    assert "forbidden" in cluster.kuota("watch", "-A", KUBECONFIG=str(member), code=1)


def _until(terminal: int, wanted: bytes) -> None:
    """Read what is drawn up to the wanted text."""
    seen = b""
    while wanted not in seen:
        ready, _, _ = select.select([terminal], [], [], PATIENCE_S)
        assert ready, seen[-2000:]
        seen += os.read(terminal, 65536)
