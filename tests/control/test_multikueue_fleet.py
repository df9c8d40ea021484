# SPDX-License-Identifier: Apache-2.0
"""Stories of a manager and its workers, from the submission of a Job to its end."""

from __future__ import annotations

import copy
from typing import Any

from control.multikueue_fleet import MULTIKUEUE, told
from control.objects import condition, job, local_queue, queue
from control.test_pods import gates, pod
from kuota.api.base import Json, Key
from kuota.api.config.defaults import INCREMENTAL
from kuota.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    MULTI_KUEUE_CONFIGS,
    PODS,
    WORKLOADS,
    Resource,
)


def test_a_job_runs_in_one_cluster_and_ends_everywhere() -> None:
    async def scene(fleet: Any) -> None:
        seen: list[tuple[str, str]] = []
        dispatcher = fleet.system.checks.multikueue.dispatcher
        dispatcher.on_admitted.append(lambda *labels: seen.append(labels))
        await fleet.submit("train")
        await fleet.rest(10)
        (place,) = fleet.where("train")
        assert fleet.cluster_of("train") == place
        assert seen == [("cq", place)]
        assert fleet.says("train", "Admitted") == "True/Admitted"
        (other,) = (each for name, each in fleet.members.items() if name != place)
        assert other.copies() == 0
        assert fleet.active("train") == 1
        assert not fleet.suspended("train")
        await fleet.members[place].kubelet.succeed("train")
        await fleet.rest(10)
        assert fleet.says("train", "Finished") == "True/Succeeded"
        assert fleet.job("train")["status"]["succeeded"] == 1
        assert [each.copies() for each in fleet.members.values()] == [0, 0]

    told(scene)


def test_jobs_spread_over_the_clusters_and_wait_for_room() -> None:
    async def scene(fleet: Any) -> None:
        for number in range(5):
            await fleet.submit(f"j{number}", "2")
        await fleet.rest(20)
        running = [name for each in fleet.members.values() for name in each.running()]
        assert len(running) == 4
        assert len(set(running)) == 4
        (waiting,) = {f"j{number}" for number in range(5)}.difference(running)
        assert fleet.state(waiting) == "Pending"
        (place,) = fleet.where("j0")
        await fleet.members[place].kubelet.succeed("j0")
        await fleet.rest(20)
        assert fleet.where(waiting) == [place]

    told(scene)


def test_the_deletion_of_a_job_leaves_nothing_in_any_cluster() -> None:
    async def scene(fleet: Any) -> None:
        await fleet.submit("train")
        await fleet.rest(10)
        await fleet.api.delete(JOBS, Key("team", "train"))
        await fleet.rest(10)
        assert fleet.workloads("train") == []
        assert [each.copies() for each in fleet.members.values()] == [0, 0]

    told(scene)


def test_a_lost_cluster_keeps_its_job_until_the_timeout_and_loses_it_for_good_after() -> None:
    async def scene(fleet: Any) -> None:
        await fleet.submit("train")
        await fleet.rest(10)
        (place,) = fleet.where("train")
        lost = fleet.members[place]
        (other,) = (name for name in fleet.members if name != place)
        lost.line.cut()
        await fleet.rest(100)
        assert fleet.cluster_of("train") == place
        await fleet.rest(250)
        assert fleet.cluster_of("train") == other
        assert fleet.where("train") == sorted([place, other], key=list(fleet.members).index)
        lost.line.mend()
        await fleet.rest(400)
        assert fleet.where("train") == [other]
        assert lost.copies() == 0
        await fleet.members[other].kubelet.succeed("train")
        await fleet.rest(10)
        assert fleet.says("train", "Finished") == "True/Succeeded"
        assert [each.copies() for each in fleet.members.values()] == [0, 0]

    told(scene, multi={"workerLostTimeout": "5m"})


def test_a_cluster_that_returns_in_time_keeps_its_job() -> None:
    async def scene(fleet: Any) -> None:
        await fleet.submit("train")
        await fleet.rest(10)
        (place,) = fleet.where("train")
        fleet.members[place].line.cut()
        await fleet.rest(100)
        await fleet.members[place].kubelet.succeed("train")
        fleet.members[place].line.mend()
        await fleet.rest(400)
        assert fleet.says("train", "Finished") == "True/Succeeded"
        assert [each.copies() for each in fleet.members.values()] == [0, 0]

    told(scene, multi={"workerLostTimeout": "15m"})


def test_a_preemption_in_a_cluster_leads_to_another_dispatch() -> None:
    async def scene(fleet: Any) -> None:
        await fleet.submit("train", "3")
        await fleet.rest(10)
        (place,) = fleet.where("train")
        (copy,) = fleet.members[place].api.all(WORKLOADS)
        stopped = {"spec": {"active": False}}
        await fleet.members[place].api.patch(
            WORKLOADS, Key("team", copy["metadata"]["name"]), stopped
        )
        await fleet.rest(200)
        assert len(fleet.where("train")) == 1
        assert fleet.says("train", "Admitted") == "True/Admitted"

    told(scene)


