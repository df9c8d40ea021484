# SPDX-License-Identifier: Apache-2.0
"""Runs on a full disk: their ends are recorded, and what cannot start is tried again."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from full_disk import disk, fill
from kuota.api.base import Key
from kuota.kube.resources import JOBS, PODS
from kuota.runner.devices import DeviceAllocations
from kuota.runner.processes import shim_state
from kuota.runner.run_state import RunState
from kuota.runner.shim_log import Log
from kuota.runner.shortage import is_temporary
from runner.machine import World, gpus, job, one_node, story
from runner.watched import Watched, launch, line_in_log
from runner.watched import story as process_story

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")


def test_the_state_has_a_fixed_size_and_space_for_the_next_one(tmp_path: Path) -> None:
    state = RunState(str(tmp_path))
    assert None is shim_state(str(tmp_path)), "nothing has run"
    sizes = []
    for code in range(3):
        state.write(pid=1, pidStart=2, code=code)
        found = shim_state(str(tmp_path))
        assert found is not None
        assert code == found.code
        sizes.append({each.name: each.stat().st_size for each in tmp_path.iterdir()})
    assert [{"state": 1024, "state.new": 1024}] * 3 == sizes


@ROOT
def test_the_exit_code_is_recorded_on_a_full_disk(tmp_path: Path) -> None:
    async def work() -> None:
        watched = Watched(tmp_path / "disk" / "0")
        (tmp_path / "root").mkdir()
        os.mkfifo(tmp_path / "root" / "go")
        script = "echo up; read x < go; seq 100000; echo last >&2; exit 5"
        watched.process.start(
            launch(script, cwd=str(tmp_path / "root"), log_bytes=100_000, log_files=3)
        )
        await line_in_log(tmp_path / "disk" / "0", "up")
        fill(tmp_path / "disk" / "filler")
        (tmp_path / "root" / "go").write_text("went\n")
        assert 5 == (await watched.ended()).exit_code

    with disk(tmp_path / "disk", size=1 << 20):
        process_story(work)


@ROOT
def test_a_killed_shim_is_replaced_on_a_full_disk(tmp_path: Path) -> None:
    async def work() -> None:
        folder = tmp_path / "disk" / "0"
        watched = Watched(folder)
        (tmp_path / "root").mkdir()
        os.mkfifo(tmp_path / "root" / "go")
        watched.process.start(launch("echo up; read x < go; exit 5", cwd=str(tmp_path / "root")))
        await line_in_log(folder, "up")
        fill(tmp_path / "disk" / "filler")
        before = (await watched.started()).state
        assert before is not None
        os.kill(before.shim, 9)
        await watched.until(lambda p: p.state is not None and p.state.shim != before.shim)
        (tmp_path / "root" / "go").write_text("went\n")
        assert 5 == (await watched.ended()).exit_code

    with disk(tmp_path / "disk", size=1 << 20):
        process_story(work)


@ROOT
def test_a_job_on_a_full_disk_waits_and_does_not_fail(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        fill(tmp_path / "disk" / "filler")
        await world.submit(job("late", "exit 0", resources=gpus(1), backoffLimit=0))
        waiting = await world.some(
            PODS,
            lambda some: any("lacks something" in str(each.get("status")) for each in some),
        )
        assert ["Pending"] == [each["status"]["phase"] for each in waiting]
        (tmp_path / "disk" / "filler").unlink()
        await world.until(JOBS, "late", lambda obj: obj["status"].get("completionTime"))

    with disk(tmp_path / "disk", size=1 << 20):
        story(tmp_path / "disk", work, one_node(1))


@ROOT
def test_a_pod_that_cannot_start_on_a_full_disk_can_be_deleted(tmp_path: Path) -> None:
    async def work(world: World) -> None:
        fill(tmp_path / "disk" / "filler")
        await world.submit(job("late", "exit 0", backoffLimit=0))
        await world.some(PODS, lambda some: any("lacks" in str(each["status"]) for each in some))
        await world.client.delete(JOBS, Key("team", "late"), propagation="Background")
        await world.some(PODS, lambda some: not some)

    with disk(tmp_path / "disk", size=1 << 20):
        story(tmp_path / "disk", work)


def test_a_log_that_could_not_be_opened_is_opened_later(tmp_path: Path) -> None:
    log = Log(str(tmp_path / "absent" / "log"), 1000, 2)
    with pytest.raises(OSError, match="absent"):
        log.write(b"one\n")
    (tmp_path / "absent").mkdir()
    log.write(b"two\n")
    assert log._file is not None
    log._file.close()
    assert (tmp_path / "absent" / "log").read_bytes().endswith(b"Z two\n")


def test_devices_are_released_even_if_that_cannot_be_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    path = str(folder / "devices.json")
    devices = DeviceAllocations(path, {"here": {"nvidia.com/gpu": ["a"]}})
    assert {"nvidia.com/gpu": ["a"]} == devices.take("uid", "here", {"nvidia.com/gpu": 1})
    folder.rename(tmp_path / "away")
    devices.release("uid")
    assert {} == devices.holders()
    assert {"nvidia.com/gpu": ["a"]} == devices.free("here")


def test_a_lack_of_something_is_temporary_and_a_wrong_path_is_not() -> None:
    for number in (errno.ENOSPC, errno.EMFILE, errno.ENOMEM, errno.EAGAIN, errno.EROFS):
        assert is_temporary(OSError(number, "lacking"))
    assert not is_temporary(OSError(errno.ENOTDIR, "wrong"))
