# SPDX-License-Identifier: Apache-2.0
"""Counters during the lifecycle of workloads, on the complete system."""

from __future__ import annotations

from control.objects import check, cohort, flavor, job, local_queue, queue, workload_class
from control.stage import Stage, run_scene
from control.test_pods import CONFIG as PODS_CONFIG
from control.test_pods import pod
from kuota.api.base import Key
from kuota.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    LOCAL_QUEUES,
    WORKLOADS,
)
from metrics.shown import Scrape, along

BY_PRIORITY = {"withinClusterQueue": "LowerPriority"}
HIGH = {"kueue.x-k8s.io/priority-class": "high"}
READY = {
    "timeout": "60s",
    "requeuingStrategy": {"backoffBaseSeconds": 10, "backoffLimitCount": 1},
}
QUEUE = {"cluster_queue": "cq", "priority_class": ""}
LOCAL = {"name": "main", "namespace": "team", "priority_class": ""}


def test_a_job_that_waits_runs_and_ends_is_counted_once_at_every_step() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        await stage.api.apply(flavor(), queue("cq", 1), local_queue(), job("a"), job("b"))
        await stage.rest(20)
        await stage.kubelet.succeed("a")
        await stage.rest(20)
        shown = Scrape(metrics)
        for name in ("quota_reserved", "admitted"):
            assert 2 == shown(f"{name}_workloads_total", **QUEUE)
            assert 2 == shown(f"local_queue_{name}_workloads_total", **LOCAL)
        assert 1 == shown("finished_workloads_total", **QUEUE)
        assert 1 == shown("local_queue_finished_workloads_total", **LOCAL)
        assert 1 == shown("execution_time_seconds_count", **QUEUE)
        assert 20 <= (shown("execution_time_seconds_sum", **QUEUE) or 0) <= 21
        assert 2 == shown("admission_wait_time_seconds_count", **QUEUE)
        assert 20 <= (shown("admission_wait_time_seconds_sum", **QUEUE) or 0) <= 21
        assert 1 == shown("admission_wait_time_seconds_bucket", le="10", **QUEUE)
        assert 2 == shown("local_queue_quota_reserved_wait_time_seconds_bucket", le="40", **LOCAL)
        assert shown("admission_checks_wait_time_seconds_count", **QUEUE) is None
        assert shown("ready_wait_time_seconds_count", **QUEUE) is None
        assert 2 == shown("admission_attempts_total", result="success")
        assert (shown("admission_attempts_total", result="inadmissible") or 0) >= 1
        assert 2 == shown("admission_attempt_duration_seconds_count", result="success")
        assert 0 == shown("admission_cycle_preemption_skips", cluster_queue="cq")
        assert 1 == shown("finished_workloads", cluster_queue="cq")
        assert 1 == shown("local_queue_finished_workloads", name="main")

    run_scene(scene)


def test_stopping_a_local_queue_removes_its_metrics() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        await stage.api.apply(flavor(), queue("cq", 2), local_queue(), job("a"), job("b", "2"))
        await stage.rest(20)
        shown, at = Scrape(metrics), {"name": "main", "namespace": "team"}
        assert 1 == shown("local_queue_admitted_workloads_total", **LOCAL)
        assert 1 == shown("local_queue_pending_workloads", status="inadmissible", **at)
        await stage.api.patch(LOCAL_QUEUES, Key("team", "main"), {"spec": {"stopPolicy": "Hold"}})
        await stage.rest(20)
        shown = Scrape(metrics)
        assert shown("local_queue_admitted_workloads_total", **LOCAL) is None
        assert shown("local_queue_pending_workloads", status="inadmissible", **at) is None
        assert shown("local_queue_finished_workloads", **at) is None
        assert 1 == shown("local_queue_reserving_active_workloads", **at)
        assert 1 == shown("local_queue_status", active="False", **at)
        assert 1 == shown("admitted_workloads_total", **QUEUE)
        await stage.api.patch(LOCAL_QUEUES, Key("team", "main"), {"spec": {"stopPolicy": "None"}})
        await stage.rest(20)
        shown = Scrape(metrics)
        assert 1 == shown("local_queue_pending_workloads", status="inadmissible", **at)
        assert 0 == shown("local_queue_finished_workloads", **at)

    run_scene(scene)


