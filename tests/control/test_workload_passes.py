# SPDX-License-Identifier: Apache-2.0
"""Passes over Workloads: a change causes one only if there is something to write."""

from __future__ import annotations

from typing import Any

from control.objects import job
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key

RETAINED: Json = {"objectRetentionPolicies": {"workloads": {"afterFinished": "1h"}}}


class Passes:
    """Counts passes over Workloads."""

    def __init__(self, stage: Stage) -> None:
        self.count = 0
        stage.system.instrument = self._instrument

    def _instrument(self, controller: str, reconcile: Any) -> Any:
        async def counted(key: Key) -> float | None:
            self.count += 1
            result: float | None = await reconcile(key)
            return result

        return counted if controller == "workload" else reconcile


def test_admitting_and_finishing_a_workload_takes_only_its_first_pass() -> None:
    async def scene(stage: Stage) -> None:
        passes = Passes(stage)
        await stage.furnish()
        await stage.api.apply(job("a"))
        await stage.rest()
        assert "True/Admitted" == stage.says("a", "Admitted")
        await stage.kubelet.succeed("a")
        await stage.rest()
        assert stage.says("a", "Finished").startswith("True/")
        assert 1 == passes.count

    run_scene(scene)


def test_a_change_that_leaves_something_to_write_causes_a_pass() -> None:
    async def scene(stage: Stage) -> None:
        passes = Passes(stage)
        await stage.furnish()
        await stage.api.apply(job("a"))
        await stage.rest()
        before = passes.count
        await stage.edit_workload("a", {"spec": {"active": False}})
        await stage.rest()
        assert passes.count > before
        assert stage.says("a", "Evicted").startswith("True/Deactivated")

    run_scene(scene)


def test_a_finished_workload_is_deleted_after_its_retention_period() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("a"))
        await stage.rest()
        await stage.kubelet.succeed("a")
        await stage.rest(3500)
        assert 1 == len(stage.workloads("a"))
        await stage.rest(200)
        assert [] == stage.workloads("a")

    run_scene(scene, RETAINED)
