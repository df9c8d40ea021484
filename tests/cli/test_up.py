# SPDX-License-Identifier: Apache-2.0
"""`kuota up` that cannot start reports the reason and what to do."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from click.testing import CliRunner

from hang import HANG_S
from kuota.cli import detached
from kuota.cli.detached import failed_start
from kuota.cli.main import main
from kuota.engine.engine import Engine
from kuota.engine.facts import Fact
from kuota.server.store import Store
from kuota.up.machine_nodes import node_name
from kuota.up.state_dir import RunningInstance, StateDir


def refused(*arguments: str | Path) -> str:
    result = CliRunner().invoke(main, ["up", "--allow-root", *map(str, arguments)])
    assert 1 == result.exit_code, result.output
    return result.output


@pytest.fixture
def taken() -> Iterator[socket.socket]:
    listener = socket.create_server(("127.0.0.1", 0))
    yield listener
    listener.close()


def test_a_port_that_is_taken_is_named(tmp_path: Path, taken: socket.socket) -> None:
    port = taken.getsockname()[1]
    said = refused("--state", tmp_path / "state", "--port", str(port))
    expected = f"Error: cannot listen on 127.0.0.1:{port}: another process listens there. "
    assert f"{expected}Free the port, or choose another one with --port\n" in said


def test_a_state_folder_that_cannot_be_is_named(tmp_path: Path) -> None:
    state_dir = tmp_path / "file"
    state_dir.write_text("not a folder")
    for more in ((), ("--detach",)):
        said = refused("--state", state_dir, *more)
        assert f"cannot use the state directory {state_dir}: File exists" in said
        assert "--state" in said


def test_a_failed_detached_start_reports_its_error_once(tmp_path: Path) -> None:
    state_dir = StateDir(tmp_path)
    state_dir.log.write_text("old\nRunning as root.\nError: cannot listen\nFree the port\n")
    assert "cannot listen\nFree the port" == failed_start(state_dir, len("old\n"))
    state_dir.log.write_text("Traceback\nMemoryError\n")
    assert "Traceback\nMemoryError" == failed_start(state_dir, 0)
    state_dir.log.write_text("")
    assert f"the start failed; see {state_dir.log}" == failed_start(state_dir, 0)


def test_an_interrupted_detached_start_leaves_nothing_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def interrupted(state_dir: StateDir, process: subprocess.Popen[bytes], before: int) -> None:
        started.append(process)
        raise KeyboardInterrupt

    monkeypatch.setattr(detached, "await_ready", interrupted)
    monkeypatch.setattr(sys, "argv", ["kuota", "up", "--state", str(tmp_path), "--detach"])
    with pytest.raises(KeyboardInterrupt):
        detached.start_detached(StateDir(tmp_path))
    started[0].wait(HANG_S)
    assert StateDir(tmp_path).running() is None


def test_a_part_that_fails_while_it_runs_ends_it_and_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def apply(self: Engine, fact: Fact, now: float) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(Engine, "apply", apply)
    said = refused("--state", tmp_path / "state")
    assert "Kuota has stopped because one of its parts failed: Fatal(" in said
    assert "Running pods continue" in said
    assert StateDir(tmp_path / "state").running() is None


@pytest.mark.parametrize("option", ["--config", "--nodes"])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, option: str) -> None:
    file = tmp_path / "file.yaml"
    for content in (b"a: b: c\n", b"\xff\xfe\x00"):
        file.write_bytes(content)
        assert str(file) in refused("--state", tmp_path / "state", option, file)


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        ("metadata: {name: a, labels: [x]}", "metadata.labels"),
        ("metadata: {name: a, labels: {x: y}}", "metadata.labels"),
        ("metadata: {name: a}", "status.capacity"),
        ("metadata: {name: a}\nstatus: {capacity: {cpu: abc}}", "status.capacity of cpu"),
        ("metadata: {name: a}\nstatus: {capacity: {x/gpu: 1.5}}", "1.5 is not an integer"),
        ("metadata: {name: A_b}\nstatus: {capacity: {cpu: 1}}", "DNS"),
        (
            "metadata: {name: a}\nspec: {taints: [{key: k, effct: NoSchedule}]}\n"
            "status: {capacity: {cpu: 1}}",
            "did you mean effect?",
        ),
        (
            "metadata: {name: a}\nspec: {tants: []}\nstatus: {capacity: {cpu: 1}}",
            "spec.tants: unknown field",
        ),
        ("metadata: {name: a, lables: {}}\nstatus: {capacity: {cpu: 1}}", "did you mean labels?"),
    ],
)
def test_a_node_that_cannot_be_is_refused_before_anything_starts(
    tmp_path: Path, manifest: str, reason: str
) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text(f"apiVersion: v1\nkind: Node\n{manifest}\n")
    said = refused("--state", tmp_path / "state", "--nodes", file)
    assert reason in said
    assert str(file) in said


OTHER_USER = """
import os, shutil, signal, sys, time
import kuota.up.state_dir
from kuota.cli.machine import down
os.setuid(65534)
down(sys.argv[1:])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_somebody_elses_control_plane_cannot_be_ended() -> None:
    started = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    with TemporaryDirectory() as folder:
        state_dir = StateDir(Path(folder))
        state_dir.root.chmod(0o711)
        state_dir.announce(
            RunningInstance(pid=os.getpid(), started=started, port=1, version="test")
        )
        command = [sys.executable, "-c", OTHER_USER, "--state", folder]
        done = subprocess.run(command, capture_output=True, text=True)
    said = f"Error: you may not stop pid {os.getpid()}; ask its owner\n"
    assert (1, said) == (done.returncode, done.stderr)


@pytest.mark.parametrize(
    ("command", "said"),
    [(("token", "list"), "start `kuota up` first"), (("restore", __file__), "Not a directory")],
)
def test_a_state_folder_that_cannot_be_made_is_no_crash(
    tmp_path: Path, command: tuple[str, ...], said: str
) -> None:
    (tmp_path / "file").touch()
    done = CliRunner().invoke(main, [*command, "--state", str(tmp_path / "file" / "state")])
    assert 1 == done.exit_code
    assert said in done.output


@pytest.mark.parametrize(
    "command",
    [
        ("backup", "copy"),
        ("down", "--kill"),
        ("restore",),
        ("restore", "latest"),
        ("token", "create", "ann"),
    ],
)
def test_the_state_of_another_user_is_not_taken_for_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    done = CliRunner().invoke(main, [*command, "--state", str(tmp_path)])
    said = f"Error: {tmp_path} belongs to another user; ask its owner, or use sudo\n"
    assert (1, said) == (done.exit_code, done.stderr)


def test_a_backup_that_has_no_place_is_reported(tmp_path: Path) -> None:
    Store.open(tmp_path / "kuota.db").close()
    target = tmp_path / "none" / "copy"
    done = CliRunner().invoke(main, ["backup", str(target), "--state", str(tmp_path)])
    said = f"Error: no backup was made: {target}: No such file or directory\n"
    assert (1, said) == (done.exit_code, done.output)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("Box", "box"),
        ("My_Laptop.local", "my-laptop.local"),
        ("-x-.", "x"),
        ("___", "localhost"),
    ],
)
def test_hosts_of_any_name_become_nodes(host: str, name: str) -> None:
    assert name == node_name(host)
