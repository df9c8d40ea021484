# SPDX-License-Identifier: Apache-2.0
"""Warnings about quota that exceeds the capacity of the machine."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli.cluster import MEMBER_TOKEN, TOKEN, Cluster
from kuota.kube.resources import NODES
from kuota.up.state_dir import RunningInstance, StateDir
from manifests import cluster_queue, flavor, text

SHORT = (
    "quota is more than this machine has: nvidia.com/gpu 16 against 8; "
    "pods that are admitted may wait for room"
)


@pytest.fixture
def machine(cluster: Cluster) -> Cluster:
    """A server whose one node has eight GPUs."""
    cluster.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "here"}})
    cluster.status(NODES, "here", {"allocatable": {"nvidia.com/gpu": "8", "pods": "10"}})
    return cluster


def applied(machine: Cluster, *amounts: int) -> str:
    """What is said beside the outcomes when so many queues are applied."""
    queues = [cluster_queue(f"q{number}", amount) for number, amount in enumerate(amounts)]
    return warned(machine, "apply", "-f", "-", stdin=text(flavor(), *queues))


def warned(machine: Cluster, *command: str, stdin: str = "") -> str:
    process = machine.start(*command, stdin=stdin)
    _, said = process.communicate(stdin)
    assert 0 == process.returncode, said
    return said


def status(machine: Cluster, *more: str) -> str:
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    running = RunningInstance(pid=os.getpid(), started=started, port=machine.port, version="test")
    StateDir(machine.folder).announce(running)
    return machine.kuota("status", "--state", str(machine.folder), *more, KUBECONFIG="/none")


def test_who_applies_more_than_there_is_is_warned(machine: Cluster) -> None:
    assert "" == applied(machine, 8)
    assert f"Warning: {SHORT}\n" == applied(machine, 8, 8)


def test_a_dry_run_is_not_warned_of_what_is_not_there(machine: Cluster) -> None:
    applied(machine, 8)
    more = text(cluster_queue("q1", 8))
    assert "" == warned(machine, "apply", "--dry-run", "-f", "-", stdin=more)


def test_who_creates_more_than_there_is_is_warned(machine: Cluster) -> None:
    machine.kuota("create", "rf", "any")
    quota = "any:nvidia.com/gpu=16"
    command = ("create", "cq", "q", "--nominal-quota", quota)
    assert f"Warning: {SHORT}\n" == warned(machine, *command)


def test_the_status_reports(machine: Cluster) -> None:
    applied(machine, 8)
    assert "quota" not in status(machine)
    applied(machine, 8, 8)
    assert f"  {SHORT}\n" in status(machine)
    (found,) = json.loads(status(machine, "-o", "json"))["shortages"]
    wanted = {"resource": "nvidia.com/gpu", "quota": "16", "room": "8"}
    assert [wanted] == found["amounts"]


def test_a_queue_is_described_with_what_it_cannot_keep(machine: Cluster) -> None:
    applied(machine, 8, 8)
    assert f"Room:        {SHORT}\n" in machine.kuota("describe", "cq", "q0")
    machine.kuota("create", "cq", "empty")
    assert "Room:" not in machine.kuota("describe", "cq", "empty")


def test_members_of_teams_are_reported_too(machine: Cluster) -> None:
    applied(machine, 16)
    words = machine.kubeconfig.read_text().replace(TOKEN, MEMBER_TOKEN)
    machine.kubeconfig.write_text(words)
    assert SHORT in status(machine)
    assert SHORT in machine.kuota("describe", "cq", "q0")


def test_a_server_that_does_not_answer_does_not_spoil_the_status(machine: Cluster) -> None:
    machine.close()
    assert "is running (pid" in status(machine)
    assert None is json.loads(status(machine, "-o", "json"))["shortages"]
