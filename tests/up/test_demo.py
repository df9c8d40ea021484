# SPDX-License-Identifier: Apache-2.0
"""The README's first command runs to completion and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hang import HANG_S
from up.machine import KUOTA, open_folder

ROOT = Path(__file__).parents[2]


def processes_of(folder: Path) -> list[str]:
    """The processes that were started with the folder, are in it, or have files of it open."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            links = [process / "cwd", *(process / "fd").iterdir()]
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            used = [os.readlink(each) for each in links]
        except OSError:
            continue
        if any(str(folder) in each for each in (words, *used)):
            found.append(f"{process.name}: {words}")
    return found


def in_order(output: str, *patterns: str) -> None:
    place = 0
    for each in patterns:
        match = re.compile(each).search(output, place)
        assert match, f"no {each!r} after {output[:place][-80:]!r} in\n{output}"
        place = match.end()


@pytest.fixture
def state() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder / "state"


@pytest.mark.slow
def test_the_demo_runs_to_its_end_with_real_processes(state: Path) -> None:
    done = subprocess.run(
        [KUOTA, "demo", "--state", str(state)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    output = done.stdout
    assert 0 == done.returncode, output + done.stderr
    in_order(output, r"vision +borrows 4 idle GPUs", r"speech/gang +waits: .*2 more needed")
    in_order(
        output,
        r"speech/gang +waits",
        r"research/pretrain +is submitted",
        r"vision/train +is preempted \(InCohortReclamation\)",
        r"research/pretrain +is admitted with 4 GPUs",
        r"vision/train +is admitted with 6 GPUs",
        r"vision/train +has finished",
        r"train +vision +6 .* 1\n",
    )
    in_order(output, r"speech/gang +waits", r"speech/gang +is admitted", r"gang +all 4 processes")
    saved, resumed = (
        re.findall(each, output) for each in (r"saved step (\d+)", r"resumes from step (\d+)")
    )
    assert 1 == len(saved)
    assert saved == resumed
    steps = [int(each) for each in re.findall(r"│ step (\d+) of 12", output)]
    assert list(range(1, 13)) == steps
    assert [] == processes_of(state)


@pytest.mark.slow
def test_a_story_that_is_broken_off_leaves_no_process_behind(state: Path) -> None:
    with subprocess.Popen(
        [KUOTA, "demo", "--state", str(state)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        # A shell that runs the tests in the background makes them ignore the signal.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        assert any("step 1 of 12" in line for line in process.stdout)
        assert processes_of(state)
        process.send_signal(signal.SIGINT)
        assert process.wait(HANG_S)
    assert [] == processes_of(state)


def test_a_story_that_cannot_go_on_says_why_and_fails(state: Path, tmp_path: Path) -> None:
    manifests = tmp_path / "manifests"
    manifests.mkdir()
    arguments = ["demo", "--state", str(state), "--manifests", str(manifests)]
    done = subprocess.run(
        [KUOTA, *arguments], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert 1 == done.returncode
    assert "timed out waiting for" in done.stderr
    assert str(state / "kuota.log") in done.stderr
    assert [] == processes_of(state)
