# SPDX-License-Identifier: Apache-2.0
"""What else may happen to a job and its Workload between being queued and being over."""

from __future__ import annotations

from control.stage import Stage, check, flavor, job, local_queue, namespace, queue, told
from kuota.api.base import Key
from kuota.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    WORKLOADS,
)


async def _setting(stage: Stage, cpu: int = 4) -> None:
    await stage.api.apply(flavor(), queue("cq", cpu), local_queue())


def test_a_failed_job_frees_its_quota() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("a", "4"), job("b", "4"))
        await stage.rest()
        await stage.kubelet.end("a", "Failed")
        await stage.rest()
        assert "True/Failed" == stage.says("a", "Finished")
        assert not stage.suspended("b")

    told(scene)


def test_a_deleted_job_takes_its_workload_along_and_frees_its_quota() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("a", "4"), job("b", "4"))
        await stage.rest()
        await stage.api.delete(JOBS, Key("team", "a"))
        await stage.rest()
        assert [] == stage.workloads("a")
        assert not stage.suspended("b")

    told(scene)


def test_a_deleted_workload_stops_its_job_which_queues_again() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        before = stage.workload("a")["metadata"]
        await stage.api.delete(WORKLOADS, Key("team", before["name"]))
        await stage.rest()
        after = stage.workload("a")["metadata"]
        assert before["name"] == after["name"]
        assert before["uid"] != after["uid"]
        assert "Stopped" in stage.events("Job", "a")
        assert not stage.suspended("a")

    told(scene)


def test_a_deactivated_workload_stops_and_frees_its_quota_at_once() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        stage.kubelet.grace_s = 60
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        await stage.api.apply(job("b", "4"))
        await stage.rest()
        await stage.edit_workload("a", {"spec": {"active": False}})
        await stage.rest(10)
        assert stage.suspended("a")
        assert not stage.suspended("b")
        assert "True/Deactivated" == stage.says("a", "Evicted")
        await stage.rest(60)
        assert "False/Deactivated" == stage.says("a", "QuotaReserved")

    told(scene)


def test_a_reactivated_workload_queues_again() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        await stage.edit_workload("a", {"spec": {"active": False}})
        await stage.rest()
        assert "False/Deactivated" == stage.says("a", "Requeued")
        await stage.edit_workload("a", {"spec": {"active": True}})
        await stage.rest()
        assert "True/Reactivated" == stage.says("a", "Requeued")
        assert not stage.suspended("a")

    told(scene)


def test_deactivating_a_waiting_workload_leaves_no_event() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, 1)
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        await stage.edit_workload("a", {"spec": {"active": False}})
        await stage.rest()
        assert "True/Deactivated" == stage.says("a", "Evicted")
        assert "" == stage.says("a", "Requeued")
        assert "EvictedDueToDeactivated" not in stage.events("Workload")

    told(scene)


def test_quota_of_pods_that_are_done_is_given_back_early() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, 4)
        await stage.api.apply(job("a", "1", parallelism=4, completions=4))
        await stage.rest()
        await stage.api.apply(job("b", "2"))
        await stage.rest()
        assert stage.suspended("b")
        await stage.kubelet.succeed("a", 2)
        await stage.rest()
        pods = stage.workload("a")["status"]["reclaimablePods"]
        assert [{"name": "main", "count": 2}] == pods
        assert not stage.suspended("b")

    told(scene)


def test_partial_admission_lowers_parallelism_and_a_stop_restores_it() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, 6)
        minimum = {"kueue.x-k8s.io/job-min-parallelism": "2"}
        await stage.api.apply(job("a", "1", parallelism=10, completions=10, annotations=minimum))
        await stage.rest()
        assert 6 == stage.job("a")["spec"]["parallelism"]
        assert 6 == stage.active("a")
        await stage.edit_workload("a", {"spec": {"active": False}})
        await stage.rest()
        assert 10 == stage.job("a")["spec"]["parallelism"]
        assert 10 == stage.workload("a")["spec"]["podSets"][0]["count"]

    told(scene)


def test_a_job_that_runs_too_long_is_deactivated_in_three_steps() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        limit = {"kueue.x-k8s.io/max-exec-time-seconds": "60"}
        await stage.api.apply(job("a", "4", labels=limit))
        await stage.rest(50)
        assert not stage.suspended("a")
        await stage.rest(20)
        assert stage.suspended("a")
        assert stage.workload("a")["spec"]["active"] is False
        assert "True/DeactivatedDueToMaximumExecutionTimeExceeded" == stage.says("a", "Evicted")
        assert "" == stage.says("a", "DeactivationTarget")
        assert "MaximumExecutionTimeExceeded" in stage.events("Workload")

    told(scene)


