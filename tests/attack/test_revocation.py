# SPDX-License-Identifier: Apache-2.0
"""Revoked tokens, damaged keys and token files, locks and logs of a shared machine."""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from attack.members import join
from attack.raw import Target, answer, closed, target
from hang import HANG_S
from kuota.log_file import KEPT_FILES, LINES_PER_PERIOD, CauseLimit, private_log, rotate
from kuota.server import tokens
from kuota.server.http import TlsError, server_context
from kuota.server.tokens import TokenError, TokenFile, admin_token
from up.machine import KUOTA, Machine, open_folder

MAPS = "/api/v1/namespaces/vision/configmaps"


def started(*arguments: str, state: Path) -> subprocess.CompletedProcess[str]:
    """Run kuota with this state directory; the caller judges the exit code."""
    return subprocess.run(
        [KUOTA, *arguments],
        env={**os.environ, "KUOTA_STATE": str(state)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


def test_a_watch_ends_when_its_token_is_revoked_or_its_team_changes(
    machine: Machine, tmp_path: Path
) -> None:
    join(machine, "ann", "vision", tmp_path)
    machine.kuota("token", "create", "eve", "--team", "vision", "--out", str(tmp_path / "eve"))
    ann, eve = target(machine, tmp_path / "ann.kubeconfig"), target(machine, tmp_path / "eve")

    def watching(who: Target) -> socket.socket:
        line = who.connect()
        line.sendall(who.head("GET", f"{MAPS}?watch=true"))
        assert b"200 OK" in line.recv(4096)
        return line

    first, second = watching(ann), watching(eve)
    machine.kuota("token", "revoke", "ann")
    with first:
        assert closed(first, HANG_S)
    with ann.connect() as line:
        line.sendall(ann.head("GET", MAPS))
        assert 401 == answer(line)[0]
    machine.kubectl("label", "namespace", "vision", "kuota.dev/team=speech", "--overwrite")
    with second:
        assert closed(second, HANG_S)


def test_only_the_owner_can_open_the_lock_of_the_token_file(tmp_path: Path) -> None:
    admin_token(tmp_path / "tokens.csv")
    lock = tmp_path / "tokens.lock"
    lock.touch(0o644)
    # A member who could open it earlier still holds it.
    held = os.open(lock, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    TokenFile(tmp_path / "tokens.csv").give("ann")
    assert 0o600 == lock.stat().st_mode & 0o777
    os.close(held)


def test_a_lock_that_stays_held_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin_token(tmp_path / "tokens.csv")
    TokenFile(tmp_path / "tokens.csv").give("ann")
    monkeypatch.setattr(tokens, "LOCK_S", 0.0)
    with open(tmp_path / "tokens.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(TokenError, match="is locked by another process"):
            TokenFile(tmp_path / "tokens.csv").give("bob")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "contains no token of admin. Restore it"),
        (b"# nobody\n", "contains no token of admin. Restore it"),
        (b"\xff\xfe\x00", "is not UTF-8 text at byte 0"),
        (b"t,admin,,\n\x00\x00\n", "line 2: "),
        (b"t,admin,,\nonly-a-token\n", "line 2: it needs a token and a user"),
        (b'"unclosed,admin\n', "line 1: it needs a token and a user"),
    ],
)
def test_a_damaged_token_file_is_explained(content: bytes, said: str) -> None:
    with open_folder() as folder:
        (folder / "tokens.csv").write_bytes(content)
        done = started("up", state=folder)
        assert done.returncode != 0
        assert said in done.stderr, done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("damage", ["empty", "garbage", "another key", "missing end"])
def test_a_damaged_tls_key_is_explained(damage: str, tmp_path: Path) -> None:
    server_context(tmp_path, datetime.now(UTC))
    key = tmp_path / "server.key"
    server_context(tmp_path / "other", datetime.now(UTC))
    content = {
        "empty": b"",
        "garbage": b"-----BEGIN PRIVATE KEY-----\n!!!!\n-----END PRIVATE KEY-----\n",
        "another key": (tmp_path / "other" / "server.key").read_bytes(),
        "missing end": key.read_bytes()[:60],
    }
    key.write_bytes(content[damage])
    with pytest.raises(TlsError) as error:
        server_context(tmp_path, datetime.now(UTC))
    assert str(key) in str(error.value)
    assert "delete both: then a new certificate is created" in str(error.value)


def test_a_damaged_tls_key_does_not_start_a_server() -> None:
    with open_folder() as folder:
        server_context(folder / "tls", datetime.now(UTC))
        (folder / "tls" / "server.key").write_bytes(b"")
        done = started("up", state=folder)
        assert (1, True) == (done.returncode, "cannot be used as TLS" in done.stderr), done.stderr


def test_the_log_is_private_and_rotates(tmp_path: Path) -> None:
    path = tmp_path / "kuota.log"
    path.write_text("readable by all\n")
    path.chmod(0o644)
    log = private_log(path)
    assert 0o600 == path.stat().st_mode & 0o777
    for at in range(KEPT_FILES + 2):
        os.write(log, f"{at}".encode() * 100)
        assert rotate(path, log, most_bytes=50)
        assert 0 == path.stat().st_size
    assert not rotate(path, log, most_bytes=50)
    kept = sorted(each.name for each in tmp_path.iterdir())
    assert ["kuota.log", *(f"kuota.log.{at + 1}" for at in range(KEPT_FILES))] == kept
    assert "4" * 100 == (tmp_path / "kuota.log.1").read_text()
    assert {0o600} == {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    os.close(log)


def test_the_log_of_another_process_is_not_rotated(tmp_path: Path) -> None:
    path = tmp_path / "kuota.log"
    path.write_text("x" * 100)
    other = private_log(tmp_path / "other.log")
    assert not rotate(path, other, most_bytes=50)
    os.close(other)


def test_a_cause_cannot_flood_the_log() -> None:
    now = [0.0]
    limit = CauseLimit(lambda: now[0])

    def record(text: str, line: int = 1) -> logging.LogRecord:
        return logging.LogRecord("a", logging.WARNING, "file.py", line, "%s", (text,), None)

    passed = sum(limit.filter(record(f"client {at}")) for at in range(1000))
    assert LINES_PER_PERIOD == passed
    assert limit.filter(record("another cause", 2))
    now[0] = 61.0
    last = record("client again")
    assert limit.filter(last)
    assert "client again (980 similar messages were dropped)" == last.getMessage()


def test_anonymous_clients_write_nothing_to_the_log(machine: Machine) -> None:
    log = machine.state / "kuota.log"
    before = log.stat().st_size
    where = target(machine, token=False)
    for raw in (
        b"\x16\x03\x01",
        b"GET\r\n\r\n",
        b"\xff" * 100 + b"\r\n\r\n",
        b"X / HTTP/1.1\r\n\r\n",
    ):
        for _ in range(20):
            with where.connect() as line:
                line.sendall(raw)
            with where.connect(handshake=False) as plain:
                plain.sendall(raw)
    assert 401 == where.ask("GET", MAPS)[0]
    assert 0o600 == log.stat().st_mode & 0o777
    assert log.stat().st_size - before < 500, log.read_text()[-2000:]
