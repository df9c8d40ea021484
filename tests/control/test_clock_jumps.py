# SPDX-License-Identifier: Apache-2.0
"""The clock of the controller jumps by hours: timeouts expire when they are due all the same."""

from __future__ import annotations

import pytest

from control.objects import job
from control.stage import Stage, run_scene
from control.test_waiting import IMPATIENT, LIMIT

JUMPS = pytest.mark.parametrize("jump_s", [-3 * 3600.0, 3 * 3600.0])


@JUMPS
def test_the_maximum_execution_time_survives_a_jump(jump_s: float) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("a", "4", labels={LIMIT: "600"}))
        await stage.rest(200)
        stage.clock.skew_s = jump_s
        await stage.rest(340)
        assert not stage.suspended("a"), "it has 60 s left"
        await stage.rest(120)
        assert stage.workload("a")["spec"]["active"] is False

    run_scene(scene)


@JUMPS
def test_the_timeout_of_pods_and_the_delay_of_a_requeue_survive_jumps(jump_s: float) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        stage.kubelet.ready = False
        await stage.api.apply(job("a", "4"))
        await stage.rest(30)
        stage.clock.skew_s = jump_s
        await stage.rest(20)
        assert "True/Admitted" == stage.says("a", "Admitted"), "10 s before the timeout"
        await stage.rest(20)
        assert "False/PodsReadyTimeout" == stage.says("a", "Requeued")
        stage.clock.skew_s = -jump_s
        await stage.rest(10)
        assert "False/PodsReadyTimeout" == stage.says("a", "Requeued"), "the delay is 30 s"
        await stage.rest(25)
        assert "True/Admitted" == stage.says("a", "Admitted")

    run_scene(scene, IMPATIENT)
