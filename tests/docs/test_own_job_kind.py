# SPDX-License-Identifier: Apache-2.0
"""The job kind of the tutorial works as written, installed as a package."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import yaml

from control.objects import flavor, local_queue, queue
from control.stage import Stage, run_scene
from docs.pages import ROOT
from kuota.api.base import Json
from kuota.bridge.jobs.kind import JobKind
from kuota.bridge.jobs.registry import ALL, JobKindRegistry
from kuota.kube.resources import Resource
from kuota.plugins import PluginError, load_job_kinds

PAGE = (ROOT / "docs" / "own-job-kind.md").read_text()
RENDER = ("film.example.com", "RenderJob")
RENDER_JOBS = Resource("film.example.com", "v1", "renderjobs", "RenderJob")


def block(language: str) -> str:
    """The first block of the page in a language."""
    found = re.search(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    assert found is not None
    return found[1]


def install(folder: Path, entry_point: str, code: str = "") -> None:
    (folder / "render_queue.py").write_text(code or block("python"))
    about = folder / "render_queue-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: render-queue\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[kuota.job_kinds]\n{entry_point}\n")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "render_queue", raising=False)
    return tmp_path


@pytest.fixture
def kind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> JobKind:
    """The kind of the tutorial, installed and loaded."""
    declared = re.search(r'^(\w+) = "(.*)"$', block("toml"), re.M)
    assert declared is not None
    install(folder, f"{declared[1]} = {declared[2]}")
    monkeypatch.setattr(ALL, "_kinds", dict(ALL._kinds))
    load_job_kinds()
    return ALL.kind(RENDER)


def configuration() -> Json:
    text = re.search(r"^    ```yaml\n(.*?)^    ```", PAGE, re.M | re.S)
    assert text is not None
    found: Json = yaml.safe_load(text[1])
    return found


def test_a_job_of_the_tutorial_is_queued_started_preempted_and_finished(kind: JobKind) -> None:
    async def scene(stage: Stage) -> None:
        high = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": "high"},
            "value": 100,
        }
        preempting = queue("cq", 2, preemption={"withinClusterQueue": "LowerPriority"})
        await stage.api.apply(flavor(nodeLabels={"pool": "a"}), preempting, local_queue(), high)
        manifest = yaml.safe_load(block("yaml"))
        await stage.api.create(RENDER_JOBS, manifest)
        await stage.rest()
        job = stage.get(RENDER_JOBS, "trailer")
        assert job["spec"]["suspend"] is False
        assert {"pool": "a"} == job["spec"]["template"]["spec"]["nodeSelector"]
        await stage.status(RENDER_JOBS, "trailer", {"running": 2})

        urgent = {"name": "urgent", "namespace": "team"}
        urgent["labels"] = {  # type: ignore[assignment]
            "kueue.x-k8s.io/queue-name": "main",
            "kueue.x-k8s.io/priority-class": "high",
        }
        await stage.api.create(RENDER_JOBS, manifest | {"metadata": urgent})
        await stage.rest()
        job = stage.get(RENDER_JOBS, "trailer")
        assert job["spec"]["suspend"] is True
        assert manifest["spec"]["template"] == job["spec"]["template"]
        assert stage.get(RENDER_JOBS, "urgent")["spec"]["suspend"] is True
        await stage.status(RENDER_JOBS, "trailer", {"running": 0})
        await stage.rest()
        assert stage.get(RENDER_JOBS, "urgent")["spec"]["suspend"] is False
        await stage.status(RENDER_JOBS, "urgent", {"phase": "Done"})
        await stage.rest()
        assert "True/Succeeded" == stage.says("urgent", "Finished")
        assert stage.get(RENDER_JOBS, "trailer")["spec"]["suspend"] is False

    run_scene(scene, config=configuration())


def test_without_the_package_its_jobs_only_own_other_jobs() -> None:
    assert ALL.get(RENDER) is None

    async def scene(stage: Stage) -> None:
        await stage.furnish()
        manifest = yaml.safe_load(block("yaml"))
        await stage.api.create(RENDER_JOBS, manifest)
        await stage.rest()
        assert stage.get(RENDER_JOBS, "trailer")["spec"]["suspend"] is True
        assert [] == stage.workloads("trailer")

    run_scene(scene, config=configuration())


@pytest.mark.parametrize(
    ("entry_point", "code", "message"),
    [
        ("broken = render_queue:Missing", "", "has no attribute"),
        ("broken = render_queue:Other", "class Other: pass", "is not a subclass"),
        ("broken = render_queue:Other", "raise OSError('disk')", "disk"),
    ],
)
def test_a_package_that_cannot_be_loaded_is_named(
    folder: Path, entry_point: str, code: str, message: str
) -> None:
    install(folder, entry_point, code)
    with pytest.raises(PluginError, match=f"render-queue: job kind broken.*{message}"):
        load_job_kinds(JobKindRegistry())
