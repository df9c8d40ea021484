# SPDX-License-Identifier: Apache-2.0
"""Runs whose shims or runners were killed are adopted, whatever their state."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kuota.runner.proc import become_subreaper, exit_status, start_ticks
from kuota.runner.processes import Process, shim_state
from kuota.runner.spawn import take_lock
from runner.watched import Watched, kill_and_await, launch, line_in_log, output, story


def test_a_second_runner_takes_up_what_the_first_left_running(tmp_path: Path) -> None:
    async def work() -> None:
        first = Watched(tmp_path / "0")
        os.mkfifo(tmp_path / "go")
        first.process.start(
            launch("echo up; read line < go; echo $line; exit 5", cwd=str(tmp_path))
        )
        await line_in_log(tmp_path / "0", "up")
        first.process.forget()
        second = Watched(tmp_path / "0")
        second.process.adopt()
        (tmp_path / "go").write_text("went\n")
        ended = await second.ended()
        assert (5, "up\nwent\n") == (ended.exit_code, output(tmp_path / "0"))

    story(work)


def test_a_runner_that_comes_back_late_reads_how_it_ended(tmp_path: Path) -> None:
    async def work() -> None:
        first = Watched(tmp_path / "0")
        first.process.start(launch("exit 4"))
        await first.ended()
        second = Watched(tmp_path / "0")
        second.process.adopt()
        assert 4 == (await second.ended()).exit_code

    story(work)


def test_a_runner_that_comes_back_before_the_shim_wrote_anything_waits_for_it(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        first, second = Watched(tmp_path / "0"), Watched(tmp_path / "0")
        first.process.start(launch("exit 6"))
        first.process.forget()
        second.process.adopt()
        assert 6 == (await second.ended()).exit_code

    story(work)


def test_killing_the_shim_neither_ends_the_process_nor_loses_its_code(tmp_path: Path) -> None:
    async def work() -> None:
        become_subreaper()
        watched = Watched(tmp_path / "0")
        os.mkfifo(tmp_path / "go")
        watched.process.start(
            launch("echo up; read line < go; echo $line; exit 5", cwd=str(tmp_path))
        )
        await line_in_log(tmp_path / "0", "up")
        process = await watched.started()
        assert process.state is not None
        before = process.state
        os.kill(before.shim, signal.SIGKILL)
        await watched.until(lambda p: p.state is not None and p.state.shim != before.shim)
        assert (before.pid, before.pid_start) == (process.state.pid, process.state.pid_start)
        (tmp_path / "go").write_text("went\n")
        ended = await watched.ended()
        assert (5, "up\nwent\n") == (ended.exit_code, output(tmp_path / "0"))

    story(work)


def knows_exit_status() -> bool:
    with subprocess.Popen(["sh", "-c", "exit 3"]) as child:
        fd = os.pidfd_open(child.pid)
    try:
        return exit_status(fd) == 3 << 8
    finally:
        os.close(fd)


def test_the_code_is_known_even_if_shim_and_runner_were_killed_before_the_end(
    tmp_path: Path,
) -> None:
    """Init, or another subreaper, is then the parent of the process."""
    script = f"""
import asyncio, os
from kuota.runner.processes import Launch, Process
from kuota.runner.spawn import ShimStarter
async def work():
    process = Process({str(tmp_path / "0")!r}, "test", ShimStarter(), lambda: None)
    process.start(Launch(argv=("sh", "-c", "echo up; read x < go; exit 5"),
                  env={{"PATH": os.environ["PATH"]}}, cwd={str(tmp_path)!r}))
    await asyncio.sleep(100)