def test_an_eviction_by_the_manager_stops_the_job_and_releases_its_quota_once() -> None:
    async def scene(fleet: Any) -> None:
        await fleet.submit("train")
        await fleet.rest(10)
        await fleet.edit_workload("train", {"spec": {"active": False}})
        await fleet.rest(30)
        assert fleet.where("train") == []
        assert fleet.says("train", "QuotaReserved").startswith("False/")
        assert fleet.suspended("train")
        assert [each.copies() for each in fleet.members.values()] == [0, 0]
        await fleet.edit_workload("train", {"spec": {"active": True}})
        await fleet.rest(30)
        assert len(fleet.where("train")) == 1

    told(scene)


def test_an_evicted_workload_begins_a_new_round_of_the_incremental_dispatcher() -> None:
    async def scene(fleet: Any) -> None:
        await fleet.submit("train")
        await fleet.rest(10)
        await fleet.edit_workload("train", {"spec": {"active": False}})
        await fleet.rest(30)
        await fleet.edit_workload("train", {"spec": {"active": True}})
        await fleet.rest(30)
        assert len(fleet.where("train")) == 1

    told(scene, multi={"dispatcherName": INCREMENTAL})


def test_a_cluster_that_is_taken_out_of_the_configuration_loses_its_jobs() -> None:
    async def scene(fleet: Any) -> None:
        await fleet.submit("train")
        await fleet.rest(10)
        (place,) = fleet.where("train")
        (other,) = (name for name in fleet.members if name != place)
        await fleet.edit(MULTI_KUEUE_CONFIGS, "fleet", {"spec": {"clusters": [other]}})
        await fleet.rest(200)
        assert fleet.where("train") == [other]
        assert fleet.members[place].copies() == 0

    told(scene)


def test_a_job_that_its_own_controller_manages_is_rejected() -> None:
    async def scene(fleet: Any) -> None:
        await fleet.submit("train", manager="kubernetes.io/job-controller")
        await fleet.rest(10)
        assert fleet.where("train") == []
        assert [each.copies() for each in fleet.members.values()] == [0, 0]
        assert fleet.workload("train")["spec"].get("active") is False

    told(scene)


def test_an_object_of_somebody_else_is_left_alone_and_reported() -> None:
    async def scene(fleet: Any) -> None:
        for each in fleet.members.values():
            await each.api.create(JOBS, job("train", queue=""))
        await fleet.submit("train")
        await fleet.rest(20)
        for each in fleet.members.values():
            (found,) = each.api.all(JOBS)
            assert "labels" not in found["metadata"] or not found["metadata"]["labels"]
        assert "MultiKueue" in fleet.events("Workload")
        assert fleet.state("train") == "Pending"

    told(scene)


def test_pods_stay_gated_here_and_run_there() -> None:
    async def scene(fleet: Any) -> None:
        names = ["p0", "p1"]
        await fleet.api.apply(*(pod(name, group="g", of=2) for name in names))
        await fleet.rest(10)
        places = [each for each in fleet.members.values() if each.api.all(PODS)]
        assert len(places) == 1
        there = places[0].api
        found = there.all(PODS)
        assert sorted(each["metadata"]["name"] for each in found) == names
        assert not any(each["spec"].get("schedulingGates") for each in found)
        assert all(gates(fleet, name) for name in names)
        for name in names:
            running = {"status": {"phase": "Running"}}
            await there.patch(PODS, Key("team", name), running, subresource="status")
        await fleet.rest(10)
        assert [fleet.get(PODS, name)["status"]["phase"] for name in names] == ["Running"] * 2
        for name in names:
            over = {"status": {"phase": "Succeeded"}}
            await there.patch(PODS, Key("team", name), over, subresource="status")
        await fleet.rest(20)
        (found,) = fleet.api.all(WORKLOADS)
        assert condition(found, "Finished")["reason"] == "Succeeded"
        assert [len(each.api.all(WORKLOADS)) for each in fleet.members.values()] == [0, 0]
        assert [len(each.api.all(PODS)) for each in fleet.members.values()] == [0, 0]

    told(scene)


def test_a_job_of_an_external_framework_is_dispatched() -> None:
    async def scene(fleet: Any) -> None:
        meta = {"name": "t", "namespace": "team", "uid": "own"}
        spec = {"managedBy": "kueue.x-k8s.io/multikueue", "steps": 3}
        task = {"apiVersion": "example.com/v1", "kind": "Task", "metadata": meta, "spec": spec}
        stored = await fleet.api.create(TASKS, task)
        await fleet.api.create(WORKLOADS, workload_of(stored))
        await fleet.rest(10)
        places = [each for each in fleet.members.values() if each.api.all(TASKS)]
        (there,) = (each.api for each in places)
        (copy,) = there.all(TASKS)
        assert copy["spec"] == {"steps": 3}
        await there.patch(TASKS, Key("team", "t"), {"status": {"step": 2}}, subresource="status")
        await fleet.rest(10)
        assert fleet.get(TASKS, "t")["status"] == {"step": 2}

    told(scene, multi={"externalFrameworks": [{"name": "Task.v1.example.com"}]})


