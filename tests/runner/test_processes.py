# SPDX-License-Identifier: Apache-2.0
"""Real processes under real shims: start, end, stop, and every way in which watchers may die."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from hang import HANG_S
from kuota.runner.proc import become_subreaper, start_ticks
from kuota.runner.processes import Launch, Process
from kuota.runner.spawn import ShimStarter

PATH = {"PATH": os.environ["PATH"]}


SHIMS = ShimStarter()


@pytest.fixture(autouse=True, scope="module")
def _no_server_left() -> Iterator[None]:
    yield
    SHIMS.close()


class Watched:
    """A process, and waiting for it to be in some state."""

    def __init__(self, folder: Path) -> None:
        self._changed = asyncio.Event()
        self.process = Process(str(folder), f"test/{folder}", SHIMS, self._changed.set)

    async def until(self, claim: Callable[[Process], bool]) -> Process:
        async with asyncio.timeout(HANG_S):
            while not claim(self.process):
                self._changed.clear()
                await self._changed.wait()
        return self.process

    async def started(self) -> Process:
        return await self.until(lambda p: p.state is not None and p.state.pid is not None)

    async def ended(self) -> Process:
        return await self.until(lambda p: p.ended)


def launch(script: str, **more: object) -> Launch:
    fields = {"argv": ("sh", "-c", script), "env": PATH, "cwd": "/tmp", **more}
    return Launch(**fields)  # type: ignore[arg-type]


def story(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), HANG_S))


def output(folder: Path) -> str:
    """The log without its stamps."""
    return "".join(line[31:] for line in (folder / "log").read_text().splitlines(keepends=True))


async def line_in_log(folder: Path, text: str) -> None:
    """Return once the process has written the text: a handshake, since nobody else tells us."""
    async with asyncio.timeout(HANG_S):
        while not (folder / "log").exists() or text not in (folder / "log").read_text():
            await asyncio.sleep(0.005)


def test_a_process_ends_with_its_code_and_its_output(tmp_path: Path) -> None:
    async def work() -> None:
        watched = Watched(tmp_path / "0")
        watched.process.start(launch("echo to out; echo to err >&2; exit 3"))
        ended = await watched.ended()
        assert (3, 0) == (ended.exit_code, ended.state and ended.state.signal)
        assert "to out\nto err\n" == output(tmp_path / "0")

    story(work)


def test_a_process_sees_only_the_environment_of_its_plan(tmp_path: Path) -> None:
    async def work() -> None:
        watched = Watched(tmp_path / "0")
        watched.process.start(launch("env", env={**PATH, "ANSWER": "42"}))
        await watched.ended()
        names = {line.partition("=")[0] for line in output(tmp_path / "0").splitlines()}
        assert {"ANSWER", "PATH", "KUOTA_RUN", "PWD"} >= names - {"OLDPWD", "_", "SHLVL"}

    story(work)


def test_a_command_that_is_not_there_is_a_failed_start(tmp_path: Path) -> None:
    async def work() -> None:
        watched = Watched(tmp_path / "0")
        watched.process.start(Launch(argv=("no-such-command",), env=PATH, cwd="/tmp"))
        ended = await watched.ended()
        assert ended.state is not None
        assert (2, 3, None) == (ended.state.errno, ended.state.stage, ended.exit_code)

    story(work)


def test_a_folder_on_the_path_that_cannot_be_entered_does_not_hide_what_is_missing(
    tmp_path: Path,
) -> None:
    async def work() -> None:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0)
        as_other = {"uid": 65534, "gid": 65534} if os.geteuid() == 0 else {}
        path = {"PATH": f"{closed}:{PATH['PATH']}"}
        watched = Watched(tmp_path / "0")
        watched.process.start(
            Launch(argv=("no-such-command",), env=path, cwd="/tmp", **as_other)  # type: ignore[arg-type]
        )
        ended = await watched.ended()
        assert ended.state is not None
        assert (2, 3) == (ended.state.errno, ended.state.stage)

    story(work)


def test_stopping_sends_term_to_the_whole_group_and_waits_for_it(tmp_path: Path) -> None:
    """The shell dies at once; the Python it started saves its work first."""

    async def work() -> None:
        watched = Watched(tmp_path / "0")
        os.mkfifo(tmp_path / "never")
        script = "trap 'echo saving; sleep 0.2; echo saved; exit 0' TERM; echo up; read x <> never"
        watched.process.start(launch(f'sh -c "{script}"; exit 7', cwd=str(tmp_path)))
        await line_in_log(tmp_path / "0", "up")
        watched.process.stop(10)
        ended = await watched.ended()
        assert (143, "up\nsaving\nsaved\n") == (ended.exit_code, output(tmp_path / "0"))

    story(work)


def test_what_ignores_term_is_killed_after_its_grace(tmp_path: Path) -> None:
    async def work() -> None:
        watched = Watched(tmp_path / "0")
        watched.process.start(launch("trap '' TERM; echo up; while :; do sleep 100; done"))
        await line_in_log(tmp_path / "0", "up")
        watched.process.stop(0.1)
        assert 137 == (await watched.ended()).exit_code

    story(work)


def test_a_daemon_that_left_the_group_dies_with_its_container(tmp_path: Path) -> None:
    async def work() -> None:
        watched = Watched(tmp_path / "0")
        watched.process.start(launch("setsid sh -c 'echo $$; exec sleep 100' & sleep 0.2; exit 0"))
        await watched.ended()
        assert -1 == start_ticks(int(output(tmp_path / "0").split()[0]))

    story(work)


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


def test_when_shim_and_process_are_killed_the_end_is_known_but_not_the_code(
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
        assert 1 == ended.state.lost
        assert -1 == start_ticks(int(output(tmp_path / "0").split()[0]))

    story(work)


def test_a_folder_without_a_shim_never_ran(tmp_path: Path) -> None:
    async def work() -> None:
        (tmp_path / "0").mkdir()
        watched = Watched(tmp_path / "0")
        watched.process.adopt()
        assert (await watched.ended()).state is None

    story(work)


def test_logs_rotate_and_keep_every_line_of_the_newest_files(tmp_path: Path) -> None:
    async def work() -> None:
        watched = Watched(tmp_path / "0")
        watched.process.start(launch("seq 50000 | sed 's/^/line /'", log_bytes=500_000))
        await watched.ended()
        files = [tmp_path / "0" / f"log{n}" for n in (".4", ".3", ".2", ".1", "")]
        lines = [line[31:] for f in files if f.exists() for line in f.read_text().splitlines()]
        assert [f"line {n}" for n in range(1, 50001)][-len(lines) :] == lines
        assert 1 < sum(file.exists() for file in files)

    story(work)


def test_after_the_server_of_shims_was_killed_another_one_starts_them(tmp_path: Path) -> None:
    async def work() -> None:
        first, second = Watched(tmp_path / "0"), Watched(tmp_path / "1")
        first.process.start(launch("echo up; sleep 0.2; exit 8"))
        await first.started()
        os.kill(SHIMS._server, signal.SIGKILL)
        second.process.start(launch("exit 9"))
        assert [8, 9] == [(await each.ended()).exit_code for each in (first, second)]

    story(work)
