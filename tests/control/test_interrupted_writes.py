# SPDX-License-Identifier: Apache-2.0
"""Interrupted writes and rare timing that a real server does not produce on demand."""

from __future__ import annotations

from control.objects import flavor, job, local_queue, queue, workload_class
from control.stage import Stage, run_scene
from kuota.kube.errors import ServerError


def test_a_stop_that_was_cut_off_is_completed() -> None:
    async def scene(stage: Stage) -> None:
        by_priority = {"withinClusterQueue": "LowerPriority"}
        await stage.api.apply(flavor(nodeLabels={"tier": "gold"}), workload_class("high", 100))
        await stage.api.apply(queue("cq", 4, preemption=by_priority), local_queue())
        await stage.api.apply(job("low", "4"))
        await stage.rest()
        stage.api.refuse["status", "Job"] = [ServerError(500, "InternalError", "out of order")]
        high = {"kueue.x-k8s.io/priority-class": "high"}
        await stage.api.apply(job("high", "4", labels=high))
        await stage.rest(60)
        assert stage.suspended("low")
        assert "kueue.x-k8s.io/stopping" not in stage.job("low")["metadata"]["annotations"]
        assert not stage.job("low")["spec"]["template"]["spec"].get("nodeSelector")
        assert not stage.suspended("high")

    run_scene(scene)


def test_deactivating_a_waiting_workload_leaves_no_event() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(1)
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        await stage.edit_workload("a", {"spec": {"active": False}})
        await stage.rest()
        assert "True/Deactivated" == stage.says("a", "Evicted")
        assert "" == stage.says("a", "Requeued")
        assert "EvictedDueToDeactivated" not in stage.events("Workload")

    run_scene(scene)


def test_without_a_word_in_the_configuration_half_an_hour_is_waited_for_pods() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        stage.kubelet.ready = False
        await stage.api.apply(job("a"))
        await stage.rest(1790)
        assert not stage.suspended("a")
        await stage.rest(15)
        assert stage.suspended("a")
        assert 1 == stage.workload("a")["status"]["requeueState"]["count"]

    run_scene(scene)
