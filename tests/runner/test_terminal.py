# SPDX-License-Identifier: Apache-2.0
"""The process of a container with `tty` has a terminal, which outlives any shim."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from kuota.runner.proc import become_subreaper, start_ticks
from kuota.runner.processes import Process
from kuota.runner.terminal import size_message
from runner.watched import Watched, kill_and_await, launch, line_in_log, output, story

SHELL = 'stty -echo; trap "stty size" WINCH; echo up; while :; do read line && eval "$line"; done'


def write(folder: Path, fifo: str, content: bytes) -> None:
    fd = os.open(folder / fifo, os.O_WRONLY | os.O_NONBLOCK)
    os.write(fd, content)
    os.close(fd)


def server(process: Process) -> tuple[int, int]:
    """The process that serves the terminal, and when it started."""
    assert process.state is not None
    assert process.state.terminal is not None
    assert process.state.terminal_start is not None
    return process.state.terminal, process.state.terminal_start


async def replaced(watched: Watched, shim: int) -> None:
    await watched.until(lambda process: process.state is not None and process.state.shim != shim)


def is_gone(served: tuple[int, int]) -> bool:
    pid, start = served
    return start_ticks(pid) != start


def test_all_standard_streams_are_the_terminal(tmp_path: Path) -> None:
    async def work() -> None:
        watched, folder = Watched(tmp_path / "0"), tmp_path / "0"
        script = "tty; tty <&1; tty <&2; tty </dev/tty; echo error >&2; exit 3"
        watched.process.start(launch(script, tty=True))
        ended = await watched.ended()
        assert 3 == ended.exit_code
        said = output(folder).split()
        assert said[0].startswith("/dev/pts/")
        assert [said[0], said[0], "/dev/tty", "error"] == said[1:]
        assert is_gone(server(ended))

    story(work)


def test_input_and_sizes_reach_the_terminal(tmp_path: Path) -> None:
    async def work() -> None:
        watched, folder = Watched(tmp_path / "0"), tmp_path / "0"
        watched.process.start(launch(SHELL, tty=True, stdin=True))
        await line_in_log(folder, "up")
        write(folder, "size", size_message(77, 33) + size_message(99, 44))
        await line_in_log(folder, "44 99")
        write(folder, "in", b"echo one\necho two; exit 4\n")
        ended = await watched.ended()
        assert 4 == ended.exit_code
        assert "one\ntwo\n" in output(folder).replace("\r", "")

    story(work)


def test_the_end_of_a_long_output_is_not_lost(tmp_path: Path) -> None:
    async def work() -> None:
        watched, folder = Watched(tmp_path / "0"), tmp_path / "0"
        watched.process.start(launch("seq 20000; echo the end", tty=True))
        await watched.ended()
        assert [*map(str, range(1, 20001)), "the", "end"] == output(folder).split()

    story(work)


def test_a_terminal_survives_any_number_of_shims(tmp_path: Path) -> None:
    async def work() -> None:
        become_subreaper()
        watched, folder = Watched(tmp_path / "0"), tmp_path / "0"
        watched.process.start(launch(SHELL, tty=True, stdin=True))
        await line_in_log(folder, "up")
        served = server(await watched.started())
        for turn in ("one", "two"):
            state = watched.process.state
            assert state is not None
            kill_and_await(state.shim)
            write(folder, "in", f"echo {turn}\n".encode())
            await replaced(watched, state.shim)
            await line_in_log(folder, turn)
            assert served == server(watched.process)
        write(folder, "in", b"echo three; exit 5\n")
        ended = await watched.ended()
        assert (5, "up\none\ntwo\nthree\n") == (
            ended.exit_code,
            output(folder).replace("\r", ""),
        )
        assert is_gone(served)

    story(work)


def test_the_process_ends_if_the_server_of_its_terminal_is_killed(tmp_path: Path) -> None:
    async def work() -> None:
        watched, folder = Watched(tmp_path / "0"), tmp_path / "0"
        watched.process.start(launch("echo up; sleep 1000", tty=True))
        await line_in_log(folder, "up")
        os.kill(server(await watched.started())[0], signal.SIGKILL)
        assert 128 + signal.SIGHUP == (await watched.ended()).exit_code

    story(work)


def test_nothing_serves_the_terminal_of_a_command_that_does_not_exist(tmp_path: Path) -> None:
    async def work() -> None:
        watched = Watched(tmp_path / "0")
        watched.process.start(launch("", argv=("no-such-program",), tty=True))
        ended = await watched.ended()
        assert ended.state is not None
        assert ended.state.errno
        assert is_gone(server(ended))

    story(work)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
def test_the_terminal_belongs_to_the_user_and_nobody_else_can_open_it(tmp_path: Path) -> None:
    async def work() -> None:
        watched, folder = Watched(tmp_path / "0"), tmp_path / "0"
        tmp_path.chmod(0o755)
        script = "stat -c '%u %g %a' $(tty); echo opened > /dev/tty"
        user = {"uid": 65534, "gid": 65534, "groups": (65534,)}
        watched.process.start(launch(script, tty=True, **user))
        await watched.ended()
        assert "65534 65534 600\nopened\n" == output(folder).replace("\r", "")

    story(work)


def test_the_standard_input_survives_the_shim(tmp_path: Path) -> None:
    async def work() -> None:
        become_subreaper()
        watched, folder = Watched(tmp_path / "0"), tmp_path / "0"
        watched.process.start(launch("echo up; read line; echo got $line; exit 6", stdin=True))
        await line_in_log(folder, "up")
        state = (await watched.started()).state
        assert state is not None
        kill_and_await(state.shim)
        await replaced(watched, state.shim)
        write(folder, "in", b"it\n")
        ended = await watched.ended()
        assert (6, "up\ngot it\n") == (ended.exit_code, output(folder))

    story(work)