asyncio.run(work())
"""
    os.mkfifo(tmp_path / "go")

    async def work() -> None:
        with subprocess.Popen([sys.executable, "-c", script]) as runner:
            await line_in_log(tmp_path / "0", "up")
            state = shim_state(str(tmp_path / "0"))
            assert state is not None
            runner.kill()
        kill_and_await(state.shim)
        watched = Watched(tmp_path / "0")
        watched.process.adopt()
        await watched.until(lambda p: p.state is not None and p.state.shim != state.shim)
        watched.process.forget()  # Another runner reads the result, which must be on disk.
        (tmp_path / "go").write_text("went\n")
        second = Watched(tmp_path / "0")
        second.process.adopt()
        assert 5 == (await second.ended()).exit_code

    if not knows_exit_status():
        pytest.skip("Linux reports the exit status of processes of others since 6.15")
    story(work)


def test_when_shim_and_process_are_killed_the_end_is_known(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        watched = Watched(tmp_path / "0")
        watched.process.start(launch("setsid sleep 100 & echo $!; sleep 100"))
        await line_in_log(tmp_path / "0", "Z ")
        process = await watched.started()
        assert process.state is not None
        assert process.state.pid is not None
        process.forget()
        os.kill(process.state.shim, signal.SIGKILL)
        os.kill(process.state.pid, signal.SIGKILL)
        second = Watched(tmp_path / "0")
        second.process.adopt()
        ended = await second.ended()
        assert ended.state is not None
        assert (1, None) == (ended.state.lost, ended.exit_code) or 137 == ended.exit_code
        assert -1 == start_ticks(int(output(tmp_path / "0").split()[0]))

    story(work)


def test_a_run_is_adopted_while_a_replacement_shim_has_the_lock_but_no_state(
    tmp_path: Path,
) -> None:
    """The recorded shim is dead, and its replacement has not written its own state yet."""

    async def work() -> None:
        first, second = Watched(tmp_path / "0"), Watched(tmp_path / "0")
        first.process.start(launch("exec sleep 100"))
        state = (await first.started()).state
        assert state is not None
        first.process.forget()
        kill_and_await(state.shim)
        lock = take_lock(str(tmp_path / "0"))
        assert lock is not None
        second.process.adopt()
        await asyncio.sleep(0)
        assert not second.process.ended
        os.close(lock)
        await second.until(lambda p: p.state is not None and p.state.shim != state.shim)
        second.process.stop(0)
        await second.ended()

    story(work)


def test_a_run_whose_settings_are_lost_is_adopted(tmp_path: Path) -> None:
    async def work() -> None:
        first = Watched(tmp_path / "0")
        first.process.start(launch("exec sleep 100"))
        state = (await first.started()).state
        assert state is not None
        first.process.forget()
        kill_and_await(state.shim)
        (tmp_path / "0" / "settings").write_bytes(b"")
        second = Watched(tmp_path / "0")
        second.process.adopt()
        await second.until(lambda p: p.state is not None and p.state.shim != state.shim)
        second.process.stop(0)
        await second.ended()

    story(work)


def test_a_failed_adoption_releases_the_lock_for_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work() -> None:
        (tmp_path / "0").mkdir()
        with monkeypatch.context() as patch:
            patch.setattr(Process, "_adoption", fail)
            with pytest.raises(RuntimeError):
                Watched(tmp_path / "0").process.adopt()
        lock = take_lock(str(tmp_path / "0"))
        assert lock is not None
        os.close(lock)

    def fail(_: Process) -> None:
        raise RuntimeError

    story(work)


def test_a_forgotten_process_that_waits_for_its_shim_does_nothing_more(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "0").mkdir()
        lock = take_lock(str(tmp_path / "0"))
        assert lock is not None
        watched = Watched(tmp_path / "0")
        watched.process.adopt()
        watched.process.forget()
        os.close(lock)
        await asyncio.sleep(0.05)
        assert not watched.process.ended

    story(work)


def test_a_folder_without_a_shim_never_ran(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "0").mkdir()
        watched = Watched(tmp_path / "0")
        watched.process.adopt()
        assert (await watched.ended()).state is None

    story(work)
