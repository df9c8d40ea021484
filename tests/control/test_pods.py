# SPDX-License-Identifier: Apache-2.0
"""Plain Pods and pod groups, from creation to their end."""

from __future__ import annotations

from typing import Any

import pytest

from control.objects import flavor, namespace, priority_class
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.bridge.jobs.ancestor import owners_of
from kuota.bridge.jobs.job_webhook import defaulted
from kuota.bridge.jobs.kind import JobKey
from kuota.bridge.jobs.pod import PodKind
from kuota.bridge.lifecycle_view import JobPassInput, LifecycleConfig
from kuota.control.reconcile_job import JobReconciler
from kuota.kube.resources import PODS, RESOURCE_FLAVORS, WORKLOADS

PREFIX = "kueue.x-k8s.io/"
CONFIG = {"integrations": {"frameworks": ["pod", "batch/job"]}}


def pod(name: str, cpu: str = "1", group: str = "", of: int = 0, **spec: Any) -> Json:
    """A Pod in the queue `main`, as the webhook stores it."""
    labels = {f"{PREFIX}queue-name": "main"}
    annotations = {}
    if group:
        labels[f"{PREFIX}pod-group-name"] = group
        annotations[f"{PREFIX}pod-group-total-count"] = str(of)
    meta = {"name": name, "namespace": "team", "labels": labels, "annotations": annotations}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    given = {"metadata": meta, "spec": {"containers": [container]} | spec}
    config = LifecycleConfig(owners=owners_of(["pod"]))
    made = defaulted(PodKind(), {"apiVersion": "v1", "kind": "Pod"} | given, _look_up, config)
    return made | {"status": {"phase": "Pending"}}


def _look_up(kind: tuple[str, str], key: Key) -> Json | None:
    return namespace("team") if kind == ("", "Namespace") else None


def gates(stage: Stage, name: str) -> list[str]:
    return [each["name"] for each in stage.get(PODS, name)["spec"].get("schedulingGates") or ()]


async def run(stage: Stage, name: str, phase: str = "Running") -> None:
    """What a kubelet writes."""
    conditions = [{"type": "Ready", "status": "True" if phase == "Running" else "False"}]
    await stage.status(PODS, name, {"phase": phase, "conditions": conditions})


def _admitted(workload: Json, conditions: tuple[str, ...]) -> Json:
    """The status of a Workload that has had quota for long."""
    name = workload["spec"]["podSets"][0]["name"]
    charged = {"name": name, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": "1"}}
    common = {"status": "True", "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"}
    return {
        "admission": {"clusterQueue": "cq", "podSetAssignments": [charged | {"count": 1}]},
        "conditions": [{"type": type_, "reason": type_} | common for type_ in conditions],
    }


def test_a_pod_waits_for_quota_then_starts_with_its_flavor_and_finishes() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=1)
        await stage.api.apply(pod("first"), pod("second"))
        await stage.rest()
        assert [] == gates(stage, "first")
        assert [f"{PREFIX}admission", f"{PREFIX}topology"] == gates(stage, "second")
        labels = stage.get(PODS, "first")["metadata"]["labels"]
        assert ("main", "cq") == (labels[f"{PREFIX}podset"], labels[f"{PREFIX}cluster-queue-name"])
        await run(stage, "first", "Succeeded")
        await stage.rest()
        assert "True/Succeeded" == stage.says("first", "Finished")
        assert not stage.get(PODS, "first")["metadata"].get("finalizers")
        assert [] == gates(stage, "second")
        assert ["CreatedWorkload", "Started", "FinishedWorkload"] == stage.events("Pod", "first")

    run_scene(scene, CONFIG)


def test_a_preempted_pod_is_deleted_with_the_reason_in_its_status() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=1)
        await stage.edit_queue({"preemption": {"withinClusterQueue": "LowerPriority"}})
        await stage.api.apply(priority_class("high", 100), pod("low"))
        await stage.rest()
        await run(stage, "low")
        await stage.api.apply(pod("high", priorityClassName="high"))
        await stage.rest()
        assert stage.api.find(PODS, "low") is None
        assert [] == gates(stage, "high")
        assert "Stopped" in stage.events("Pod", "low")

    run_scene(scene, CONFIG)


def test_a_group_starts_together_and_its_quota_is_released_pod_by_pod() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=2)
        await stage.api.apply(pod("a", group="team-a", of=2))
        await stage.rest()
        assert ["ErrWorkloadCompose"] == stage.events("Pod", "a")
        assert stage.api.find(WORKLOADS, "team-a") is None
        await stage.api.apply(pod("b", group="team-a", of=2))
        await stage.rest()
        assert [[], []] == [gates(stage, "a"), gates(stage, "b")]
        await stage.api.apply(pod("next"))
        await run(stage, "a")
        await run(stage, "b", "Succeeded")
        await stage.rest()
        assert [] == gates(stage, "next")
        await run(stage, "a", "Succeeded")
        await stage.rest()
        assert "True/Succeeded" == stage.says("a", "Finished")

    run_scene(scene, CONFIG)


