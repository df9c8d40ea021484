# SPDX-License-Identifier: Apache-2.0
"""Why a Workload is pending, and what requeues it: namespace, gates, time, owner."""

from __future__ import annotations

from control.objects import flavor, job, local_queue, namespace, queue
from control.stage import Stage, run_scene
from kuota.api.base import Json
from kuota.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, Resource

GATE = "kueue.x-k8s.io/admission-gated-by"
LIMIT = "kueue.x-k8s.io/max-exec-time-seconds"
IMPATIENT = {
    "waitForPodsReady": {
        "timeout": "1m",
        "requeuingStrategy": {"backoffBaseSeconds": 30, "backoffLimitCount": 1},
    }
}


def _limits(most: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "limits", "namespace": "team"},
        "spec": {"limits": [{"type": "Container", "max": {"cpu": most}}]},
    }


def test_a_limit_of_the_namespace_keeps_a_workload_out_until_it_is_raised() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(_limits("2"))
        await stage.rest()
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        assert "False/Misconfigured" == stage.says("a", "QuotaReserved")
        await stage.api.apply(_limits("4"))
        await stage.rest()
        assert not stage.suspended("a")

    run_scene(scene)


def test_a_queue_is_for_the_namespaces_that_it_names() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(flavor(), local_queue())
        only = {"matchLabels": {"floor": "3"}}
        await stage.api.apply(queue("cq", 4, namespaceSelector=only))
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        assert "False/Misconfigured" == stage.says("a", "QuotaReserved")
        await stage.api.apply(namespace("team", floor="3"))
        await stage.rest()
        assert not stage.suspended("a")

    run_scene(scene)


def test_a_workload_without_a_queue_says_so_until_there_is_one() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(flavor(), job("a", "4"))
        await stage.rest()
        assert "False/Misconfigured" == stage.says("a", "QuotaReserved")
        await stage.api.apply(local_queue())
        await stage.rest()
        assert "False/Misconfigured" == stage.says("a", "QuotaReserved")
        reasons = {(e["status"], e["reason"]) for e in _conditions(stage, LOCAL_QUEUES, "main")}
        assert {("False", "ClusterQueueDoesNotExist")} == reasons
        await stage.api.apply(queue("cq", 4))
        await stage.rest()
        assert not stage.suspended("a")
        reasons = {(e["status"], e["reason"]) for e in _conditions(stage, LOCAL_QUEUES, "main")}
        assert {("True", "Ready")} == reasons

    run_scene(scene)


def test_a_queue_admits_nothing_until_its_flavor_exists() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(queue("cq", 4), local_queue(), job("a", "4"))
        await stage.rest()
        assert "False/Suspended" == stage.says("a", "QuotaReserved")
        reasons = {(e["status"], e["reason"]) for e in _conditions(stage, CLUSTER_QUEUES, "cq")}
        assert {("False", "FlavorNotFound")} == reasons
        await stage.api.apply(flavor())
        await stage.rest()
        assert not stage.suspended("a")

    run_scene(scene)


def _conditions(stage: Stage, resource: Resource, name: str) -> list[Json]:
    found: list[Json] = stage.get(resource, name)["status"]["conditions"]
    return found


def test_one_of_two_gates_is_enough_to_keep_a_workload_out() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("a", annotations={GATE: "x.com/one,x.com/two"}))
        await stage.rest()
        await stage.edit(JOBS, "a", {"metadata": {"annotations": {GATE: "x.com/two"}}})
        await stage.rest()
        assert "x.com/two" == stage.workload("a")["metadata"]["annotations"][GATE]
        assert "False/AdmissionGated" == stage.says("a", "QuotaReserved")
        assert "UpdatedWorkload" in stage.events("Job", "a")

    run_scene(scene)


def test_who_was_given_up_starts_counting_anew_when_reactivated() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        stage.kubelet.ready = False
        await stage.api.apply(job("a", "4"))
        await stage.rest(70)
        assert "False/PodsReadyTimeout" == stage.says("a", "Requeued")
        assert 1 == stage.workload("a")["status"]["requeueState"]["count"]
        await stage.rest(100)
        assert "True/DeactivatedDueToRequeuingLimitExceeded" == stage.says("a", "Evicted")
        assert not stage.workload("a")["status"].get("requeueState")
        stage.kubelet.ready = True
        await stage.edit_workload("a", {"spec": {"active": True}})
        await stage.rest()
        assert "True/Started" == stage.says("a", "PodsReady")

    run_scene(scene, IMPATIENT)


def test_time_spent_admitted_counts_against_the_limit_across_evictions() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("a", "4", labels={LIMIT: "60"}))
        await stage.rest(30)
        await stage.edit(LOCAL_QUEUES, "main", {"spec": {"stopPolicy": "HoldAndDrain"}})
        await stage.rest()
        spent = stage.workload("a")["status"]["accumulatedPastExecutionTimeSeconds"]
        assert spent in (29, 30)
        await stage.edit(LOCAL_QUEUES, "main", {"spec": {"stopPolicy": "None"}})
        await stage.rest(20)
        assert not stage.suspended("a")
        await stage.rest(20)
        assert stage.workload("a")["spec"]["active"] is False
        assert "accumulatedPastExecutionTimeSeconds" not in stage.workload("a")["status"]

    run_scene(scene)


def test_a_stopped_local_queue_has_no_pending_workloads() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(1)
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        assert 1 == stage.get(LOCAL_QUEUES, "main")["status"]["pendingWorkloads"]
        await stage.edit(LOCAL_QUEUES, "main", {"spec": {"stopPolicy": "Hold"}})
        await stage.rest()
        assert 0 == stage.get(LOCAL_QUEUES, "main")["status"]["pendingWorkloads"]
        assert "False/Suspended" == stage.says("a", "QuotaReserved")

    run_scene(scene)
