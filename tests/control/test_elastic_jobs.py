# SPDX-License-Identifier: Apache-2.0
"""Elastic Jobs: resized while they run, through Workloads that replace one another."""

from __future__ import annotations

from typing import Any

from control.objects import condition, flavor, job, local_queue, queue, workload_class
from control.stage import Stage, run_scene
from kuota.api.base import Json
from kuota.api.rules.metadata import ELASTIC_JOB
from kuota.kube.resources import CLUSTER_QUEUES, JOBS, PODS, WORKLOADS, key_of

SLICE = "kueue.x-k8s.io/workload-slice-name"
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
CLASS = "kueue.x-k8s.io/priority-class"


def elastic(name: str, pods: int, **spec: Any) -> Json:
    given = {"completions": 100} | spec
    return job(name, parallelism=pods, annotations={ELASTIC_JOB: "true"}, **given)


async def resize(stage: Stage, name: str, pods: int) -> None:
    await stage.edit(JOBS, name, {"spec": {"parallelism": pods}})
    await stage.rest()


def slices(stage: Stage, name: str) -> list[tuple[int, str]]:
    """The size and the state of each slice, oldest first."""
    found = sorted(stage.workloads(name), key=lambda each: int(each["metadata"]["uid"][4:]))
    return [(each["spec"]["podSets"][0]["count"], _state(each)) for each in found]


def _state(workload: Json) -> str:
    finished = condition(workload, "Finished")
    if finished:
        return str(finished["reason"])
    for type_ in ("Evicted", "Admitted"):
        if condition(workload, type_).get("status") == "True":
            return type_
    return "pending"


def used(stage: Stage) -> str:
    (usage,) = stage.get(CLUSTER_QUEUES, "cq")["status"]["flavorsUsage"]
    return str(usage["resources"][0]["total"])


def open_slice(stage: Stage, name: str) -> Json:
    (found,) = [each for each in stage.workloads(name) if not condition(each, "Finished")]
    return found


def test_a_smaller_job_keeps_its_slice_and_releases_quota_at_once() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(4)
        await stage.api.apply(elastic("a", 3), elastic("b", 2))
        await stage.rest()
        assert [(2, "pending")] == slices(stage, "b")
        await resize(stage, "a", 1)
        assert [(1, "Admitted")] == slices(stage, "a")
        assert [(2, "Admitted")] == slices(stage, "b")
        assert "3" == used(stage)

    run_scene(scene)


def test_a_larger_job_gets_a_second_slice_that_replaces_the_first() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(4)
        await stage.api.apply(elastic("a", 1))
        await stage.rest()
        first = open_slice(stage, "a")["metadata"]
        await resize(stage, "a", 3)
        assert [(1, "WorkloadSliceReplaced"), (3, "Admitted")] == slices(stage, "a")
        assert "3" == used(stage)
        assert not stage.suspended("a")
        second = open_slice(stage, "a")["metadata"]["annotations"]
        assert first["name"] == first["annotations"][SLICE] == second[SLICE]
        assert f"team/{first['name']}" == second[REPLACES]
        # The finished slice leaves nothing behind that would keep it from being deleted.
        old = next(e for e in stage.workloads("a") if condition(e, "Finished"))
        assert not old["metadata"].get("finalizers")

    run_scene(scene)


def test_a_replacement_that_does_not_fit_waits_while_the_job_runs_at_its_old_size() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(4)
        await stage.api.apply(elastic("a", 3))
        await stage.rest()
        await resize(stage, "a", 5)
        assert [(3, "Admitted"), (5, "pending")] == slices(stage, "a")
        await resize(stage, "a", 6)
        assert [(3, "Admitted"), (6, "pending")] == slices(stage, "a")
        assert not stage.suspended("a")
        await resize(stage, "a", 4)
        assert [(3, "WorkloadSliceReplaced"), (4, "Admitted")] == slices(stage, "a")
        assert "4" == used(stage)

    run_scene(scene)


def test_a_preempted_slice_with_a_pending_replacement_gives_its_quota_back() -> None:
    async def scene(stage: Stage) -> None:
        stage.kubelet.grace_s = 30
        preemption = {"withinClusterQueue": "LowerPriority"}
        await stage.api.apply(flavor(), queue("cq", 4, preemption=preemption), local_queue())
        await stage.api.apply(workload_class("high", 9), elastic("a", 3))
        await stage.rest()
        await resize(stage, "a", 6)
        await stage.api.apply(job("b", parallelism=3, labels={CLASS: "high"}))
        await stage.rest()
        # Its pods have no quota any more, so the job is stopped; it is charged until they are gone.
        assert stage.suspended("a")
        assert stage.suspended("b")
        await stage.rest(40)
        assert [(3, "WorkloadSliceReplaced"), (6, "pending")] == slices(stage, "a")
        assert not stage.suspended("b")
        await stage.kubelet.succeed("b", 3)
        await stage.rest()
        await resize(stage, "a", 2)
        assert (2, "Admitted") == slices(stage, "a")[-1]
        assert not stage.suspended("a")
        assert "2" == used(stage)

    run_scene(scene)


