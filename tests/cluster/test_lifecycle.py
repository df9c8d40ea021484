# SPDX-License-Identifier: Apache-2.0
"""The lifecycle of a Job and its Workload: deletion, deactivation, edits, retention."""

from __future__ import annotations

from cluster.stage import Stage, StageRunner
from control.objects import flavor, job, local_queue, queue
from kuota.kube.resources import JOBS, WORKLOADS


def test_a_failed_job_frees_its_quota(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.apply(job("a", "4", backoffLimit=0))
        await stage.shows(1, stage.active, "a")
        await stage.apply(job("b", "4"))
        await stage.shows("False/WaitingForQuota", stage.says, "b", "QuotaReserved")
        await stage.end("a", 1, "Failed")
        await stage.shows("True/Failed", stage.says, "a", "Finished")
        await stage.shows(1, stage.active, "b")

    on_stage(scene)


def test_a_deleted_job_takes_its_workload_along_and_frees_its_quota(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.apply(job("a", "4"))
        await stage.shows(1, stage.active, "a")
        await stage.apply(job("b", "4"))
        await stage.shows("False/WaitingForQuota", stage.says, "b", "QuotaReserved")
        await stage.delete(JOBS, "a")
        await stage.shows([], stage.workloads, "a")
        await stage.shows(1, stage.active, "b")

    on_stage(scene)


def test_a_deleted_workload_stops_its_job_which_queues_again(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.apply(job("a", "4"))
        await stage.shows(1, stage.active, "a")
        before = stage.workload("a")["metadata"]
        await stage.delete(WORKLOADS, before["name"])
        await stage.holds(lambda: stage.workload("a")["metadata"]["uid"] != before["uid"])
        assert before["name"] == stage.workload("a")["metadata"]["name"]
        await stage.holds(lambda: "Stopped" in stage.events("Job", "a"))
        await stage.shows(False, stage.suspended, "a")
        await stage.shows(1, stage.active, "a")

    on_stage(scene)


def test_a_deactivated_workload_stops_and_frees_its_quota_at_once(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        stage.kubelet.hold()
        await stage.apply(job("a", "4"))
        await stage.shows(1, stage.active, "a")
        await stage.apply(job("b", "4"))
        await stage.shows("False/WaitingForQuota", stage.says, "b", "QuotaReserved")
        await stage.edit_workload("a", {"spec": {"active": False}})
        await stage.shows("True/Deactivated", stage.says, "a", "Evicted")
        await stage.shows(True, stage.suspended, "a")
        await stage.shows(False, stage.suspended, "b")
        stage.kubelet.let_go()
        await stage.shows("False/Deactivated", stage.says, "a", "QuotaReserved")

    on_stage(scene)


def test_a_reactivated_workload_queues_again(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.apply(job("a", "4"))
        await stage.shows(1, stage.active, "a")
        await stage.edit_workload("a", {"spec": {"active": False}})
        await stage.shows("False/Deactivated", stage.says, "a", "Requeued")
        await stage.edit_workload("a", {"spec": {"active": True}})
        await stage.shows("True/Reactivated", stage.says, "a", "Requeued")
        await stage.shows(False, stage.suspended, "a")
        await stage.shows(1, stage.active, "a")

    on_stage(scene)


def test_quota_of_pods_that_are_done_is_given_back_early(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(4)
        await stage.apply(job("a", "1", parallelism=4, completions=4))
        await stage.shows(4, stage.active, "a")
        await stage.apply(job("b", "2"))
        await stage.shows("False/WaitingForQuota", stage.says, "b", "QuotaReserved")
        await stage.succeed("a", 2)
        pods = [{"name": "main", "count": 2}]
        await stage.shows(pods, lambda: stage.workload("a")["status"]["reclaimablePods"])
        await stage.shows(1, stage.active, "b")
        assert 4000 == stage.kubelet.peak_milli[stage.names.namespace]

    on_stage(scene)


def test_partial_admission_lowers_parallelism_and_a_stop_restores_it(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(6)
        minimum = {"kueue.x-k8s.io/job-min-parallelism": "2"}
        await stage.apply(job("a", "1", parallelism=10, completions=10, annotations=minimum))
        await stage.shows(6, stage.active, "a")
        assert 6 == stage.job("a")["spec"]["parallelism"]
        await stage.edit_workload("a", {"spec": {"active": False}})
        await stage.shows(10, lambda: stage.job("a")["spec"]["parallelism"])
        assert 10 == stage.workload("a")["spec"]["podSets"][0]["count"]

    on_stage(scene)


def test_a_job_that_runs_too_long_is_deactivated_in_three_steps(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        limit = {"kueue.x-k8s.io/max-exec-time-seconds": "2"}
        await stage.apply(job("a", "4", labels=limit))
        await stage.shows(1, stage.active, "a")
        why = "True/DeactivatedDueToMaximumExecutionTimeExceeded"
        await stage.shows(why, stage.says, "a", "Evicted")
        await stage.shows(True, stage.suspended, "a")
        assert stage.workload("a")["spec"]["active"] is False
        await stage.shows("", stage.says, "a", "DeactivationTarget")
        await stage.holds(lambda: "MaximumExecutionTimeExceeded" in stage.events("Workload"))

    on_stage(scene)


def test_a_waiting_job_that_is_edited_keeps_its_workload(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(1)
        await stage.apply(job("a", "4", parallelism=3))
        await stage.shows(3, lambda: stage.workload("a")["spec"]["podSets"][0]["count"])
        before = stage.workload("a")
        await stage.edit(JOBS, "a", {"spec": {"parallelism": 2}})
        await stage.shows(2, lambda: stage.workload("a")["spec"]["podSets"][0]["count"])
        assert before["metadata"]["uid"] == stage.workload("a")["metadata"]["uid"]
        await stage.holds(lambda: "UpdatedWorkload" in stage.events("Job", "a"))

    on_stage(scene)


def test_a_waiting_job_may_change_its_queue(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(1)
        await stage.apply(queue("roomy", 10), local_queue("roomy", "roomy"))
        await stage.apply(job("a", "4"))
        await stage.shows("False/ExceedsMaxQuota", stage.says, "a", "QuotaReserved")
        named = {"kueue.x-k8s.io/queue-name": "roomy"}
        await stage.edit(JOBS, "a", {"metadata": {"labels": named}})
        await stage.shows(1, stage.active, "a")
        assert "roomy" == stage.workload("a")["spec"]["queueName"]

    on_stage(scene)


def test_a_running_job_that_gets_no_quota_is_suspended(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(1)
        await stage.apply(job("a", "4", suspend=False))
        await stage.shows("False/ExceedsMaxQuota", stage.says, "a", "QuotaReserved")
        await stage.shows(True, stage.suspended, "a")
        await stage.shows(0, stage.active, "a")
        assert 1 == len(stage.workloads("a"))

    on_stage(scene)


def test_an_admission_gate_keeps_a_workload_out_until_it_goes(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        gate = "kueue.x-k8s.io/admission-gated-by"
        await stage.apply(job("a", annotations={gate: "example.com/gate"}))
        await stage.shows("False/AdmissionGated", stage.says, "a", "QuotaReserved")
        await stage.edit(JOBS, "a", {"metadata": {"annotations": {gate: None}}})
        await stage.shows(1, stage.active, "a")
        wanted = {"AdmissionGated", "AdmissionGateCleared"}
        await stage.holds(lambda: wanted <= set(stage.events("Workload")))

    on_stage(scene)


def test_finished_workloads_are_deleted_after_their_retention(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.apply(job("a"))
        await stage.succeed("a")
        await stage.shows("True/Succeeded", stage.says, "a", "Finished")
        await stage.shows([], stage.workloads, "a")
        assert stage.find(JOBS, "a") is not None

    on_stage(scene, {"objectRetentionPolicies": {"workloads": {"afterFinished": "1s"}}})


def test_a_job_that_was_given_up_is_deleted_after_its_retention(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        limit = {"kueue.x-k8s.io/max-exec-time-seconds": "1"}
        await stage.apply(job("b"))
        await stage.shows(1, stage.active, "b")
        await stage.edit_workload("b", {"spec": {"active": False}})
        await stage.shows("True/Deactivated", stage.says, "b", "Evicted")
        await stage.apply(job("a", labels=limit))
        await stage.shows(1, stage.active, "a")
        await stage.shows(None, stage.find, JOBS, "a")
        assert stage.find(JOBS, "b") is not None

    on_stage(scene, {"objectRetentionPolicies": {"workloads": {"afterDeactivatedByKueue": "1s"}}})


def test_a_start_that_contradicts_the_template_ends_the_workload(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.apply(flavor(nodeLabels={"tier": "gold"}), queue("cq"), local_queue())
        bad = {"kueue.x-k8s.io/podset": "other"}
        made = job("a")
        made["spec"]["template"]["metadata"] = {"labels": bad}
        await stage.apply(made, job("b"))
        await stage.shows("True/FailedToStart", stage.says, "a", "Finished")
        assert stage.suspended("a")
        await stage.shows(1, stage.active, "b")

    on_stage(scene)