def test_a_worker_cannot_change_objects_that_it_was_not_given() -> None:
    async def scene(fleet: Any) -> None:
        plain = queue("plain", 10)
        await fleet.api.apply(plain, local_queue("own", "plain"))
        await fleet.submit("private", queue="own")
        await fleet.rest(10)
        before = fleet.job("private"), fleet.workload("private")
        labels = {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
        forged = copy.deepcopy(before[1])
        forged["metadata"] = {"name": forged["metadata"]["name"], "namespace": "team"}
        forged["metadata"]["labels"] = labels
        stolen = job("private", queue="", labels=labels)
        named = {"kueue.x-k8s.io/prebuilt-workload-name": forged["metadata"]["name"]}
        stolen["metadata"]["annotations"] = named
        there = fleet.members["near"].api
        await there.create(WORKLOADS, forged)
        await there.create(JOBS, stolen)
        over = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "m"}
        status = {"status": {"conditions": [over | {"lastTransitionTime": "2026-01-02T03:04:05Z"}]}}
        key = Key("team", forged["metadata"]["name"])
        await there.patch(WORKLOADS, key, status, subresource="status")
        await fleet.rest(30)
        assert (fleet.job("private"), fleet.workload("private")) == before

    told(scene)


TASKS = Resource("example.com", "v1", "tasks", "Task")


def workload_of(task: Json) -> Json:
    """What the controller of the framework creates."""
    owner = {"apiVersion": "example.com/v1", "kind": "Task", "name": "t", "controller": True}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
    owners = [owner | {"uid": task["metadata"]["uid"]}]
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "task-t", "namespace": "team", "ownerReferences": owners},
        "spec": {
            "queueName": "main",
            "podSets": [{"name": "main", "count": 1, "template": template}],
        },
    }


def test_an_elastic_job_grows_in_its_cluster_after_another_change_of_its_spec() -> None:
    async def scene(fleet: Any) -> None:
        annotations = {"kueue.x-k8s.io/elastic-job": "true"}
        made = job("train", suspend=True, managedBy=MULTIKUEUE, completions=2)
        made["metadata"]["annotations"] = annotations
        await fleet.api.create(JOBS, made)
        await fleet.rest(10)
        (place,) = fleet.where("train")
        member = fleet.members[place].api
        await fleet.api.patch(JOBS, Key("team", "train"), {"spec": {"parallelism": 2}})
        await fleet.rest(10)
        assert member.find(JOBS, "train")["spec"]["parallelism"] == 1
        await fleet.api.patch(JOBS, Key("team", "train"), {"spec": {"backoffLimit": 1}})
        await fleet.rest(10)
        await member.apply(queue("cq", 4))
        await fleet.rest(10)
        assert member.find(JOBS, "train")["spec"]["parallelism"] == 2

    told(scene, {"near": 1}, ElasticJobsViaWorkloadSlices=True)


def test_a_lost_cluster_that_returns_with_a_failed_job_does_not_fail_a_new_dispatch() -> None:
    async def scene(fleet: Any) -> None:
        await fleet.submit("train")
        await fleet.rest(10)
        (place,) = fleet.where("train")
        lost, (other,) = (
            fleet.members[place],
            [each for name, each in fleet.members.items() if name != place],
        )
        lost.line.cut()
        stopped = {"spec": {"stopPolicy": "Hold"}}
        await other.api.patch(CLUSTER_QUEUES, Key("", "cq"), stopped)
        await lost.kubelet.end("train", "Failed")
        await fleet.rest(400)
        assert fleet.cluster_of("train") == ""
        assert other.copies() == 1
        lost.line.mend()
        await fleet.rest(700)
        assert "True/Failed" != fleet.says("train", "Finished")
        assert fleet.where("train") == [place]
        await lost.kubelet.succeed("train")
        await fleet.rest(10)
        assert fleet.says("train", "Finished") == "True/Succeeded"
        assert [each.copies() for each in fleet.members.values()] == [0, 0]

    told(scene, multi={"workerLostTimeout": "5m"})


def test_a_lost_cluster_that_returns_with_a_completed_job_completes_a_new_dispatch() -> None:
    async def scene(fleet: Any) -> None:
        await fleet.submit("train")
        await fleet.rest(10)
        (place,) = fleet.where("train")
        lost, (other,) = (
            fleet.members[place],
            [each for name, each in fleet.members.items() if name != place],
        )
        lost.line.cut()
        stopped = {"spec": {"stopPolicy": "Hold"}}
        await other.api.patch(CLUSTER_QUEUES, Key("", "cq"), stopped)
        await lost.kubelet.succeed("train")
        await fleet.rest(400)
        assert fleet.cluster_of("train") == ""
        lost.line.mend()
        await fleet.rest(700)
        assert fleet.says("train", "Finished") == "True/Succeeded"
        assert [each.copies() for each in fleet.members.values()] == [0, 0]

    told(scene, multi={"workerLostTimeout": "5m"})