def test_hold_lets_running_work_go_on_and_nothing_new_in() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, 8)
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "Hold"}})
        await stage.rest()
        await stage.api.apply(job("b", "4"))
        await stage.rest()
        assert not stage.suspended("a")
        assert stage.suspended("b")
        assert "False/Suspended" == stage.says("b", "QuotaReserved")
        active = stage.get(CLUSTER_QUEUES, "cq")["status"]["conditions"][0]
        assert ("False", "Stopped") == (active["status"], active["reason"])
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "None"}})
        await stage.rest()
        assert not stage.suspended("b")

    told(scene)


def test_hold_and_drain_evicts_and_a_restart_brings_back() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, 8)
        await stage.api.apply(local_queue("other"))
        await stage.api.apply(job("a", "4"), job("b", "4", queue="other"))
        await stage.rest()
        await stage.edit(LOCAL_QUEUES, "main", {"spec": {"stopPolicy": "HoldAndDrain"}})
        await stage.rest()
        assert stage.suspended("a")
        assert not stage.suspended("b")
        assert "True/LocalQueueStopped" == stage.says("a", "Evicted")
        assert "False/LocalQueueStopped" == stage.says("a", "Requeued")
        await stage.edit(LOCAL_QUEUES, "main", {"spec": {"stopPolicy": "None"}})
        await stage.rest()
        assert "True/LocalQueueRestarted" == stage.says("a", "Requeued")
        assert not stage.suspended("a")

    told(scene)


def test_a_waiting_job_that_is_edited_keeps_its_workload() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, 1)
        await stage.api.apply(job("a", "4", parallelism=3))
        await stage.rest()
        before = stage.workload("a")
        await stage.edit(JOBS, "a", {"spec": {"parallelism": 2}})
        await stage.rest()
        after = stage.workload("a")
        assert before["metadata"]["uid"] == after["metadata"]["uid"]
        assert 2 == after["spec"]["podSets"][0]["count"]
        assert "UpdatedWorkload" in stage.events("Job", "a")

    told(scene)


def test_a_waiting_job_may_change_its_queue() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, 1)
        await stage.api.apply(queue("roomy", 10), local_queue("roomy", "roomy"))
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        named = {"kueue.x-k8s.io/queue-name": "roomy"}
        await stage.edit(JOBS, "a", {"metadata": {"labels": named}})
        await stage.rest()
        assert "roomy" == stage.workload("a")["spec"]["queueName"]
        assert not stage.suspended("a")

    told(scene)


def test_jobs_without_the_label_run_at_once() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("a", "4", queue="", suspend=False))
        await stage.rest()
        assert [] == stage.workloads("a")
        assert 1 == stage.active("a")

    told(scene)


def test_jobs_without_the_label_are_managed_when_configured_so() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("a", "4", queue="", suspend=False))
        await stage.rest()
        assert stage.suspended("a")
        assert 1 == len(stage.workloads("a"))

    told(scene, {"manageJobsWithoutQueueName": True})


def test_jobs_of_other_namespaces_are_left_alone() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        assert [] == stage.workloads("a")
        await stage.api.apply(namespace("team", managed="yes"))
        await stage.rest()
        assert not stage.suspended("a")

    told(scene, {"managedJobsNamespaceSelector": {"matchLabels": {"managed": "yes"}}})


def test_a_running_job_that_gets_no_quota_is_suspended() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, 1)
        await stage.api.apply(job("a", "4", suspend=False))
        await stage.rest()
        assert stage.suspended("a")
        assert 0 == stage.active("a")
        assert 1 == len(stage.workloads("a"))

    told(scene)


