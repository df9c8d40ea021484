# SPDX-License-Identifier: Apache-2.0
"""Jobs that are edited, nested or have a prebuilt Workload; Workloads without a Job."""

from __future__ import annotations

import pytest

from control.objects import job, priority_class, workload_class
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.kube.resources import (
    JOBS,
    PRIORITY_CLASSES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)

LIMIT = "kueue.x-k8s.io/max-exec-time-seconds"
CLASS = "kueue.x-k8s.io/priority-class"
PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"


def _owned(made: Json, by: Json) -> Json:
    """The job with another that controls it."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
    owner |= {"name": by["metadata"]["name"], "uid": by["metadata"]["uid"]}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def test_a_new_time_limit_changes_a_workload_without_quota_and_replaces_one_with() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("running", "4"), job("waiting", "4"))
        await stage.rest()
        before = {name: stage.workload(name)["metadata"]["uid"] for name in ("running", "waiting")}
        for name in before:
            await stage.edit(JOBS, name, {"metadata": {"labels": {LIMIT: "600"}}})
        await stage.rest()
        same = {
            name: uid == stage.workload(name)["metadata"]["uid"] for name, uid in before.items()
        }
        assert {"running": False, "waiting": True} == same
        limits = [stage.workload(n)["spec"]["maximumExecutionTimeSeconds"] for n in before]
        assert [600, 600] == limits

    run_scene(scene)


def test_labels_and_node_selectors_of_a_running_job_are_its_own_affair() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        before = stage.workload("a")["metadata"]["uid"]
        await stage.edit(JOBS, "a", {"metadata": {"labels": {"team": "blue"}}})
        await stage.rest()
        assert before == stage.workload("a")["metadata"]["uid"]
        assert not stage.suspended("a")

    run_scene(scene)


def test_a_class_named_later_moves_no_workload_that_holds_quota_without_one() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(workload_class("high", 100), job("a", "4"), job("b", "4"))
        await stage.rest()
        for name in ("a", "b"):
            await stage.edit(JOBS, name, {"metadata": {"labels": {CLASS: "high"}}})
        await stage.rest()
        assert [0, 100] == [stage.workload(name)["spec"]["priority"] for name in ("a", "b")]

    run_scene(scene)


def test_a_job_of_a_managed_job_runs_only_while_that_one_may() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(1)
        await stage.api.apply(job("parent", "4"))
        await stage.rest()
        child = _owned(job("child", "1", queue="", suspend=False), stage.job("parent"))
        await stage.api.apply(child)
        await stage.rest()
        assert stage.suspended("child")
        assert [] == stage.workloads("child")
        assert "Suspended" in stage.events("Job", "child")

    run_scene(scene)


def test_a_job_whose_parent_was_replaced_is_on_its_own() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("parent", "4"))
        await stage.rest()
        forged = {"metadata": {"name": "parent", "uid": "another"}}
        await stage.api.apply(_owned(job("child", "1", queue="", suspend=False), forged))
        await stage.rest()
        assert not stage.suspended("child")

    run_scene(scene)


def test_a_job_may_bring_its_workload_along() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(8)
        made = job("a", "4", labels={PREBUILT: "mine"})
        await stage.api.apply(made)
        await stage.rest()
        assert stage.suspended("a")
        await stage.api.apply(_prebuilt("mine", made))
        await stage.rest(20)
        assert "mine" == stage.workload("a")["metadata"]["name"]
        assert not stage.suspended("a")

    run_scene(scene)


def test_a_workload_brought_along_that_asks_for_something_else_is_out_of_sync() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(8)
        other = job("a", "2")
        await stage.api.apply(_prebuilt("mine", other), job("a", "4", labels={PREBUILT: "mine"}))
        await stage.rest()
        assert "True/OutOfSync" == stage.says("a", "Finished")
        assert stage.suspended("a")

    run_scene(scene)


def test_the_workload_of_another_job_counts_as_missing() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(8)
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        named = stage.workload("a")["metadata"]["name"]
        await stage.api.apply(job("thief", "4", labels={PREBUILT: named}))
        await stage.rest()
        assert not stage.suspended("a")
        assert stage.suspended("thief")
        assert [] == stage.workloads("thief")

    run_scene(scene)


def _prebuilt(name: str, made: Json) -> Json:
    pods = {"name": "main", "count": 1, "template": made["spec"]["template"]}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"podSets": [pods], "queueName": "main"},
    }


def test_a_workload_that_lost_its_job_is_finished() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        name = stage.workload("a")["metadata"]["name"]
        await stage.edit(WORKLOADS, name, {"metadata": {"ownerReferences": None}})
        await stage.rest()
        left = stage.get(WORKLOADS, name)
        finished = next(e for e in left["status"]["conditions"] if e["type"] == "Finished")
        assert "OwnerNotFound" == finished["reason"]
        assert not left["metadata"].get("finalizers")

    run_scene(scene)


def test_a_job_that_ended_before_it_was_seen_gets_no_workload() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("a", "4", queue="", suspend=False))
        await stage.rest()
        await stage.kubelet.succeed("a")
        named = {"kueue.x-k8s.io/queue-name": "main"}
        await stage.edit(JOBS, "a", {"metadata": {"labels": named}})
        await stage.rest()
        assert [] == stage.workloads("a")

    run_scene(scene)


def test_a_finished_workload_kept_for_no_time_goes_at_once_with_an_event() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        await stage.kubelet.succeed("a")
        await stage.rest()
        assert [] == stage.workloads("a")
        assert "Deleted" in stage.events("Workload")

    run_scene(scene, {"objectRetentionPolicies": {"workloads": {"afterFinished": "0s"}}})


@pytest.mark.parametrize("resource", [PRIORITY_CLASSES, WORKLOAD_PRIORITY_CLASSES], ids=str)
def test_a_class_that_exists_is_not_reported_as_missing_because_its_watch_is_late(
    resource: Resource,
) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.rest()
        stage.api.lags[resource] = 60
        await stage.api.apply(workload_class("high", 7), priority_class("high", 7))
        made = job("a", "4")
        if resource == PRIORITY_CLASSES:
            made["spec"]["template"]["spec"]["priorityClassName"] = "high"
        else:
            made["metadata"]["labels"][CLASS] = "high"
        await stage.api.apply(made)
        await stage.rest(1)
        assert 7 == stage.workload("a")["spec"]["priority"]
        assert "WorkloadPriorityClassNotFound" not in stage.events("Job", "a")

    run_scene(scene)


def test_a_job_that_its_user_deactivated_is_kept() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        await stage.edit_workload("a", {"spec": {"active": False}})
        await stage.rest(30)
        assert stage.suspended("a")
        await stage.api.delete(JOBS, Key("team", "a"))

    run_scene(scene, {"objectRetentionPolicies": {"workloads": {"afterDeactivatedByKueue": "0s"}}})
