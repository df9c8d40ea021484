# SPDX-License-Identifier: Apache-2.0
"""The log has one line for each event of a Workload, without repetitions."""

from __future__ import annotations

from typing import Any

import pytest

from control.objects import job
from control.stage import Scene, Stage, run_scene
from kuota.control.decision_log import V2, V4
from kuota.kube.resources import CLUSTER_QUEUES

PREEMPTING = {"withinClusterQueue": "LowerPriority"}


def _logged(
    caplog: pytest.LogCaptureFixture, scene: Scene, level: int = V2
) -> list[tuple[str, dict[str, Any]]]:
    caplog.set_level(level, "kuota.decisions")
    run_scene(scene)
    return [
        (each.getMessage(), getattr(each, "fields", {}))
        for each in caplog.records
        if each.name == "kuota.decisions"
    ]


def test_an_admission_is_one_line_with_its_flavors(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("a", "4"))
        await stage.rest()

    ((message, fields),) = _logged(caplog, scene)
    assert "Workload admitted" == message
    assert fields.pop("workload").startswith("team/job-a-")
    assert fields == {
        "localQueue": "main",
        "clusterQueue": "cq",
        "flavors": {"main": {"cpu": "default"}},
        "waitedSeconds": 0,
    }


def test_a_rejection_is_logged_once_per_reason(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("runs", "1", parallelism=3, completions=3), job("waits", "4"))
        await stage.rest()
        await stage.kubelet.succeed("runs")
        await stage.rest()

    lines = [fields for message, fields in _logged(caplog, scene) if "rejected" in message]
    assert ["WaitingForQuota"] == [each["reason"] for each in lines]
    assert "more needed" in lines[0]["detail"]


def test_a_preemption_names_both_workloads(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"preemption": PREEMPTING}})
        await stage.api.apply(*_classes(), job("low", "4"))
        await stage.rest()
        await stage.api.apply(job("high", "4", labels={"kueue.x-k8s.io/priority-class": "urgent"}))
        await stage.rest()

    lines = _logged(caplog, scene)
    messages = [message for message, _ in lines]
    assert 1 == messages.count("Workload preempted")
    assert 1 == messages.count("Workload evicted")
    fields = dict(lines)["Workload preempted"]
    assert fields["workload"].startswith("team/job-low-")
    assert fields["preemptor"].startswith("team/job-high-")
    assert "InClusterQueue" == fields["reason"]
    assert "Preempted" == dict(lines)["Workload evicted"]["reason"]


def test_a_cycle_has_a_summary_at_verbosity_4_only(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("a", "4"))
        await stage.rest()

    found = [fields for message, fields in _logged(caplog, scene, V4) if "cycle" in message]
    assert [(1, 1)] == [(each["heads"], each["admit"]) for each in found]
    caplog.clear()
    assert not any("cycle" in message for message, _ in _logged(caplog, scene))


def _classes() -> list[Any]:
    return [
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "WorkloadPriorityClass",
            "metadata": {"name": "urgent"},
            "value": 1000,
        }
    ]
