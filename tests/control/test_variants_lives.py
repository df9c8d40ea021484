# SPDX-License-Identifier: Apache-2.0
"""Variants are created, updated and deleted with their queue, Job and parent."""

from __future__ import annotations

from control.objects import flavor, job, local_queue, queue
from control.stage import Stage, run_scene
from control.variants import (
    ON,
    PARENT,
    active,
    admitted,
    quota,
    runs_on,
    says,
    setting,
    told_of,
    variants,
)
from kuota.api.base import Key
from kuota.kube.resources import JOBS, WORKLOADS


def test_variants_end_with_the_job() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage)
        await stage.api.apply(job("j", "4"), job("k", "4"))
        await stage.rest()
        await stage.kubelet.succeed("j")
        await stage.rest()
        found = variants(stage, "j").values()
        assert ["True/Succeeded"] * 2 == [says(each, "Finished") for each in found]
        await stage.api.delete(JOBS, Key("team", "k"), propagation="Background")
        await stage.rest()
        assert 3 == len(stage.api.all(WORKLOADS))
        await stage.api.apply(job("l", "4"), job("m", "4"))
        await stage.rest()
        assert 2 == stage.active("l") + stage.active("m")

    run_scene(scene, gates=ON)


def test_flavors_that_come_and_go_take_their_variants_along() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage)
        await stage.api.apply(job("j", "4"), flavor("late"))
        await stage.rest()
        assert "reserved" == runs_on(stage, "j")
        await quota(stage, late=4, spot=4)
        await stage.rest()
        assert ["late", "spot"] == sorted(variants(stage, "j"))
        assert {"DeletedVariant", "EvictedDueToConcurrentAdmission"} <= told_of(stage, "j")
        assert runs_on(stage, "j") in ("late", "spot")
        assert 1 == stage.active("j")

    run_scene(scene, gates=ON)


def test_a_parent_that_is_deactivated_stops_all_of_them_until_it_is_active_again() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage)
        await stage.api.apply(job("j", "4"))
        await stage.rest()
        await stage.edit_workload("j", {"spec": {"active": False}})
        await stage.rest()
        assert stage.suspended("j")
        assert [] == active(stage, "j")
        assert [] == admitted(stage, "j")
        assert "False/Deactivated" == stage.says("j", "Requeued")
        await stage.edit_workload("j", {"spec": {"active": True}})
        await stage.rest()
        assert "reserved" == runs_on(stage, "j")
        assert 1 == stage.active("j")

    run_scene(scene, gates=ON)


def test_variants_ask_for_what_the_job_asks_for_by_now() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage)
        await stage.api.apply(queue("plain", flavors={"spot": 9}), local_queue("other", "plain"))
        await stage.api.apply(job("j", "1", parallelism=9))
        await stage.rest()
        assert stage.suspended("j")
        await stage.edit(JOBS, "j", {"spec": {"parallelism": 3}})
        await stage.rest()
        assert 3 == stage.active("j")
        await stage.api.apply(job("k", "1", parallelism=9))
        await stage.rest()
        assert 2 == len(variants(stage, "k"))
        # Elsewhere it queues itself, and needs no variants.
        label = {"kueue.x-k8s.io/queue-name": "other"}
        await stage.edit(JOBS, "k", {"metadata": {"labels": label}})
        await stage.rest()
        assert {} == variants(stage, "k")
        assert PARENT not in stage.workload("k")["metadata"]["labels"]
        assert 9 == stage.active("k")

    run_scene(scene, gates=ON)


def test_pods_that_are_not_ready_in_time_cost_the_variant_its_quota_for_a_while() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage, flavors={"reserved": 4})
        stage.kubelet.ready = False
        await stage.api.apply(job("j", "4"), job("k", "4"))
        await stage.rest()
        first, second = sorted("jk", key=stage.active, reverse=True)
        assert (1, 0) == (stage.active(first), stage.active(second))
        await stage.rest(35)
        assert "False/PodsReadyTimeout" == stage.says(first, "Requeued")
        assert (0, 1) == (stage.active(first), stage.active(second))
        stage.kubelet.ready = True
        await stage.kubelet.succeed(second)
        await stage.rest(120)
        assert 1 == stage.active(first)
        assert "True/Started" == stage.says(first, "PodsReady")
        (variant,) = variants(stage, first).values()
        assert "True/Started" == says(variant, "PodsReady")

    strategy = {"backoffBaseSeconds": 60}
    ready = {"timeout": "30s", "requeuingStrategy": strategy, "blockAdmission": True}
    run_scene(scene, config={"waitForPodsReady": ready}, gates=ON)


def test_time_that_is_up_is_up_for_the_parent() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage)
        limit = {"kueue.x-k8s.io/max-exec-time-seconds": "60"}
        await stage.api.apply(job("j", "4", labels=limit))
        await stage.rest(70)
        assert "True/DeactivatedDueToMaximumExecutionTimeExceeded" == stage.says("j", "Evicted")
        assert stage.suspended("j")
        await stage.rest(60)
        assert [] == active(stage, "j")
        assert 1 == stage.events("Job", "j").count("Started")

    run_scene(scene, gates=ON)


def test_a_restart_finds_the_family_as_it_was() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage, flavors={"reserved": 0, "spot": 4})
        await stage.api.apply(job("j", "4"), job("k", "4"))
        await stage.rest()
        before = stage.api.writes
        await stage.restart()
        await stage.rest()
        assert before == stage.api.writes
        await quota(stage, reserved=4, spot=4)
        await stage.rest()
        assert ["reserved", "spot"] == sorted(runs_on(stage, each) for each in "jk")

    run_scene(scene, gates=ON)


def test_no_variants_exist_while_the_gate_is_off() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage, flavors={"reserved": 0, "spot": 4})
        await stage.api.apply(job("j", "4"))
        await stage.rest()
        assert {} == variants(stage, "j")
        assert 1 == stage.active("j")

    run_scene(scene)


def test_what_runs_when_the_gate_is_turned_on_goes_on() -> None:
    async def scene(stage: Stage) -> None:
        await setting(stage, flavors={"reserved": 4, "spot": 0})
        await stage.api.apply(job("old", "4"))
        await stage.rest()
        await stage.restart(ON)
        await stage.api.apply(job("new", "4"))
        await stage.rest()
        assert {} == variants(stage, "old")
        assert (1, 0) == (stage.active("old"), stage.active("new"))
        await stage.kubelet.succeed("old")
        await stage.rest()
        assert 1 == stage.active("new")
        assert 2 == len(variants(stage, "new"))

    run_scene(scene)
