# SPDX-License-Identifier: Apache-2.0
"""Parts of logs are selected without holding a whole log in memory or the event loop."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack, aclosing, suppress
from pathlib import Path
from typing import Any

import pytest

from hang import HANG_S
from kuota.runner.directory_watch import DirectoryWatch
from kuota.runner.logs import LogQuery, follow_log, read_log
from kuota.runner.shim_log import Log

MEGABYTE = 1 << 20


def write(folder: Path, *chunks: bytes, limit: int = MEGABYTE, files: int = 2) -> None:
    """Write the log as a shim does, in a process of its own."""
    pid = os.fork()
    if pid == 0:
        try:
            log = Log(str(folder / "log"), limit, files)
            for each in chunks:
                log.write(each)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def pieces(folder: Path, **query: Any) -> list[bytes]:
    async def read() -> list[bytes]:
        return [piece async for piece in read_log(str(folder), LogQuery(**query))]

    return asyncio.run(read())


def text(folder: Path, **query: Any) -> bytes:
    return b"".join(pieces(folder, **query))


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """A log of 3,000 lines in three files."""
    write(tmp_path, *(b"%d\n" % number for number in range(3_000)), limit=50_000, files=3)
    assert (tmp_path / "log.2").exists()
    return tmp_path


@pytest.mark.parametrize("count", [0, 1, 2, 999, 1_500, 2_500])
def test_the_last_lines_are_found_across_files(numbers: Path, count: int) -> None:
    expected = [b"%d" % number for number in range(3_000 - count, 3_000)]
    assert expected == text(numbers, tail=count).split()


def test_more_last_lines_than_there_are_select_everything(numbers: Path) -> None:
    assert text(numbers) == text(numbers, tail=10**9)


def test_an_incomplete_line_is_a_line(tmp_path: Path) -> None:
    write(tmp_path, b"one\ntwo\n> ")
    assert b"two\n> " == text(tmp_path, tail=2)
    assert b"> " == text(tmp_path, tail=1)


def test_a_long_line_is_read_in_pieces(tmp_path: Path) -> None:
    # A line of 20 MB was collected before it was sent, which took a second of the event loop.
    line = bytes(range(32, 127)) * 20_000
    write(tmp_path, line + b"\nend\n", limit=10 * MEGABYTE)
    found = pieces(tmp_path)
    assert line + b"\nend\n" == b"".join(found)
    assert max(map(len, found)) <= 1 << 17
    assert line + b"\nend\n" == text(tmp_path, since=0.0)
    assert line + b"\nend\n" == text(tmp_path, tail=2)


def test_lines_are_selected_by_the_time_at_which_they_began(tmp_path: Path) -> None:
    lines = [b"2026-11-16T12:00:0%d.000000000Z %b" % (at, b"x" * 100_000) for at in range(4)]
    (tmp_path / "log").write_bytes(b"\n".join(lines))
    moment = 1_794_830_402.0  # 2026-11-16T12:00:02Z
    assert b"x" * 100_000 + b"\n" + b"x" * 100_000 == text(tmp_path, since=moment)
    assert b"x" * 100_000 == text(tmp_path, since=moment, tail=1)
    assert b"\n".join(lines[2:]) == text(tmp_path, since=moment, timestamps=True)


@pytest.mark.parametrize(
    ("since", "found"), [(-1e15, b"said\n"), (-6e10, b"said\n"), (0, b"said\n"), (1e15, b"")]
)
def test_any_time_can_be_asked_for(tmp_path: Path, since: float, found: bytes) -> None:
    # Years of fewer or more than four digits selected nothing, or failed with status 500.
    write(tmp_path, b"said\n")
    assert found == text(tmp_path, since=since)


def test_a_log_is_followed_from_within_a_line(tmp_path: Path) -> None:
    write(tmp_path, b"before\n$ ")

    async def read() -> bytes:
        async with aclosing(follow_log(str(tmp_path))) as added:
            write(tmp_path, b"ls\nfile\n$ ")
            return b"".join([piece async for piece in added])  # No run is there, so it ends.

    assert b"ls\nfile\n$ " == asyncio.run(read())


def test_another_shim_continues_an_incomplete_line(tmp_path: Path) -> None:
    for part in (b"$ ", b"ls\nfile\n"):
        write(tmp_path, part)
    assert b"$ ls\nfile\n" == text(tmp_path)


def inotify_instances() -> int:
    links = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # The descriptor that lists the directory.
            links.append(os.readlink(f"/proc/self/fd/{fd}"))
    return links.count("anon_inode:inotify")


def test_followers_of_many_logs_share_one_inotify_instance(tmp_path: Path) -> None:
    # A user may have 128. A member who followed 128 logs left none for anybody else.
    folders = [tmp_path / str(number) for number in range(200)]

    async def follow() -> tuple[int, int]:
        with ExitStack() as stack:
            for folder in folders:
                folder.mkdir()
            watches = [stack.enter_context(DirectoryWatch(str(each))) for each in folders * 2]
            open_now = inotify_instances()
            for at in (7, 199):
                write(folders[at], b"said\n")
                async with asyncio.timeout(HANG_S):
                    await watches[at].changed()
                    await watches[at + 200].changed()
        return open_now, inotify_instances()

    assert (1, 0) == asyncio.run(follow())


def test_a_log_is_followed_without_inotify(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused() -> None:
        raise OSError(24, "inotify")

    monkeypatch.setattr("kuota.runner.directory_watch._Inotify.shared", refused)
    write(tmp_path, b"said\n")
    assert b"said\n" == text(tmp_path, follow=True)
