# SPDX-License-Identifier: Apache-2.0
"""The disk of the control plane is full or read-only: deletions work, and no exit code is lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from full_disk import disk, fill
from hang import HANG_S
from up.lab import job, queues
from up.machine import KUBECTL, Machine, open_folder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")
REFUSED = 'status="507 '


def attempted(machine: Machine, *arguments: str) -> str:
    done = subprocess.run(
        [KUBECTL, *arguments, "-v=6"],
        env=machine.environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    return done.stderr


def create(machine: Machine, name: str) -> str:
    return attempted(machine, "create", "configmap", name, "--from-literal=a=b")


@pytest.mark.slow
def test_on_a_full_disk_deletions_work_and_nothing_fails_for_good() -> None:
    with open_folder() as folder, disk(folder / "state"):
        machine = Machine(folder / "state")
        machine.up("--gpus", "4")
        try:
            full_disk_story(machine, folder)
        finally:
            (machine.state / "filler").unlink(missing_ok=True)
            machine.down()


def full_disk_story(machine: Machine, folder: Path) -> None:
    go = folder / "go"
    waits = f"while ! [ -e {go} ]; do sleep 0.05; done"
    machine.apply(queues(4), job("ends", f"{waits}; seq 100000; exit 0"), job("gone", "sleep 1000"))
    machine.apply(job("fails", f"{waits}; exit 3", retries=0))
    for name in ("ends", "fails", "gone"):
        machine.started(name)
    fill(machine.state / "filler")

    refused = create(machine, "one")
    assert REFUSED in refused, refused
    assert "is full" in refused
    machine.kubectl("delete", "job", "gone", "--cascade=foreground", f"--timeout={HANG_S}s")
    assert [] == machine.get("pods", "-l", "job-name=gone")["items"]
    go.touch()  # Both end while nothing can be written.
    assert REFUSED in create(machine, "two")
    machine.kubectl("delete", "workloadpriorityclass", "high")

    (machine.state / "filler").unlink()
    assert REFUSED not in create(machine, "three")
    machine.wait("job/ends", "condition=complete")
    machine.wait("job/fails", "condition=failed")
    (pod,) = machine.get("pods", "-l", "job-name=fails")["items"]
    assert 3 == pod["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"]
    machine.apply(job("next", "true"))
    machine.wait("job/next", "condition=complete")


@pytest.mark.slow
def test_a_job_that_is_created_before_the_disk_is_full_waits_for_space() -> None:
    """It neither starts nor fails."""
    with open_folder() as folder, disk(folder / "state"):
        machine = Machine(folder / "state")
        machine.up("--gpus", "1")
        try:
            go = folder / "go"
            machine.apply(queues(1), job("first", f"while ! [ -e {go} ]; do sleep 0.05; done"))
            machine.started("first")
            machine.apply(job("second", "exit 0", retries=0))
            fill(machine.state / "filler")
            go.touch()
            assert REFUSED in create(machine, "one")
            (machine.state / "filler").unlink()
            machine.wait("job/second", "condition=complete")
        finally:
            machine.down()


@pytest.mark.slow
def test_a_read_only_disk_rejects_writes_with_a_status(tmp_path: Path) -> None:
    """As after an error of the file system, which then makes itself read-only."""
    with open_folder() as folder, disk(folder / "state", tmp_path / "image"):
        machine = Machine(folder / "state")
        machine.up()
        try:
            assert REFUSED not in create(machine, "one")
            device = os.stat(machine.state).st_dev
            name = os.path.basename(
                os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
            )
            Path(f"/sys/fs/ext4/{name}/trigger_fs_error").write_text("1")
            refused = create(machine, "two")
            assert REFUSED in refused, refused
            assert "cannot be written" in refused or "read-only" in refused
            assert "one" in machine.kubectl("get", "configmaps")
        finally:
            os.kill(machine.pid(), 9)
