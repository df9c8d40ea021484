# SPDX-License-Identifier: Apache-2.0
"""`kuota watch`: one table without a terminal, a live view on a terminal."""

from __future__ import annotations

from cli.cluster import MEMBER_TOKEN, TOKEN, Cluster, condition, job, local_queue, workload
from cli.terminal import CTRL_C, Terminal
from kuota.api.base import Key
from kuota.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, NAMESPACES, WORKLOADS

LEFT = "\x1b[?1049l"
"""What gives the terminal its own screen back."""


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
    assert "1 workload: 1 PENDING" in said
    queue = next(line for line in said.splitlines() if line.startswith("lab"))
    assert ["lab", "gpus", "any", "nvidia.com/gpu", "8", "10", "2", "1", "1"] == queue.split()
    row = next(line for line in said.splitlines() if line.startswith("default/waits"))
    assert row.endswith("2 more needed")
    assert "(research)" == row.split()[2]
    cluster.create(LOCAL_QUEUES, local_queue("research"))
    row = next(line for line in cluster.kuota("watch").splitlines() if "default/waits" in line)
    assert "gpus" == row.split()[2]


def test_on_a_terminal_changes_are_drawn_until_q(cluster: Cluster) -> None:
    with _watching(cluster) as terminal:
        waits = condition("QuotaReserved", holds=False, message="still 1 more needed")
        cluster.status(WORKLOADS, "w1", {"conditions": [waits]})
        terminal.expect("still 1 more needed")
        terminal.press(b"q")
        terminal.expect(LEFT)
        assert 0 == terminal.ended()


def test_keys_lead_to_a_queue_to_a_job_and_back(cluster: Cluster) -> None:
    with _watching(cluster) as terminal:
        terminal.press(b"\r")
        terminal.expect("Job default/waits")
        terminal.expect("submitted to LocalQueue")
        terminal.press(b"\x1b")
        terminal.expect("Enter: job")
        terminal.press(b"1\x1b[B\r")
        terminal.expect("ClusterQueue gpus")
        terminal.press(b"q")
        terminal.expect(LEFT)
        assert 0 == terminal.ended()


def test_ctrl_c_is_a_way_to_end_it(cluster: Cluster) -> None:
    with _watching(cluster) as terminal:
        terminal.press(CTRL_C)
        terminal.expect(LEFT)
        assert 0 == terminal.ended()


def _watching(cluster: Cluster) -> Terminal:
    _populated(cluster)
    env = cluster.environment() | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"}
    terminal = Terminal(cluster.program, "watch", folder=cluster.folder, env=env)
    terminal.expect("gpus")
    terminal.press(b"2")
    terminal.expect("2 more needed")
    return terminal


def test_a_member_sees_the_workloads_of_the_own_namespace(cluster: Cluster) -> None:
    _populated(cluster)
    team = {"metadata": {"labels": {"kuota.dev/team": "vision"}}}
    cluster.do(cluster.client.patch(NAMESPACES, Key("", "default"), team))
    member = cluster.folder / "member"
    member.write_text(cluster.kubeconfig.read_text().replace(TOKEN, MEMBER_TOKEN))
    assert "default/waits" in cluster.kuota("watch", KUBECONFIG=str(member))
    assert "forbidden" in cluster.kuota("watch", "-A", KUBECONFIG=str(member), code=1)
