# SPDX-License-Identifier: Apache-2.0
"""`kuota run` in a terminal: Ctrl-C leaves the Job, cancels it or continues."""

from __future__ import annotations

import signal

import pytest

from cli.cluster import Cluster, condition, local_queue, workload
from cli.terminal import CTRL_C, Terminal
from kuota.kube.resources import JOBS, LOCAL_QUEUES, WORKLOADS

INTERRUPTED = 130


def run(cluster: Cluster, *options: str) -> Terminal:
    """`kuota run` of Job x, as far as its first word."""
    command = (cluster.program, "run", "--name", "x", *options, "--", "train")
    terminal = Terminal(*command, folder=cluster.folder, env=cluster.environment())
    terminal.expect("job.batch/x submitted")
    cluster.start_pod(cluster.get(JOBS, "x"), "x-1")
    cluster.write("x-1", b"epoch 1\n")
    terminal.expect("epoch 1")
    return terminal


def finish(cluster: Cluster) -> None:
    cluster.write("x-1", b"epoch 2\n")
    cluster.end_pod("x-1", 0)
    cluster.end_job("x")


def test_the_user_is_asked_and_cancels(cluster: Cluster) -> None:
    with run(cluster) as terminal:
        terminal.press(CTRL_C)
        terminal.expect("[l]eave it running, [c]ancel it, or go [b]ack?")
        terminal.press(b"c\n")
        terminal.expect("job.batch/x cancelled")
        cluster.write("x-1", b"")
        assert INTERRUPTED == terminal.ended()
    assert [] == cluster.names(JOBS)


@pytest.mark.parametrize("keys", [b"\n", b"l\n", CTRL_C], ids=["enter", "l", "ctrl-c"])
def test_the_user_is_asked_and_leaves(cluster: Cluster, keys: bytes) -> None:
    with run(cluster) as terminal:
        terminal.press(CTRL_C)
        terminal.expect("go [b]ack?")
        terminal.press(keys)
        terminal.expect("job.batch/x continues. Follow it: kuota logs -f job/x")
        assert INTERRUPTED == terminal.ended()
    assert ["x"] == cluster.names(JOBS)


def test_the_user_is_asked_and_goes_back_as_often_as_they_like(cluster: Cluster) -> None:
    with run(cluster) as terminal:
        for keys in (b"b\n", b"what?\nb\n"):
            terminal.press(CTRL_C)
            terminal.expect("go [b]ack?")
            terminal.press(keys)
            cluster.write("x-1", b"meanwhile\n")
            terminal.expect("meanwhile")
        finish(cluster)
        terminal.expect("epoch 2")
        terminal.expect("job.batch/x: SUCCEEDED")
        assert 0 == terminal.ended()
    assert 1 == terminal.shown.count("epoch 1")


def test_who_said_before_is_not_asked(cluster: Cluster) -> None:
    with run(cluster, "--on-interrupt", "leave") as terminal:
        terminal.press(CTRL_C)
        terminal.expect("job.batch/x continues")
        assert INTERRUPTED == terminal.ended()
    assert ["x"] == cluster.names(JOBS)
    assert "go [b]ack?" not in terminal.shown


def test_who_said_to_cancel_is_not_asked_either(cluster: Cluster) -> None:
    with run(cluster, "--on-interrupt", "cancel") as terminal:
        terminal.press(CTRL_C)
        terminal.expect("job.batch/x cancelled")
        cluster.write("x-1", b"")
        assert INTERRUPTED == terminal.ended()
    assert [] == cluster.names(JOBS)
    assert "go [b]ack?" not in terminal.shown


def test_a_program_that_ends_it_is_not_asked(cluster: Cluster) -> None:
    with run(cluster) as terminal:
        terminal.process.send_signal(signal.SIGTERM)
        terminal.expect("job.batch/x continues")
        assert INTERRUPTED == terminal.ended()
    assert ["x"] == cluster.names(JOBS)


def test_while_it_waits_one_line_says_why_and_goes(cluster: Cluster) -> None:
    cluster.create(LOCAL_QUEUES, local_queue("research"))
    command = (cluster.program, "run", "-q", "research", "--name", "x", "--", "train")
    with Terminal(*command, folder=cluster.folder, env=cluster.environment()) as terminal:
        terminal.expect("job.batch/x submitted in queue research")
        made = cluster.get(JOBS, "x")
        cluster.create(WORKLOADS, workload("job-x", made))
        waits = condition("QuotaReserved", holds=False, message="2 more GPUs needed")
        cluster.status(WORKLOADS, "job-x", {"conditions": [waits]})
        terminal.expect("\r\x1b[KPENDING: 2 more GPUs needed")
        terminal.press(CTRL_C)
        terminal.expect("go [b]ack?")
        terminal.press(b"c\n")
        terminal.expect("job.batch/x cancelled")
        assert INTERRUPTED == terminal.ended()


def test_a_reason_too_long_for_the_line_is_reported_whole_and_once(cluster: Cluster) -> None:
    cluster.create(LOCAL_QUEUES, local_queue("research"))
    command = (cluster.program, "run", "--name", "x", "-q", "research", "--", "train")
    with Terminal(*command, folder=cluster.folder, env=cluster.environment()) as terminal:
        terminal.expect("job.batch/x submitted")
        cluster.create(WORKLOADS, workload("w", cluster.get(JOBS, "x")))
        words = "nvidia.com/gpu in flavor gpu-any: 9 is more than the 1 it could ever get"
        never = condition("QuotaReserved", holds=False, reason="ExceedsMaxQuota", message=words)
        cluster.status(WORKLOADS, "w", {"conditions": [never]})
        out = "request less, or ask an admin to raise the quota; it never starts as it is"
        terminal.expect(f"PENDING: {words}; {out}\r\n")
        terminal.expect("PENDING (1s)")
        terminal.expect("PENDING (2s)")
    assert 1 == terminal.shown.count("more than the 1")
