# SPDX-License-Identifier: Apache-2.0
"""Wall time that does not jump."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from kuota.steady_time import SLEW, SteadyTime
from kuota.up.clock_file import ClockFile

START = 1_800_000_000.0
HOURS = 3 * 3600.0


class System:
    """A system clock that jumps when the test wants, and a time since boot."""

    def __init__(self, wall: float = START) -> None:
        self.wall = wall
        self.up = 1000.0

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.up += seconds

    def time(self) -> SteadyTime:
        return SteadyTime(lambda: self.wall, lambda: self.up)


@pytest.mark.parametrize("jump_s", [-HOURS, HOURS])
def test_durations_survive_a_jump(jump_s: float) -> None:
    system = System()
    time = system.time()
    began = time.now()
    for _ in range(60):
        system.passes(1)
        time.now()
    system.wall += jump_s
    for _ in range(60):
        system.passes(1)
        time.now()
    assert 120 == pytest.approx(time.now() - began, rel=SLEW)


@pytest.mark.parametrize("jump_s", [-HOURS, HOURS])
def test_it_approaches_the_system_clock_and_never_decreases(jump_s: float) -> None:
    system = System()
    time = system.time()
    time.now()
    system.wall += jump_s
    seen = []
    for _ in range(int(HOURS / SLEW / 600) + 2):
        system.passes(600)
        seen.append(time.now())
    assert system.wall == pytest.approx(seen[-1], abs=0.01)
    assert all(one < other for one, other in pairwise(seen))


def test_it_follows_a_clock_that_is_slowly_corrected() -> None:
    system = System()
    time = system.time()
    for _ in range(1000):
        system.passes(1)
        system.wall += 0.0005
        assert system.wall == pytest.approx(time.now(), abs=1e-6)


def test_a_clock_that_was_not_set_is_no_reference() -> None:
    system = System(wall=3600.0)
    time = system.time()
    assert 3600.0 == time.now()
    system.wall = START
    assert START == time.now()


@pytest.mark.parametrize("jump_s", [-HOURS, HOURS])
def test_a_restart_after_a_jump_continues_the_time(tmp_path: Path, jump_s: float) -> None:
    system = System()
    first = system.time()
    file = ClockFile(tmp_path / "clock.json", first, "boot")
    before = first.now()
    file.save()
    system.wall += jump_s
    system.passes(10)
    second = system.time()
    ClockFile(tmp_path / "clock.json", second, "boot").resume()
    assert before + 10 == pytest.approx(second.now(), abs=1)


def test_after_a_reboot_time_starts_at_the_system_clock_but_not_in_the_past(
    tmp_path: Path,
) -> None:
    def rebooted(away_s: float) -> float:
        system = System(wall=START + away_s)
        time = system.time()
        ClockFile(tmp_path / "clock.json", time, "another boot").resume()
        return time.now() - START

    ClockFile(tmp_path / "clock.json", System().time(), "boot").save()
    assert 600 == rebooted(600)
    assert 0 == pytest.approx(rebooted(-600), abs=1)
    assert -10 * 86400 == rebooted(-10 * 86400), "it was wrong before"


def test_a_damaged_file_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "clock.json").write_bytes(b"\0\0")
    time = System().time()
    ClockFile(tmp_path / "clock.json", time, "boot").resume()
    assert START == time.now()
