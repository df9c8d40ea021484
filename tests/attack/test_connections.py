# SPDX-License-Identifier: Apache-2.0
"""Silent connections, incomplete requests and unread watches cost others nothing."""

from __future__ import annotations

import json
import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from attack.members import job, join
from attack.raw import Target, answer, closed, memory_mib, status_of, target, until
from kuota.connections import AcceptedConnection, ConnectionLimits, Connections
from up.machine import Machine, running

MAPS = "/api/v1/namespaces/vision/configmaps"


def silent(where: Target, count: int, stack: ExitStack) -> list[socket.socket]:
    """Connections that send nothing; one that the server closes at once counts as well."""
    return [stack.enter_context(where.connect(handshake=False)) for _ in range(count)]


@contextmanager
def open_files(soft: int | None) -> Iterator[None]:
    """Change the soft limit of open files, also of processes that are started; None: the most."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft or hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, hard))


@pytest.mark.slow
def test_a_thousand_silent_connections_do_not_block_other_users(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with open_files(1024):
            machine = stack.enter_context(running("--gpus", "4"))
        ann = join(machine, "ann", "vision", tmp_path)
        stack.enter_context(open_files(None))
        silent(target(machine, token=False), 1100, stack)
        created = ann.create(job("train", ["sh", "-c", "test $(ulimit -n) = 1024"]))
        assert created.returncode == 0, created.stderr
        machine.wait("job/train -n vision", "condition=Complete")


@pytest.mark.slow
def test_silent_connections_are_closed(machine: Machine) -> None:
    where = target(machine, token=False)
    lines = {
        "before the handshake": where.connect(handshake=False),
        "without a request": where.connect(),
        "within a request line": where.connect(),
        "within headers": where.connect(),
    }
    lines["within a request line"].sendall(b"GET /vers")
    lines["within headers"].sendall(b"GET /version HTTP/1.1\r\nHost: a\r\n")
    for name, line in lines.items():
        assert closed(line, 30), name
        line.close()


def test_a_request_without_a_token_is_rejected_before_its_body(machine: Machine) -> None:
    where = target(machine, token=False)
    with where.connect() as line:
        line.sendall(where.head("POST", MAPS, Content_Length=2_000_000))
        status, _, body = answer(line)
        assert (401, "Unauthorized") == (status, status_of(body)["reason"])
        assert closed(line, 20)


@pytest.mark.slow
def test_an_incomplete_body_ends_with_a_status(machine: Machine) -> None:
    where = target(machine)
    with where.connect() as line:
        line.sendall(where.head("POST", MAPS, Content_Length=100) + b'{"kind":')
        status, _, body = answer(line)
        assert (408, "Timeout") == (status, status_of(body)["reason"])
        assert closed(line, 20)


@pytest.mark.slow
def test_a_watch_that_is_not_read_does_not_grow_the_server(
    machine: Machine, tmp_path: Path, long_run: bool
) -> None:
    join(machine, "ann", "vision", tmp_path)
    ann = target(machine, tmp_path / "ann.kubeconfig")
    made = {"metadata": {"name": "big"}, "data": {"text": ""}}
    assert 201 == ann.ask("POST", MAPS, json.dumps(made).encode())[0]
    pid, changes = machine.pid(), 300 if long_run else 60
    with ExitStack() as stack:
        for _ in range(4):
            watch = stack.enter_context(ann.connect())
            watch.sendall(ann.head("GET", f"{MAPS}?watch=true"))
        before = memory_mib(pid)
        for at in range(changes):
            made["data"] = {"text": f"{at:06}" + "x" * 900_000}
            status, _, body = ann.ask("PUT", f"{MAPS}/big", json.dumps(made).encode())
            assert status == 200, body[:200]
        growth = memory_mib(pid) - before
        print(f"{changes} changes grew the server by {growth:.0f} MiB")
        assert growth < 100


def test_the_oldest_anonymous_connection_of_the_busiest_peer_makes_room() -> None:
    gone: list[str] = []
    connections = Connections(ConnectionLimits(total=40, per_user=4, per_peer=30))
    first = AcceptedConnection("1.1.1.1", lambda: gone.append("first"))
    assert connections.admit(first)
    for at in range(9):
        each = AcceptedConnection("2.2.2.2", lambda at=at: gone.append(f"flood {at}"))  # type: ignore[misc]
        assert connections.admit(each)
    assert connections.admit(AcceptedConnection("3.3.3.3"))
    assert ["flood 0"] == gone
    assert connections.authenticated(first, "ann")


def test_a_user_has_a_limited_number_of_connections() -> None:
    connections = Connections(ConnectionLimits(total=40, per_user=2, per_peer=30))
    lines = [AcceptedConnection("1.1.1.1") for _ in range(3)]
    assert all(map(connections.admit, lines))
    assert [True, True, False] == [connections.authenticated(each, "ann") for each in lines]
    connections.closed(lines[0])
    assert connections.authenticated(lines[2], "ann")
    assert connections.authenticated(lines[2], "bob")
    for each in lines:
        connections.closed(each)
    assert (0, 0) == (len(connections), connections.anonymous)


def test_a_peer_with_authenticated_connections_only_is_rejected_at_its_limit() -> None:
    connections = Connections(ConnectionLimits(total=40, per_user=9, per_peer=3))
    for at in range(3):
        line = AcceptedConnection("1.1.1.1")
        assert connections.admit(line)
        assert connections.authenticated(line, f"user {at}")
    assert not connections.admit(AcceptedConnection("1.1.1.1"))
    assert connections.admit(AcceptedConnection("2.2.2.2"))


def test_connections_of_one_user_beyond_the_limit_get_a_status(
    machine: Machine, tmp_path: Path
) -> None:
    join(machine, "ann", "vision", tmp_path)
    ann = target(machine, tmp_path / "ann.kubeconfig")
    seen: list[int] = []

    def hold(stack: ExitStack) -> None:
        line = stack.enter_context(ann.connect())
        line.sendall(ann.head("GET", "/version"))
        status, headers, body = answer(line)
        if status == 429:
            assert ("TooManyRequests", "1") == (status_of(body)["reason"], headers["retry-after"])
        seen.append(status)

    with ExitStack() as stack:
        for _ in range(520):
            hold(stack)
            if seen[-1] == 429:
                break
        assert 429 == seen[-1]
        assert 200 == target(machine).ask("GET", "/version")[0]
    until(lambda: ann.ask("GET", "/version")[0] == 200, "the user stays locked out")
