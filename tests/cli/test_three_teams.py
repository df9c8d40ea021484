# SPDX-License-Identifier: Apache-2.0
"""The output of the first example."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from kuota.cli.plan import command

EXAMPLE = Path(__file__).parents[2] / "examples" / "three-teams"


def shown(*options: str) -> str:
    result = CliRunner().invoke(command, ["-f", str(EXAMPLE), *options])
    assert 0 == result.exit_code, result.output
    return result.output


def test_it_fits_a_screen_and_has_no_colour() -> None:
    lines = shown().splitlines()
    assert len(lines) <= 50
    assert max(map(len, lines)) <= 100
    assert all(line == line.rstrip() and "\x1b" not in line for line in lines)


def test_idle_quota_is_borrowed_then_taken_back() -> None:
    output = shown()
    assert "arrives and is admitted, borrowing 2 nvidia.com/gpu from speech" in output
    assert "arrives, preempts vision/sweep and is admitted" in output


def test_a_gang_waits_whole_until_there_is_room_for_all_of_it() -> None:
    output = shown()
    assert "arrives and waits: needs 4 nvidia.com/gpu on h100, only 2 left in cohort" in output
    assert "research/gang      is admitted" in output


def test_a_job_that_can_never_run_is_reported() -> None:
    output = shown("--explain", "speech/giant")
    assert "the borrowingLimit of ClusterQueue speech allows no" in output
    assert "request at most 6 nvidia.com/gpu" in output


def test_its_own_readme_shows_what_it_prints() -> None:
    readme = (EXAMPLE / "README.md").read_text(encoding="utf-8")
    assert shown().strip() in readme
