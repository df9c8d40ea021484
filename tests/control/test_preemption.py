# SPDX-License-Identifier: Apache-2.0
"""Preemption: the victim stops, its pods go, its quota is free, and it comes back later."""

from __future__ import annotations

from control.stage import (
    Stage,
    flavor,
    job,
    local_queue,
    priority_class,
    queue,
    told,
    workload_class,
)
from kuota.kube.errors import ServerError
from kuota.kube.resources import JOBS

BY_PRIORITY = {"withinClusterQueue": "LowerPriority"}
HIGH = {"kueue.x-k8s.io/priority-class": "high"}


async def _setting(stage: Stage, cpu: int = 4) -> None:
    await stage.api.apply(flavor(nodeLabels={"tier": "gold"}), workload_class("high", 100))
    await stage.api.apply(queue("cq", cpu, preemption=BY_PRIORITY), local_queue())


def test_a_victim_is_stopped_and_its_quota_waits_for_its_pods() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        stage.kubelet.grace_s = 30
        await stage.api.apply(job("low", "4"))
        await stage.rest()
        assert 1 == stage.active("low")
        await stage.api.apply(job("high", "4", labels=HIGH))
        await stage.rest(10)
        assert stage.suspended("low")
        assert "True/Preempted" == stage.says("low", "Evicted")
        assert "True/InClusterQueue" == stage.says("low", "Preempted")
        assert "True/QuotaReserved" == stage.says("low", "QuotaReserved")
        assert "False/WaitingForPreemptedWorkloads" == stage.says("high", "QuotaReserved")
        assert stage.suspended("high")
        await stage.rest(30)
        assert stage.says("low", "QuotaReserved").startswith("False/")
        assert "admission" not in stage.workload("low")["status"]
        assert "True/Preempted" == stage.says("low", "Requeued")
        assert "True/Admitted" == stage.says("high", "Admitted")
        assert not stage.suspended("high")
        assert 1 == stage.kubelet.most_pods

    told(scene)


def test_a_victim_starts_again_as_it_was_when_the_preemptor_is_done() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("low", "4"))
        await stage.rest()
        await stage.api.apply(job("high", "4", labels=HIGH))
        await stage.rest()
        template = stage.job("low")["spec"]["template"]
        assert not template["spec"].get("nodeSelector")
        assert not template.get("metadata", {}).get("labels")
        assert "kueue.x-k8s.io/stopping" not in stage.job("low")["metadata"]["annotations"]
        await stage.kubelet.succeed("high")
        await stage.rest()
        assert "True/Admitted" == stage.says("low", "Admitted")
        assert "False/QuotaReserved" == stage.says("low", "Evicted")
        assert not stage.suspended("low")
        assert "Stopped" in stage.events("Job", "low")
        told_of = stage.events("Workload", stage.workload("low")["metadata"]["name"])
        assert {"EvictedDueToPreempted", "Preempted"} <= set(told_of)

    told(scene)


def test_two_evictions_for_the_same_reason_are_counted_together() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("low", "4"))
        for name in ("one", "two"):
            await stage.rest()
            await stage.api.apply(job(name, "4", labels=HIGH))
            await stage.rest()
            await stage.kubelet.succeed(name)
        await stage.rest()
        counted = stage.workload("low")["status"]["schedulingStats"]["evictions"]
        assert [2] == [each["count"] for each in counted]

    told(scene)


def test_a_gang_is_admitted_whole_or_not_at_all() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, 10)
        await stage.api.apply(job("small", "4"), job("gang", "2", parallelism=4))
        await stage.rest()
        assert 0 == stage.active("gang")
        assert "False/WaitingForQuota" == stage.says("gang", "QuotaReserved")
        await stage.kubelet.succeed("small")
        await stage.rest()
        assert 4 == stage.active("gang")

    told(scene)


def test_a_lender_gets_its_quota_back_from_a_borrower_only() -> None:
    async def scene(stage: Stage) -> None:
        reclaim = {"reclaimWithinCohort": "Any"}
        await stage.api.apply(
            flavor(),
            queue("mine", 4, cohortName="all", preemption=reclaim),
            queue("theirs", 4, cohortName="all"),
            queue("others", 4, cohortName="all"),
            local_queue("mine", "mine"),
            local_queue("theirs", "theirs"),
            local_queue("others", "others"),
        )
        await stage.api.apply(job("theirs-1", "4", queue="theirs"), job("o", "4", queue="others"))
        await stage.rest()
        await stage.api.apply(job("theirs-2", "4", queue="theirs"))
        await stage.rest()
        assert not stage.suspended("theirs-2")
        await stage.api.apply(job("mine", "4", queue="mine"))
        await stage.rest()
        assert not stage.suspended("mine")
        assert not stage.suspended("o")
        both = [stage.suspended("theirs-1"), stage.suspended("theirs-2")]
        assert [False, True] == sorted(both)

    told(scene)


def test_a_stop_that_was_cut_off_is_completed() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("low", "4"))
        await stage.rest()
        stage.api.refuse["status", "Job"] = [ServerError(500, "InternalError", "out of order")]
        await stage.api.apply(job("high", "4", labels=HIGH))
        await stage.rest(60)
        assert stage.suspended("low")
        assert "kueue.x-k8s.io/stopping" not in stage.job("low")["metadata"]["annotations"]
        assert not stage.job("low")["spec"]["template"]["spec"].get("nodeSelector")
        assert not stage.suspended("high")

    told(scene)


def test_pod_priority_classes_count_where_no_workload_class_is_named() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(priority_class("urgent", 7))
        await stage.api.apply(job("low", "4"))
        await stage.rest()
        await stage.api.apply(job("urgent", "4", pod={"priorityClassName": "urgent"}))
        await stage.rest()
        assert 7 == stage.workload("urgent")["spec"]["priority"]
        assert not stage.suspended("urgent")
        assert stage.suspended("low")

    told(scene)


def test_a_change_of_priority_class_reorders_who_waits() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(workload_class("low", 1))
        low = {"kueue.x-k8s.io/priority-class": "low"}
        await stage.api.apply(job("runs", "4", labels=HIGH))
        await stage.rest()
        await stage.api.apply(job("first", "4", labels=low))
        await stage.rest()
        await stage.api.apply(job("second", "4", labels=low))
        await stage.rest()
        await stage.edit(JOBS, "second", {"metadata": {"labels": HIGH}})
        await stage.rest()
        assert 100 == stage.workload("second")["spec"]["priority"]
        assert "UpdatedWorkload" in stage.events("Job", "second")
        await stage.kubelet.succeed("runs")
        await stage.rest()
        assert not stage.suspended("second")
        assert stage.suspended("first")

    told(scene)


def test_workloads_follow_the_value_of_their_class() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("runs", "4", labels=HIGH), job("waits", "4", labels=HIGH))
        await stage.rest()
        await stage.api.apply(workload_class("high", 250))
        await stage.rest()
        both = [stage.workload(name)["spec"]["priority"] for name in ("runs", "waits")]
        assert [250, 250] == both

    told(scene)


def test_a_missing_class_is_told_and_waited_for() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("a", labels={"kueue.x-k8s.io/priority-class": "new"}))
        await stage.rest(2)
        assert [] == stage.workloads("a")
        assert "WorkloadPriorityClassNotFound" in stage.events("Job", "a")
        await stage.api.apply(workload_class("new", 5))
        await stage.rest()
        assert not stage.suspended("a")

    told(scene)
