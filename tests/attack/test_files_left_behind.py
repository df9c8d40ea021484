# SPDX-License-Identifier: Apache-2.0
"""What a pod leaves behind, or puts in the place of its log, misleads neither runner nor server."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from hang import HANG_S
from kuota.runner.deletion import delete_content
from kuota.runner.logs import LogQuery, read_log
from kuota.runner.pod_home import PodHome
from runner.machine import World, container, pod, story

DEPTH = 3000
"""Deeper than the recursion limit of Python, and than a path may be long."""


def make_deep(folder: Path) -> None:
    before = os.getcwd()
    os.chdir(folder)
    for _ in range(DEPTH):
        os.mkdir("d")
        os.chdir("d")
    Path("file").touch()
    os.chdir(before)


def test_directories_of_any_depth_are_deleted(tmp_path: Path) -> None:
    trash = tmp_path / "trash"
    (trash / "pod").mkdir(parents=True)
    make_deep(trash / "pod")
    delete_content(str(trash))
    assert [] == list(trash.iterdir())


def test_deletion_follows_no_links_and_needs_no_permission(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    closed = tmp_path / "trash/pod/closed"
    (closed / "deep").mkdir(parents=True)
    (closed / "link").symlink_to(outside)
    (tmp_path / "trash/link").symlink_to(outside)
    os.mkfifo(tmp_path / "trash/pod/fifo")
    closed.chmod(0)
    delete_content(str(tmp_path / "trash"))
    assert [] == list((tmp_path / "trash").iterdir())
    assert ["kept"] == [each.name for each in outside.iterdir()]


@pytest.mark.slow
def test_a_pod_that_leaves_a_deep_directory_is_removed(tmp_path: Path) -> None:
    each = "(os.mkdir('d'), os.chdir('d'))"
    deep = f'exec {sys.executable} -c "import os; [{each} for _ in range({DEPTH})]"'

    async def work(world: World) -> None:
        await world.submit(pod("deep", container(deep)))
        await world.phase("deep", "Succeeded")
        await world.end_all()
        async with asyncio.timeout(HANG_S):
            while any((tmp_path / "trash").iterdir()):
                await asyncio.sleep(0.01)

    story(tmp_path, work)


def test_the_event_loop_deletes_no_directories_of_pods(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A thousand pods that were deleted together held the server for seconds.
    monkeypatch.setattr(PodHome, "remove", lambda self: pytest.fail("removed by the loop"))
    (tmp_path / "trash/left by an earlier start").mkdir(parents=True)

    async def work(world: World) -> None:
        await world.submit(pod("one", container("true")))
        await world.phase("one", "Succeeded")
        await world.end_all()
        async with asyncio.timeout(HANG_S):
            while any((tmp_path / "trash").iterdir()):
                await asyncio.sleep(0.01)

    story(tmp_path, work)


def test_a_link_in_the_place_of_a_log_is_not_read(tmp_path: Path) -> None:
    async def text(folder: Path) -> bytes:
        async with asyncio.timeout(HANG_S):
            return b"".join([piece async for piece in read_log(str(folder), LogQuery())])

    secret = tmp_path / "secret"
    secret.write_text("2026-11-15T12:00:00.000000000Z the admin token\n")
    for name, place in (("link", "log"), ("older", "log.1"), ("fifo", "log")):
        run = tmp_path / name
        run.mkdir()
        if name == "fifo":
            os.mkfifo(run / place)
        else:
            (run / place).symlink_to(secret)
        assert b"" == asyncio.run(text(run)), name