def test_an_evicted_job_resumes_with_the_same_slice_at_its_new_size() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(4)
        await stage.api.apply(elastic("a", 1))
        await stage.rest()
        await resize(stage, "a", 2)
        name = open_slice(stage, "a")["metadata"]["name"]
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "HoldAndDrain"}})
        await stage.rest()
        assert stage.suspended("a")
        await resize(stage, "a", 3)
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "None"}})
        await stage.rest()
        assert [(1, "WorkloadSliceReplaced"), (3, "Admitted")] == slices(stage, "a")
        assert name == open_slice(stage, "a")["metadata"]["name"]
        template = stage.job("a")["spec"]["template"]
        chain = open_slice(stage, "a")["metadata"]["annotations"][SLICE]
        assert chain == template["metadata"]["annotations"][SLICE]

    run_scene(scene)


def test_a_deleted_slice_stops_the_job_and_starts_a_new_chain() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(4)
        await stage.api.apply(elastic("a", 1))
        await stage.rest()
        await resize(stage, "a", 2)
        before = open_slice(stage, "a")["metadata"]
        await stage.api.delete(WORKLOADS, key_of({"metadata": before}))
        await stage.rest()
        after = open_slice(stage, "a")["metadata"]
        assert before["uid"] != after["uid"]
        assert after["name"] == after["annotations"][SLICE]
        assert REPLACES not in after["annotations"]
        assert not stage.suspended("a")
        stamped = stage.job("a")["spec"]["template"]["metadata"]["annotations"]
        assert after["name"] == stamped[SLICE]

    run_scene(scene)


def test_deleting_a_pending_replacement_does_not_disturb_the_job() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(4)
        await stage.api.apply(elastic("a", 3))
        await stage.rest()
        await resize(stage, "a", 5)
        pending = next(
            e for e in stage.workloads("a") if condition(e, "Admitted").get("status") != "True"
        )
        await stage.api.delete(WORKLOADS, key_of(pending))
        await stage.rest()
        assert [(3, "Admitted"), (5, "pending")] == slices(stage, "a")
        assert not stage.suspended("a")
        assert "Stopped" not in stage.events("Job", "a")

    run_scene(scene)


def test_both_slices_follow_the_priority_class_of_the_job() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(4)
        await stage.api.apply(workload_class("low", 1), workload_class("high", 9))
        await stage.api.apply(elastic("a", 3, labels={CLASS: "low"}))
        await stage.rest()
        await resize(stage, "a", 5)
        await stage.edit(JOBS, "a", {"metadata": {"labels": {CLASS: "high"}}})
        await stage.rest()
        assert [(3, "Admitted"), (5, "pending")] == slices(stage, "a")
        assert [9, 9] == [each["spec"]["priority"] for each in stage.workloads("a")]

    run_scene(scene)


def test_an_ended_job_finishes_both_slices() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(4)
        await stage.api.apply(elastic("a", 3))
        await stage.rest()
        await resize(stage, "a", 5)
        await stage.kubelet.end("a", "Complete")
        await stage.rest()
        assert [(3, "Succeeded"), (5, "Succeeded")] == slices(stage, "a")
        assert "0" == used(stage)

    run_scene(scene)


def pod(name: str, chain: str, pod_set: str = "main", phase: str = "Pending") -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "labels": {"kueue.x-k8s.io/podset": pod_set},
            "annotations": {SLICE: chain, "kueue.x-k8s.io/workload": chain},
        },
        "spec": {"schedulingGates": [{"name": ELASTIC_JOB}, {"name": "example.com/other"}]},
        "status": {"phase": phase},
    }


def released(stage: Stage) -> list[str]:
    gate = {"name": ELASTIC_JOB}
    pods = stage.api.all(PODS)
    return sorted(
        each["metadata"]["name"]
        for each in pods
        if gate not in each["spec"].get("schedulingGates", [])
    )


def test_as_many_pods_are_released_as_the_newest_slice_has_quota_for() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(3)
        await stage.api.apply(elastic("a", 2))
        await stage.rest()
        chain = open_slice(stage, "a")["metadata"]["name"]
        await stage.api.apply(*(pod(f"pod-{n}", chain) for n in (3, 2, 1, 0)))
        await stage.rest()
        assert ["pod-0", "pod-1"] == released(stage)
        left = stage.get(PODS, "pod-0")["spec"]["schedulingGates"]
        assert [{"name": "example.com/other"}] == left
        await resize(stage, "a", 4)
        assert ["pod-0", "pod-1"] == released(stage)
        await resize(stage, "a", 3)
        assert ["pod-0", "pod-1", "pod-2"] == released(stage)
        await stage.status(PODS, "pod-1", {"phase": "Succeeded"})
        await stage.rest()
        assert ["pod-0", "pod-1", "pod-2", "pod-3"] == released(stage)

    run_scene(scene)


def test_no_pod_is_released_by_a_slice_that_is_evicted() -> None:
    async def scene(stage: Stage) -> None:
        stage.kubelet.grace_s = 1000
        await stage.furnish(4)
        await stage.api.apply(elastic("a", 2))
        await stage.rest()
        chain = open_slice(stage, "a")["metadata"]["name"]
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "HoldAndDrain"}})
        await stage.rest()
        await stage.api.apply(pod("late", chain))
        await stage.rest()
        assert [] == released(stage)

    run_scene(scene)
