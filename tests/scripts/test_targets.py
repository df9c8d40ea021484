# SPDX-License-Identifier: Apache-2.0
"""README and CONTRIBUTING describe the test targets correctly."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# The environment counts as ready here, so that `make -n` prints the command alone.
READY = "DEV="


def commands(*arguments: str) -> str:
    """What make would run. Nothing of a make that runs these tests is inherited."""
    made = ("make", "--no-print-directory", "-n", READY, *arguments)
    env = {"PATH": os.environ["PATH"]}
    return subprocess.run(made, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True).stdout


def test_every_slow_test_is_left_to_test_slow() -> None:
    assert commands("test").endswith('-m pytest -n auto -m "not slow"\n')
    assert commands("test-slow").endswith("-m pytest -n $(( 2 * $(nproc) )) -m slow \n")


def test_arguments_select_slow_tests_too() -> None:
    chosen = "tests/attack/test_kills.py -k whatever"
    assert commands("test", f"ARGS={chosen}").endswith(f"-m pytest -n auto {chosen}\n")
    assert commands("test-slow", f"ARGS={chosen}").endswith(
        f"-m pytest -n $(( 2 * $(nproc) )) -m slow {chosen}\n"
    )


def test_all_tests_run_before_a_change_goes_in() -> None:
    steps = re.findall(r"^ *step make (\S+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert ["test", "test-slow", "test-kube", "test-browser", "lint"] == steps[:5]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_target_that_is_named_exists(page: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", (ROOT / page).read_text(), re.MULTILINE))
    assert {"test"} <= named <= targets


@pytest.mark.parametrize(
    "story",
    ["tests/up/test_up.py", "tests/controller/test_process.py", "tests/server/test_kubectl.py"],
)
def test_stories_with_real_processes_and_kubectl_are_not_all_slow(story: str) -> None:
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-m", "not slow", story],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert pytest.ExitCode.OK == found.returncode, found.stdout