def test_admission_waits_for_checks_and_follows_their_answers() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(flavor(), check("ok"), local_queue())
        strategy = {"admissionChecks": [{"name": "ok"}]}
        await stage.api.apply(queue("cq", 4, admissionChecksStrategy=strategy))
        active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
        active["lastTransitionTime"] = "2026-01-02T03:04:05Z"
        await stage.status(ADMISSION_CHECKS, "ok", {"conditions": [active]})
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        assert "True/QuotaReserved" == stage.says("a", "QuotaReserved")
        assert "False/UnsatisfiedAdmissionChecks" == stage.says("a", "Admitted")
        assert stage.suspended("a")
        await _answer(stage, "a", "Retry", requeueAfterSeconds=120)
        await stage.rest()
        assert "True/AdmissionCheck" == stage.says("a", "Evicted")
        assert "False/AdmissionCheck" == stage.says("a", "Requeued")
        await stage.rest(130)
        assert "True/QuotaReserved" == stage.says("a", "QuotaReserved")
        update = {"name": "main", "nodeSelector": {"zone": "z1"}}
        await _answer(stage, "a", "Ready", podSetUpdates=[update])
        await stage.rest()
        assert not stage.suspended("a")
        assert {"zone": "z1"} == stage.job("a")["spec"]["template"]["spec"]["nodeSelector"]
        await _answer(stage, "a", "Rejected")
        await stage.rest()
        assert stage.workload("a")["spec"]["active"] is False
        assert stage.suspended("a")
        assert "AdmissionCheckRejected" in stage.events("Workload")

    told(scene)


async def _answer(stage: Stage, job_name: str, state: str, **more: object) -> None:
    now = stage.clock.now().replace(microsecond=0).isoformat().replace("+00:00", "Z")
    said = {"name": "ok", "state": state, "message": "", "lastTransitionTime": now, **more}
    name = stage.workload(job_name)["metadata"]["name"]
    await stage.status(WORKLOADS, name, {"admissionChecks": [said]})


def test_an_admission_gate_keeps_a_workload_out_until_it_goes() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        gate = "kueue.x-k8s.io/admission-gated-by"
        await stage.api.apply(job("a", annotations={gate: "example.com/gate"}))
        await stage.rest()
        assert "False/AdmissionGated" == stage.says("a", "QuotaReserved")
        await stage.edit(JOBS, "a", {"metadata": {"annotations": {gate: None}}})
        await stage.rest()
        assert not stage.suspended("a")
        assert {"AdmissionGated", "AdmissionGateCleared"} <= set(stage.events("Workload"))

    told(scene)


def test_finished_workloads_are_deleted_after_their_retention() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("a"))
        await stage.rest()
        await stage.kubelet.succeed("a")
        await stage.rest(30)
        assert 1 == len(stage.workloads("a"))
        await stage.rest(60)
        assert [] == stage.workloads("a")

    told(scene, {"objectRetentionPolicies": {"workloads": {"afterFinished": "60s"}}})


def test_a_job_that_was_given_up_is_deleted_after_its_retention() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        limit = {"kueue.x-k8s.io/max-exec-time-seconds": "10"}
        await stage.api.apply(job("a", labels=limit), job("b"))
        await stage.rest(5)
        await stage.edit_workload("b", {"spec": {"active": False}})
        await stage.rest(40)
        assert stage.api.find(JOBS, "a") is not None
        await stage.rest(60)
        assert stage.api.find(JOBS, "a") is None
        assert stage.api.find(JOBS, "b") is not None

    told(scene, {"objectRetentionPolicies": {"workloads": {"afterDeactivatedByKueue": "60s"}}})


def test_a_queue_in_use_cannot_go() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("a"))
        await stage.rest()
        await stage.api.delete(CLUSTER_QUEUES, Key("", "cq"))
        await stage.api.delete(RESOURCE_FLAVORS, Key("", "default"))
        await stage.rest()
        active = stage.get(CLUSTER_QUEUES, "cq")["status"]["conditions"][0]
        assert ("False", "Terminating") == (active["status"], active["reason"])
        await stage.kubelet.succeed("a")
        await stage.rest(10)
        assert stage.api.find(CLUSTER_QUEUES, "cq") is None
        assert stage.api.find(RESOURCE_FLAVORS, "default") is None

    told(scene)


def test_a_start_that_contradicts_the_template_ends_the_workload() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(flavor(nodeLabels={"tier": "gold"}), queue("cq"), local_queue())
        bad = {"kueue.x-k8s.io/podset": "other"}
        made = job("a")
        made["spec"]["template"]["metadata"] = {"labels": bad}
        await stage.api.apply(made, job("b"))
        await stage.rest()
        assert "True/FailedToStart" == stage.says("a", "Finished")
        assert stage.suspended("a")
        assert not stage.suspended("b")

    told(scene)
