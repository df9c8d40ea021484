# SPDX-License-Identifier: Apache-2.0
"""The admission check controller of the tutorial works as written, installed as a package."""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from control.objects import condition, flavor, job, local_queue, queue
from control.stage import Stage, run_scene
from docs.pages import ROOT
from kuota.control.checks.registry import PLUGINS, CheckControllerRegistry
from kuota.kube.resources import ADMISSION_CHECKS
from kuota.plugins import PluginError, load_check_controllers

PAGE = (ROOT / "docs" / "own-admission-check.md").read_text()


def block(language: str, index: int = 0) -> str:
    """A block of the page in a language."""
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    return found[index]


def install(folder: Path, entry_point: str, code: str = "") -> None:
    (folder / "office_hours.py").write_text(code or block("python"))
    about = folder / "office_hours-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: office-hours\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[kuota.admission_checks]\n{entry_point}\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "office_hours", raising=False)
    return tmp_path


@pytest.fixture
def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = re.search(r'^(\w+) = "(.*)"$', block("toml"), re.M)
    assert declared is not None
    install(folder, f"{declared[1]} = {declared[2]}")
    monkeypatch.setattr(PLUGINS, "_by_name", dict(PLUGINS._by_name))
    load_check_controllers()


async def _checked_queue(stage: Stage) -> None:
    check, part = yaml.safe_load(block("yaml")), yaml.safe_load(block("yaml", 1))
    await stage.api.apply(flavor(), local_queue(), check, queue("cq", 4, **part["spec"]))


async def _sleep_until(stage: Stage, at: datetime) -> None:
    await stage.rest((at - stage.clock.now()).total_seconds())


def _check(stage: Stage, name: str) -> tuple[str, str]:
    (found,) = stage.workload(name)["status"]["admissionChecks"]
    return found["state"], found["message"]


@pytest.mark.slow
@pytest.mark.usefixtures("installed")
def test_a_job_of_the_tutorial_starts_when_the_office_opens() -> None:
    async def scene(stage: Stage) -> None:
        await _checked_queue(stage)
        await stage.api.apply(job("early"))
        await stage.rest()
        assert "True" == condition(stage.get(ADMISSION_CHECKS, "office-hours"), "Active")["status"]
        assert stage.suspended("early")
        assert ("Pending", "starts on Friday at 08:00 UTC") == _check(stage, "early")
        await _sleep_until(stage, datetime(2026, 1, 2, 7, 59, 55, tzinfo=UTC))
        assert stage.suspended("early")
        await stage.rest(10)
        assert not stage.suspended("early")
        assert ("Ready", "within office hours") == _check(stage, "early")

        await _sleep_until(stage, datetime(2026, 1, 2, 18, 30, tzinfo=UTC))
        assert not stage.suspended("early")
        await stage.api.apply(job("late"))
        await stage.rest()
        assert ("Pending", "starts on Monday at 08:00 UTC") == _check(stage, "late")
        await _sleep_until(stage, datetime(2026, 1, 5, 8, 0, 10, tzinfo=UTC))
        assert not stage.suspended("late")

    run_scene(scene)


def test_without_the_package_the_check_says_that_it_has_no_controller() -> None:
    async def scene(stage: Stage) -> None:
        await _checked_queue(stage)
        await stage.api.apply(job("early"))
        await stage.rest()
        active = condition(stage.get(ADMISSION_CHECKS, "office-hours"), "Active")
        assert ("False", "NoController") == (active["status"], active["reason"])
        assert "example.com/office-hours" in active["message"]
        assert "Start the controller" in active["message"]

    run_scene(scene)


@pytest.mark.parametrize(
    ("entry_point", "code", "message"),
    [
        ("broken = office_hours:Missing", "", "has no attribute"),
        ("broken = office_hours:Other", "class Other: pass", "is not a subclass"),
        (
            "broken = office_hours:Other",
            "from kuota.control.checks.controller import CheckController\n"
            "class Other(CheckController): pass",
            "has no name",
        ),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named(
    folder: Path, entry_point: str, code: str, message: str
) -> None:
    install(folder, entry_point, code)
    with pytest.raises(PluginError, match=f"office-hours: admission check broken.*{message}"):
        load_check_controllers(CheckControllerRegistry())
