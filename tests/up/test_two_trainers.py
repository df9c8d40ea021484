# SPDX-License-Identifier: Apache-2.0
"""Two trainers and one GPU: the script with a simulated GPU, and its verdict."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from gpu_verdict import Record, at_once, claims, parsed
from hang import HANG_S
from kuota.runner.inventory import found_gpus

SCRIPT = str(Path(__file__).parents[2] / "scripts" / "gpu_trial.py")
GPU = "GPU-1"
SIGHT = {"devices": 1, "device": GPU, "visible": GPU}


def trial(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, *options],
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )


@pytest.mark.slow
def test_the_urgent_trainer_gets_the_gpu_and_the_other_goes_on_where_it_saved() -> None:
    done = trial("--pretend")
    assert 0 == done.returncode, done.stdout + done.stderr
    assert "training/low       is preempted (InClusterQueue)" in done.stdout
    assert "\nNO" not in done.stdout


@pytest.mark.skipif(bool(found_gpus().ids), reason="there is a GPU here")
def test_without_a_gpu_the_trial_says_so_in_one_line() -> None:
    done = trial()
    assert (2, "") == (done.returncode, done.stdout)
    assert ["There is no GPU to try this on"] == [
        each.partition(":")[0] for each in done.stderr.splitlines()
    ]


def run(name: str, pid: int, begin_s: float, *middle: Record) -> list[Record]:
    own = [msgspec.structs.replace(each, name=name, pid=pid) for each in middle]
    return [Record(name, pid, "begins", begin_s), *own, Record(name, pid, "ends", begin_s + 9)]


def record(what: str, **more: object) -> Record:
    return msgspec.convert({"name": "", "pid": 0, "what": what, "at_s": 0.0, **more}, Record)


SAW = record("sees", **SIGHT)
FIRST = run("low", 1, 0, SAW, record("saved", step=28, loss=0.5))
URGENT = run("high", 3, 10, SAW, record("finished", step=30))
SECOND = run("low", 4, 20, SAW, record("resumes", step=28, loss=0.5), record("finished", step=80))
LOOK = [Record("bystander", 2, "sees", 5.0, devices=0, visible="")]


def denied(*parts: list[Record]) -> list[str]:
    """The claims that do not hold, each by its first words."""
    records = [each for part in parts for each in part]
    return [" ".join(each.text.split()[:3]) for each in claims(records) if not each.holds]


def test_the_records_of_a_good_trial_bear_every_claim_out() -> None:
    assert [] == denied(FIRST, LOOK, URGENT, SECOND)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([FIRST, LOOK, run("high", 3, 8, *URGENT[1:-1]), SECOND], ["no two of"]),
        ([FIRST[:-1], LOOK, URGENT, SECOND], ["all 3 noted", "no two of"]),
        (
            [FIRST, LOOK, run("high", 3, 10, record("sees", devices=2), URGENT[2]), SECOND],
            ["each saw exactly", "it was the"],
        ),
        (
            [FIRST, LOOK, URGENT, run("low", 4, 20, SAW, record("resumes", step=20), SECOND[3])],
            ["the first went"],
        ),
        ([run("low", 1, 0, SAW), LOOK, URGENT, SECOND], ["the first saved", "the first went"]),
        ([FIRST, LOOK, URGENT[:2] + URGENT[3:], SECOND], ["the urgent one"]),
        ([FIRST, LOOK, URGENT], ["processes came in"]),
        ([FIRST, URGENT, SECOND], ["a process that"]),
        (
            [FIRST, [msgspec.structs.replace(LOOK[0], devices=1)], URGENT, SECOND],
            ["a process that"],
        ),
    ],
    ids=[
        "two at once",
        "killed before its end",
        "two devices seen",
        "resumed elsewhere",
        "not saved",
        "not finished",
        "never came back",
        "nobody looked",
        "seen by all",
    ],
)
def test_records_that_tell_otherwise_are_not_believed(
    parts: list[list[Record]], expected: list[str]
) -> None:
    assert expected == denied(*parts)


def test_no_record_at_all_bears_nothing_out() -> None:
    assert 5 <= len(denied())


def test_a_line_that_is_still_being_written_does_not_count() -> None:
    line = msgspec.json.encode(SAW)
    assert [SAW] == parsed(line + b"\n" + line[:9])


def test_what_nvml_saw_counts_for_the_trainers_only() -> None:
    looks = [frozenset({1, 77}), frozenset({3, 77})]
    assert 1 == at_once(looks, [1, 3])
    assert 2 == at_once([*looks, frozenset({1, 3})], [1, 3])
    assert at_once([frozenset({77})], [1, 3]) is None