@pytest.mark.parametrize("conditions", [("QuotaReserved", "Admitted"), ("QuotaReserved",)], ids=str)
@pytest.mark.parametrize("latency_s", [0.0, 0.1])
def test_a_group_starts_before_it_is_evicted_for_not_being_ready_in_time(
    conditions: tuple[str, ...], latency_s: float
) -> None:
    """Its Pods are deleted, so that the Workload waits for others.

    Somebody else admits the Workload, and the time is over at once.
    """
    impatient = CONFIG | {"waitForPodsReady": {"timeout": "10ms"}}

    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=0)
        await stage.api.apply(pod("a", group="g", of=1))
        await stage.rest()
        stage.api.latency_s = stage.api.lag_s = latency_s
        await stage.status(WORKLOADS, "g", _admitted(stage.get(WORKLOADS, "g"), conditions))
        await stage.rest()
        assert "True/PodsReadyTimeout" == stage.says("a", "WaitingForReplacementPods")
        assert ["Started", "Stopped"] == [
            each for each in stage.events("Pod", "a") if each in ("Started", "Stopped")
        ]

    run_scene(scene, impatient)


def test_a_flavor_whose_watch_is_late_does_not_delay_the_start_of_a_group() -> None:
    """Otherwise the Workload would be evicted before its Pods start."""
    impatient = CONFIG | {"waitForPodsReady": {"timeout": "10ms"}}

    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=0)
        await stage.api.apply(pod("a", group="g", of=1))
        await stage.rest()
        stage.api.lags[RESOURCE_FLAVORS] = 60
        await stage.api.apply(flavor("late"))
        status = _admitted(stage.get(WORKLOADS, "g"), ("QuotaReserved", "Admitted"))
        status["admission"]["podSetAssignments"][0]["flavors"] = {"cpu": "late"}
        await stage.status(WORKLOADS, "g", status)
        await stage.rest(1)
        assert "True/PodsReadyTimeout" == stage.says("a", "WaitingForReplacementPods")
        assert "Started" in stage.events("Pod", "a")

    run_scene(scene, impatient)


def test_a_failed_pod_of_a_group_is_replaced_without_new_quota() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=2)
        await stage.api.apply(pod("a", group="g", of=2), pod("b", group="g", of=2))
        await stage.rest()
        await run(stage, "a")
        await run(stage, "b", "Failed")
        await stage.rest()
        await stage.api.apply(pod("c", group="g", of=2))
        await stage.rest()
        assert [] == gates(stage, "c")
        assert not stage.get(PODS, "b")["metadata"].get("finalizers")
        owners = stage.get(WORKLOADS, "g")["metadata"]["ownerReferences"]
        assert {"a", "b", "c"} == {each["name"] for each in owners}

    run_scene(scene, CONFIG)


def test_pods_of_one_group_in_different_queues_say_so_and_others_continue() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=2)
        other = pod("b", group="g", of=2)
        other["metadata"]["labels"][f"{PREFIX}queue-name"] = "another"
        await stage.api.apply(pod("a", group="g", of=2), other, pod("single"))
        await stage.rest()
        assert "InvalidPodGroup" in stage.events("Pod", "a")
        assert [] == gates(stage, "single")
        assert stage.api.find(WORKLOADS, "g") is None

    run_scene(scene, CONFIG)


def test_changes_of_many_pods_of_a_group_take_few_passes_and_reports_without_effect_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    passes: list[JobKey] = []
    view = JobReconciler.view

    def counted(reconciler: JobReconciler, at: JobKey) -> JobPassInput:
        passes.append(at)
        return view(reconciler, at)

    monkeypatch.setattr(JobReconciler, "view", counted)
    names = [f"p{number}" for number in range(20)]

    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=20)
        await stage.api.apply(*(pod(name, group="g", of=20) for name in names))
        await stage.rest()
        assert not any(gates(stage, name) for name in names)
        passes.clear()
        for name in names:
            await stage.status(PODS, name, {"hostIP": "10.0.0.1", "startTime": "now"})
        await stage.rest()
        assert [] == passes
        for name in names:
            await run(stage, name)
        await stage.rest()
        assert 1 <= len(passes) <= 2
        for name in names:
            await run(stage, name, "Succeeded")
        await stage.rest()
        assert "True/Succeeded" == stage.says("p0", "Finished")

    run_scene(scene, CONFIG)


def test_a_group_whose_pods_are_deleted_waits_for_others_until_its_workload_is_deleted() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=2)
        await stage.api.apply(pod("a", group="g", of=2), pod("b", group="g", of=2))
        await stage.rest()
        await stage.api.apply(pod("next"))
        for name in ("a", "b"):
            await run(stage, name)
            await stage.api.delete(PODS, Key("team", name))
            await run(stage, name, "Failed")
        await stage.rest()
        assert "True/PodsFailed" == stage.says("a", "WaitingForReplacementPods")
        assert gates(stage, "next")
        await stage.api.delete(WORKLOADS, Key("team", "g"))
        await stage.rest()
        assert [None, None] == [stage.api.find(PODS, name) for name in ("a", "b")]
        assert [] == gates(stage, "next")

    run_scene(scene, CONFIG)


def test_a_controller_that_starts_later_finishes_what_it_missed() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=1)
        await stage.api.apply(pod("a", group="g", of=1))
        await stage.rest()
        await stage.stop()
        await run(stage, "a", "Succeeded")
        stage.start()
        await stage.rest()
        assert "True/Succeeded" == stage.says("a", "Finished")
        assert not stage.get(PODS, "a")["metadata"].get("finalizers")

    run_scene(scene, CONFIG)


@pytest.mark.parametrize("frameworks", [["batch/job"], ["deployment"]])
def test_pods_are_left_alone_without_the_integration(frameworks: list[str]) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(pod("a"))
        await stage.rest()
        assert gates(stage, "a")
        assert not stage.api.all(WORKLOADS)

    run_scene(scene, {"integrations": {"frameworks": frameworks}})
