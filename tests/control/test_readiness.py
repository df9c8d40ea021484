# SPDX-License-Identifier: Apache-2.0
"""waitForPodsReady: who is late loses the quota, waits longer each time, and is given up."""

from __future__ import annotations

from control.stage import Stage, flavor, job, local_queue, queue, told
from kuota.api.base import Key

READY = {
    "timeout": "60s",
    "recoveryTimeout": "30s",
    "requeuingStrategy": {"backoffBaseSeconds": 10, "backoffLimitCount": 1},
}


async def _setting(stage: Stage, cpu: int = 4) -> None:
    await stage.api.apply(flavor(), queue("cq", cpu), local_queue())


def test_pods_that_do_not_come_cost_the_quota_then_the_activity() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        stage.kubelet.ready = False
        await stage.api.apply(job("a"))
        await stage.rest(55)
        assert "False/WaitForStart" == stage.says("a", "PodsReady")
        assert not stage.suspended("a")
        await stage.rest(8)
        assert "True/PodsReadyTimeout" == stage.says("a", "Evicted")
        assert 1 == stage.workload("a")["status"]["requeueState"]["count"]
        assert stage.suspended("a")
        await stage.rest(15)
        assert "True/BackoffFinished" == stage.says("a", "Requeued")
        assert not stage.suspended("a")
        await stage.rest(70)
        assert stage.workload("a")["spec"]["active"] is False
        assert "True/DeactivatedDueToRequeuingLimitExceeded" == stage.says("a", "Evicted")
        assert "requeueState" not in stage.workload("a")["status"]

    told(scene, {"waitForPodsReady": READY})


def test_pods_that_are_lost_may_recover_in_time() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("a", parallelism=2))
        await stage.rest()
        assert "True/Started" == stage.says("a", "PodsReady")
        await stage.kubelet.status(Key("team", "a"), ready=1)
        await stage.rest(20)
        assert "False/WaitForRecovery" == stage.says("a", "PodsReady")
        await stage.kubelet.status(Key("team", "a"), ready=2)
        await stage.rest(20)
        assert "True/Recovered" == stage.says("a", "PodsReady")
        await stage.kubelet.status(Key("team", "a"), ready=1)
        await stage.rest(25)
        assert "" == stage.says("a", "Evicted")
        await stage.rest(10)
        assert "PodsReadyTimeout" in stage.says("a", "Evicted")

    told(scene, {"waitForPodsReady": READY})


def test_without_a_word_in_the_configuration_half_an_hour_is_waited() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        stage.kubelet.ready = False
        await stage.api.apply(job("a"))
        await stage.rest(1790)
        assert not stage.suspended("a")
        await stage.rest(15)
        assert stage.suspended("a")
        assert 1 == stage.workload("a")["status"]["requeueState"]["count"]

    told(scene)


def test_blocked_admission_lets_one_start_at_a_time() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, 10)
        stage.kubelet.ready = False
        await stage.api.apply(job("a"))
        await stage.rest()
        await stage.api.apply(job("b"))
        await stage.rest()
        assert not stage.suspended("a")
        assert stage.suspended("b")
        assert "False/WaitingForPodsReady" == stage.says("b", "QuotaReserved")
        await stage.kubelet.status(Key("team", "a"), ready=1)
        await stage.rest()
        assert not stage.suspended("b")

    told(scene, {"waitForPodsReady": READY | {"blockAdmission": True}})
