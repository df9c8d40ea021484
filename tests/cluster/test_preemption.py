# SPDX-License-Identifier: Apache-2.0
"""Preemption: the victim stops, releases its quota, and is admitted again later."""

from __future__ import annotations

from cluster.stage import Stage, StageRunner
from control.objects import flavor, job, local_queue, priority_class, queue, workload_class
from kuota.kube.resources import JOBS

BY_PRIORITY = {"withinClusterQueue": "LowerPriority"}
HIGH = {"kueue.x-k8s.io/priority-class": "high"}


async def _setting(stage: Stage, cpu: int = 4) -> None:
    await stage.apply(flavor(nodeLabels={"tier": "gold"}), workload_class("high", 100))
    await stage.apply(queue("cq", cpu, preemption=BY_PRIORITY), local_queue())


def test_the_quota_of_a_victim_is_free_once_its_pods_are_terminating(
    on_stage: StageRunner,
) -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        stage.kubelet.hold()
        await stage.apply(job("low", "4"))
        await stage.shows(1, stage.active, "low")
        await stage.apply(job("high", "4", labels=HIGH))
        await stage.shows(True, stage.suspended, "low")
        await stage.shows("True/Admitted", stage.says, "high", "Admitted")
        await stage.shows(False, stage.suspended, "high")
        assert "True/Preempted" == stage.says("low", "Evicted")
        assert "True/InClusterQueue" == stage.says("low", "Preempted")
        assert stage.says("low", "QuotaReserved").startswith("False/")
        assert "admission" not in stage.workload("low")["status"]
        assert "True/Preempted" == stage.says("low", "Requeued")
        await stage.shows(1, stage.active, "high")
        stage.kubelet.let_go()

    on_stage(scene)


def test_a_victim_starts_again_as_it_was_when_the_preemptor_is_done(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.apply(job("low", "4"))
        await stage.shows(1, stage.active, "low")
        await stage.apply(job("high", "4", labels=HIGH))
        await stage.shows(1, stage.active, "high")
        await stage.shows({}, _marks, stage, "low")
        assert "kueue.x-k8s.io/stopping" not in _annotations(stage, "low")
        await stage.succeed("high")
        await stage.shows("True/Admitted", stage.says, "low", "Admitted")
        assert "False/QuotaReserved" == stage.says("low", "Evicted")
        await stage.shows(False, stage.suspended, "low")
        await stage.shows(1, stage.active, "low")
        assert {"tier": "gold"} == stage.job("low")["spec"]["template"]["spec"]["nodeSelector"]
        await stage.holds(lambda: "Stopped" in stage.events("Job", "low"))
        name = stage.workload("low")["metadata"]["name"]
        wanted = {"EvictedDueToPreempted", "Preempted"}
        await stage.holds(lambda: wanted <= set(stage.events("Workload", name)))

    on_stage(scene)


def _marks(stage: Stage, name: str) -> dict[str, object]:
    """What admission left in a Job's template; a Job controller's own labels do not count."""
    template = stage.job(name)["spec"]["template"]
    labels = (template.get("metadata") or {}).get("labels") or {}
    marks = {name: value for name, value in labels.items() if "kueue" in name}
    return marks | (template["spec"].get("nodeSelector") or {})


def _annotations(stage: Stage, name: str) -> dict[str, str]:
    return dict(stage.job(name)["metadata"].get("annotations") or {})


def test_two_evictions_for_the_same_reason_are_counted_together(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.apply(job("low", "4"))
        for name in ("one", "two"):
            await stage.shows(1, stage.active, "low")
            await stage.apply(job(name, "4", labels=HIGH))
            await stage.shows(1, stage.active, name)
            await stage.succeed(name)
        await stage.shows("True/Admitted", stage.says, "low", "Admitted")
        counted = stage.workload("low")["status"]["schedulingStats"]["evictions"]
        assert [2] == [each["count"] for each in counted]

    on_stage(scene)


def test_a_gang_is_admitted_whole_or_not_at_all(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, 10)
        await stage.apply(job("small", "4"))
        await stage.shows(1, stage.active, "small")
        await stage.apply(job("gang", "2", parallelism=4))
        await stage.shows("False/WaitingForQuota", stage.says, "gang", "QuotaReserved")
        assert 0 == stage.active("gang")
        await stage.succeed("small")
        await stage.shows(4, stage.active, "gang")

    on_stage(scene)


def test_a_lender_gets_its_quota_back_from_a_borrower_only(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        reclaim = {"reclaimWithinCohort": "Any"}
        await stage.apply(
            flavor(),
            queue("mine", 4, cohortName="all", preemption=reclaim),
            queue("theirs", 4, cohortName="all"),
            queue("others", 4, cohortName="all"),
            local_queue("mine", "mine"),
            local_queue("theirs", "theirs"),
            local_queue("others", "others"),
        )
        await stage.apply(job("theirs-1", "4", queue="theirs"), job("o", "4", queue="others"))
        await stage.shows(1, stage.active, "theirs-1")
        await stage.shows(1, stage.active, "o")
        await stage.apply(job("theirs-2", "4", queue="theirs"))
        await stage.shows(1, stage.active, "theirs-2")
        await stage.apply(job("mine", "4", queue="mine"))
        await stage.shows(1, stage.active, "mine")
        assert not stage.suspended("o")
        both = [stage.suspended("theirs-1"), stage.suspended("theirs-2")]
        assert [False, True] == sorted(both)

    on_stage(scene)


def test_pod_priority_classes_count_where_no_workload_class_is_named(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.apply(priority_class("urgent", 7))
        await stage.apply(job("low", "4"))
        await stage.shows(1, stage.active, "low")
        await stage.apply(job("urgent", "4", pod={"priorityClassName": "urgent"}))
        await stage.shows(False, stage.suspended, "urgent")
        assert 7 == stage.workload("urgent")["spec"]["priority"]
        assert stage.suspended("low")

    on_stage(scene)


def test_a_change_of_priority_class_reorders_who_waits(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.apply(workload_class("low", 1))
        low = {"kueue.x-k8s.io/priority-class": "low"}
        await stage.apply(job("runs", "4", labels=HIGH))
        await stage.shows(1, stage.active, "runs")
        for name in ("first", "second"):
            await stage.apply(job(name, "4", labels=low))
            await stage.holds(lambda name=name: stage.says(name, "QuotaReserved"))  # type: ignore[misc]
        await stage.edit(JOBS, "second", {"metadata": {"labels": HIGH}})
        await stage.shows(100, lambda: stage.workload("second")["spec"]["priority"])
        await stage.holds(lambda: "UpdatedWorkload" in stage.events("Job", "second"))
        await stage.succeed("runs")
        await stage.shows(1, stage.active, "second")
        assert stage.suspended("first")

    on_stage(scene)


def test_workloads_follow_the_value_of_their_class(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.apply(job("runs", "4", labels=HIGH), job("waits", "4", labels=HIGH))
        await stage.shows(2, lambda: len(stage.workloads()))
        await stage.apply(workload_class("high", 250))
        for name in ("runs", "waits"):
            await stage.shows(250, lambda name=name: stage.workload(name)["spec"]["priority"])

    on_stage(scene)


def test_a_missing_class_is_reported_and_waited_for(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.apply(job("a", labels={"kueue.x-k8s.io/priority-class": "new"}))
        await stage.holds(lambda: "WorkloadPriorityClassNotFound" in stage.events("Job", "a"))
        assert [] == stage.workloads("a")
        await stage.apply(workload_class("new", 5))
        await stage.shows(False, stage.suspended, "a")

    on_stage(scene)