def test_a_preemption_is_counted_for_who_preempts_and_as_an_eviction_of_who_goes() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        await stage.api.apply(flavor(), workload_class("high", 100), local_queue())
        await stage.api.apply(queue("cq", 4, preemption=BY_PRIORITY))
        stage.kubelet.grace_s = 30
        await stage.api.apply(job("low", "4"))
        await stage.rest(10)
        await stage.api.apply(job("high", "4", labels=HIGH))
        await stage.rest(60)
        shown = Scrape(metrics)
        why = {"reason": "Preempted", "underlying_cause": ""}
        by = {"preempting_cluster_queue": "cq", "reason": "InClusterQueue"}
        assert [(by, 1)] == shown.all("preempted_workloads_total")
        assert 1 == shown("evicted_workloads_total", **QUEUE, **why)
        assert 1 == shown("evicted_workloads_once_total", **QUEUE, **why)
        assert 1 == shown("local_queue_evicted_workloads_total", **LOCAL, **why)
        assert 1 == shown("workload_eviction_latency_seconds_count", cluster_queue="cq")
        assert 30 <= (shown("workload_eviction_latency_seconds_sum", cluster_queue="cq") or 0) <= 33
        assert 1 == shown("pods_ready_to_evicted_time_seconds_count", cluster_queue="cq", **why)
        assert 1 == shown("admitted_workloads_total", cluster_queue="cq", priority_class="high")

    run_scene(scene)


def test_a_second_eviction_for_the_same_reason_counts_but_not_as_the_first() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage, {"waitForPodsReady": READY})
        await stage.api.apply(flavor(), queue("cq", 4), local_queue())
        stage.kubelet.ready = False
        await stage.api.apply(job("a"))
        await stage.rest(62)
        stage.kubelet.ready = True
        await stage.rest(30)
        assert "True/Started" == stage.says("a", "PodsReady")
        shown = Scrape(metrics)
        why = {"reason": "PodsReadyTimeout", "underlying_cause": "WaitForStart"}
        assert 1 == shown("evicted_workloads_total", **QUEUE, **why)
        assert 1 == shown("ready_wait_time_seconds_count", **QUEUE)
        assert 1 == shown("local_queue_ready_wait_time_seconds_count", **LOCAL)
        assert 1 == shown("admitted_until_ready_wait_time_seconds_count", **QUEUE)
        assert shown("pods_ready_to_evicted_time_seconds_count", cluster_queue="cq") is None

    run_scene(scene, {"waitForPodsReady": READY})


def test_admission_checks_have_a_wait_of_their_own() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        strategy = {"admissionChecks": [{"name": "budget"}]}
        await stage.api.apply(flavor(), check("budget"), local_queue())
        active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
        active["lastTransitionTime"] = "2026-01-01T00:00:00Z"
        await stage.status(ADMISSION_CHECKS, "budget", {"conditions": [active]})
        await stage.api.apply(queue("cq", 4, admissionChecksStrategy=strategy), job("a"))
        await stage.rest(20)
        (state,) = stage.workload("a")["status"]["admissionChecks"]
        name = stage.workload("a")["metadata"]["name"]
        body = {"admissionChecks": [state | {"state": "Ready", "message": "ok"}]}
        await stage.status(WORKLOADS, name, body)
        await stage.rest()
        assert "True/Admitted" == stage.says("a", "Admitted")
        shown = Scrape(metrics)
        assert 1 == shown("admission_checks_wait_time_seconds_count", **QUEUE)
        assert 15 <= (shown("admission_checks_wait_time_seconds_sum", **QUEUE) or 0) <= 25
        assert 1 == shown("local_queue_admission_checks_wait_time_seconds_count", **LOCAL)

    run_scene(scene)


def test_what_was_there_before_is_not_counted_and_neither_is_what_a_follower_sees() -> None:
    async def scene(stage: Stage) -> None:
        await stage.api.apply(flavor(), queue("cq", 1), local_queue(), job("a"))
        await stage.rest()
        metrics = along(stage)
        assert [] == Scrape(metrics).all("admitted_workloads_total")
        metrics.role = "follower"
        await stage.kubelet.succeed("a")
        await stage.rest()
        assert [] == Scrape(metrics).all("finished_workloads_total")
        metrics.role = "leader"
        await stage.api.apply(job("b"))
        await stage.rest()
        shown = Scrape(metrics)
        assert 1 == shown("admitted_workloads_total", replica_role="leader", **QUEUE)

    run_scene(scene)


def test_series_of_a_queue_that_is_deleted_are_gone() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        await stage.api.apply(flavor(), queue("cq", 1), local_queue(), job("a"))
        await stage.rest()
        assert 1 == Scrape(metrics)("admitted_workloads_total", **QUEUE)
        await stage.api.delete(JOBS, Key("team", "a"))
        await stage.api.delete(CLUSTER_QUEUES, Key("", "cq"))
        await stage.rest(60)
        shown = Scrape(metrics)
        assert not [each for each in shown.samples if "cq" in each.labels.values()]

    run_scene(scene)


