# SPDX-License-Identifier: Apache-2.0
"""Real processes with real shims: start, exit, stop and output."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from kuota.runner.proc import start_ticks
from kuota.runner.processes import Launch
from runner.watched import PATH, SHIMS, Watched, launch, line_in_log, output, story


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
