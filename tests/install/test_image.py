# SPDX-License-Identifier: Apache-2.0
"""The image and its entry point, without building it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def last_stage() -> list[str]:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    start = max(number for number, line in enumerate(lines) if line.startswith("FROM "))
    return lines[start:]


def test_the_image_runs_as_nobody_and_starts_no_shell() -> None:
    stage = last_stage()
    assert "USER 65532:65532" in stage
    assert 'ENTRYPOINT ["/manager"]' in stage
    assert not [line for line in stage if line.startswith(("RUN ", "CMD "))]


def test_all_that_is_copied_into_the_image_is_there_and_let_through() -> None:
    allowed = (ROOT / ".dockerignore").read_text().splitlines()
    for line in (ROOT / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            words = [word for word in line.split()[1:-1] if not word.startswith("--")]
            for each in words:
                assert (ROOT / each).exists()
                assert f"!{each}" in allowed


def test_the_image_contains_what_the_controller_can_use() -> None:
    """CEL in selectors of devices, a faster event loop, and a client of the history's database."""
    locked = (ROOT / "requirements.lock").read_text()
    for package in ("cel-expr-python", "uvloop", "pg8000"):
        assert f"\n{package}==" in locked


def test_the_program_takes_the_arguments_of_kueues_deployment(tmp_path: Path) -> None:
    """It reads them all before it finds the configuration wanting."""
    (tmp_path / "config.yaml").write_text("kind: Nothing\n")
    done = subprocess.run(
        [
            *(sys.executable, "-I", str(ROOT / "image" / "manager")),
            *(f"--config={tmp_path / 'config.yaml'}", "--zap-log-level=2"),
            "--feature-gates=LocalQueueMetrics=true",
        ],
        capture_output=True,
        text=True,
        env={"HOME": str(tmp_path)},
        check=False,
    )
    assert 1 == done.returncode
    assert "Configuration" in done.stderr
    assert "Usage" not in done.stderr