def test_what_was_counted_keeps_the_custom_labels_that_its_queue_had_then() -> None:
    labels = [{"name": "team"}]
    config = {"metrics": {"customLabels": labels}}

    async def scene(stage: Stage) -> None:
        metrics = along(stage, config, {"CustomMetricLabels": True})
        red = queue("cq", 4)
        red["metadata"]["labels"] = {"team": "red"}
        await stage.api.apply(flavor(), red, local_queue(), job("a"))
        await stage.rest()
        red["metadata"]["labels"] = {"team": "blue"}
        await stage.api.apply(red, job("b"))
        await stage.rest()
        shown = Scrape(metrics)
        for team in ("red", "blue"):
            assert 1 == shown("admitted_workloads_total", custom_team=team, **QUEUE)
            assert 1 == shown("admission_wait_time_seconds_count", custom_team=team, **QUEUE)
        stands = {"cluster_queue": "cq", "custom_team": "blue"}
        assert [(stands, 2)] == shown.all("reserving_active_workloads")
        assert [(stands, 0)] == shown.all("admission_cycle_preemption_skips")
        await stage.api.delete(JOBS, Key("team", "a"))
        await stage.api.delete(JOBS, Key("team", "b"))
        await stage.api.delete(CLUSTER_QUEUES, Key("", "cq"))
        await stage.rest(60)
        assert [] == Scrape(metrics).all("admitted_workloads_total")

    run_scene(scene, config)


def test_the_time_from_a_job_to_its_workload_is_counted_where_that_is_asked_for() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage, gates={"MetricForWorkloadCreationLatency": True})
        await stage.api.apply(flavor(), queue("cq", 1), local_queue(), job("a"))
        await stage.rest()
        assert 1 == Scrape(metrics)("workload_creation_latency_seconds_count", job_kind="Job")

    run_scene(scene)


def test_a_queue_that_comes_back_under_its_name_counts_from_nothing_unasked() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        await stage.api.apply(flavor(), queue("cq", 1), local_queue(), job("a"))
        await stage.rest()
        await stage.api.delete(JOBS, Key("team", "a"))
        await stage.api.delete(CLUSTER_QUEUES, Key("", "cq"))
        await stage.api.delete(LOCAL_QUEUES, Key("team", "main"))
        await stage.rest(60)
        await stage.api.apply(queue("cq", 1), local_queue(), job("b"))
        await stage.rest()
        shown = Scrape(metrics)
        assert 1 == shown("admitted_workloads_total", **QUEUE)
        assert 1 == shown("local_queue_admitted_workloads_total", **LOCAL)

    run_scene(scene)


def test_a_deleted_cohort_is_shown_again_after_a_change_of_its_queue_or_an_admission() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        names = ("left", "right")
        await stage.api.apply(
            flavor(),
            *(cohort(each) for each in names),
            *(queue(each, 1, cohortName=each) for each in names),
            *(local_queue(each, each) for each in names),
            job("a", queue="left"),
        )
        await stage.rest()
        assert [1, 1] == [Scrape(metrics)("cohort_subtree_quota", cohort=each) for each in names]
        for each in names:
            await stage.api.delete(COHORTS, Key("", each))
        await stage.rest(60)
        shown = Scrape(metrics)
        for name in ("info", "subtree_quota", "subtree_admitted_active_workloads"):
            assert [] == shown.all(f"cohort_{name}")
        assert 1 == shown("admitted_active_workloads", cluster_queue="left")
        await stage.api.apply(queue("left", 2, cohortName="left"), job("b", queue="right"))
        await stage.rest()
        shown = Scrape(metrics)
        assert [2, 1] == [shown("cohort_subtree_quota", cohort=each) for each in names]
        assert 1 == shown("cohort_subtree_admitted_workloads_total", cohort="right")

    run_scene(scene)


def test_the_time_from_an_admission_to_the_start_of_each_pod_is_counted() -> None:
    async def scene(stage: Stage) -> None:
        metrics = along(stage)
        await stage.furnish(cpu=3)
        await stage.api.apply(pod("single"), pod("a", group="g", of=2), pod("b", group="g", of=2))
        await stage.rest()
        await stage.api.apply(pod("waits"))
        await stage.rest()
        gate = {"name": "kueue.x-k8s.io/admission", "cluster_queue": "cq"}
        name = "pod_scheduling_gate_removal_seconds_count"
        shown = Scrape(metrics)
        assert 1 == shown(name, is_group="false", **gate)
        assert 2 == shown(name, is_group="true", **gate)

    run_scene(scene, PODS_CONFIG)
