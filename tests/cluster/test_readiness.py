# SPDX-License-Identifier: Apache-2.0
"""waitForPodsReady: eviction after the timeout, backoff, and deactivation."""

from __future__ import annotations

import pytest

from cluster.stage import Stage, StageRunner
from control.objects import job

READY = {
    "timeout": "2s",
    "recoveryTimeout": "2s",
    "requeuingStrategy": {"backoffBaseSeconds": 1, "backoffLimitCount": 1},
}
PATIENT = READY | {"timeout": "5m", "recoveryTimeout": "5m"}


@pytest.mark.slow
def test_pods_that_do_not_come_cost_the_quota_then_the_activity(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        stage.kubelet.ready = False
        await stage.apply(job("a"))
        await stage.shows("False/WaitForStart", stage.says, "a", "PodsReady")
        await stage.shows("True/PodsReadyTimeout", stage.says, "a", "Evicted")
        await stage.shows(1, lambda: stage.workload("a")["status"]["requeueState"]["count"])
        await stage.shows("True/BackoffFinished", stage.says, "a", "Requeued")
        await stage.shows(1, stage.active, "a")
        why = "True/DeactivatedDueToRequeuingLimitExceeded"
        await stage.shows(why, stage.says, "a", "Evicted")
        assert stage.workload("a")["spec"]["active"] is False
        await stage.shows(True, stage.suspended, "a")
        await stage.shows(None, lambda: stage.workload("a")["status"].get("requeueState"))

    on_stage(scene, {"waitForPodsReady": READY})


def test_pods_that_are_lost_may_recover_in_time(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.apply(job("a", parallelism=2))
        await stage.shows("True/Started", stage.says, "a", "PodsReady")
        await stage.set_ready("a", 1, False)
        await stage.shows("False/WaitForRecovery", stage.says, "a", "PodsReady")
        await stage.set_ready("a", 2, True)
        await stage.shows("True/Recovered", stage.says, "a", "PodsReady")
        assert "" == stage.says("a", "Evicted")
        assert not stage.suspended("a")

    on_stage(scene, {"waitForPodsReady": PATIENT})


def test_pods_that_are_lost_for_too_long_cost_the_quota(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.apply(job("a"))
        await stage.shows("True/Started", stage.says, "a", "PodsReady")
        await stage.set_ready("a", 1, False)
        await stage.holds(lambda: "PodsReadyTimeout" in stage.says("a", "Evicted"))

    on_stage(scene, {"waitForPodsReady": READY | {"timeout": "5m"}})


def test_nothing_is_blocked_while_waiting_for_pods_is_disabled(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(10)
        stage.kubelet.ready = False
        await stage.apply(job("a"))
        await stage.shows(1, stage.active, "a")
        await stage.apply(job("b"))
        await stage.shows(1, stage.active, "b")

    config = {"waitForPodsReady": PATIENT | {"blockAdmission": True}}
    on_stage(scene, config, {"DisableWaitForPodsReady": True})


def test_blocked_admission_lets_one_start_at_a_time(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(10)
        stage.kubelet.ready = False
        await stage.apply(job("a"))
        await stage.shows(1, stage.active, "a")
        await stage.apply(job("b"))
        await stage.shows("False/WaitingForPodsReady", stage.says, "b", "QuotaReserved")
        assert stage.suspended("b")
        await stage.set_ready("a", 1, True)
        await stage.shows(False, stage.suspended, "b")

    on_stage(scene, {"waitForPodsReady": PATIENT | {"blockAdmission": True}})
