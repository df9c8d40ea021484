# SPDX-License-Identifier: Apache-2.0
"""Queues that are held, drained, deleted, or do not match a Job's namespace."""

from __future__ import annotations

from cluster.stage import Stage, StageRunner
from control.objects import flavor, job, local_queue, namespace, queue
from kuota.kube.resources import CLUSTER_QUEUES, JOBS, LOCAL_QUEUES, RESOURCE_FLAVORS


def test_hold_lets_running_work_go_on_and_nothing_new_in(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(8)
        await stage.apply(job("a", "4"))
        await stage.shows(1, stage.active, "a")
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "Hold"}})
        await stage.shows("False/Stopped", stage.active_says, CLUSTER_QUEUES, "cq")
        await stage.apply(job("b", "4"))
        await stage.shows("False/Suspended", stage.says, "b", "QuotaReserved")
        assert not stage.suspended("a")
        assert stage.suspended("b")
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "None"}})
        await stage.shows(1, stage.active, "b")

    on_stage(scene)


def test_hold_and_drain_evicts_and_a_restart_brings_back(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(8)
        await stage.apply(local_queue("other"))
        await stage.apply(job("a", "4"), job("b", "4", queue="other"))
        await stage.shows(1, stage.active, "a")
        await stage.shows(1, stage.active, "b")
        await stage.edit(LOCAL_QUEUES, "main", {"spec": {"stopPolicy": "HoldAndDrain"}})
        await stage.shows("True/LocalQueueStopped", stage.says, "a", "Evicted")
        await stage.shows("False/LocalQueueStopped", stage.says, "a", "Requeued")
        assert stage.suspended("a")
        assert not stage.suspended("b")
        await stage.edit(LOCAL_QUEUES, "main", {"spec": {"stopPolicy": "None"}})
        await stage.shows("True/LocalQueueRestarted", stage.says, "a", "Requeued")
        await stage.shows(1, stage.active, "a")

    on_stage(scene)


def test_draining_a_cluster_queue_evicts_all_of_it(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(8)
        await stage.apply(job("a", "4"), job("b", "4"))
        for name in ("a", "b"):
            await stage.shows(1, stage.active, name)
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "HoldAndDrain"}})
        for name in ("a", "b"):
            await stage.shows("True/ClusterQueueStopped", stage.says, name, "Evicted")
            await stage.shows(True, stage.suspended, name)
            await stage.shows(0, stage.active, name)

    on_stage(scene)


def test_a_queue_in_use_cannot_go(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.apply(job("a"))
        await stage.shows(1, stage.active, "a")
        held = ["kueue.x-k8s.io/resource-in-use"]
        await stage.shows(held, _finalizers, stage, "cq")
        await stage.delete(CLUSTER_QUEUES, "cq")
        await stage.delete(RESOURCE_FLAVORS, "default")
        await stage.shows("False/Terminating", stage.active_says, CLUSTER_QUEUES, "cq")
        await stage.succeed("a")
        await stage.shows(None, stage.find, CLUSTER_QUEUES, "cq")
        await stage.shows(None, stage.find, RESOURCE_FLAVORS, "default")

    on_stage(scene)


def _finalizers(stage: Stage, name: str) -> list[str]:
    return list(stage.get(CLUSTER_QUEUES, name)["metadata"]["finalizers"])


def test_a_queue_without_its_flavor_waits_for_it(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.apply(queue("cq"), local_queue(), job("a"))
        await stage.shows("False/FlavorNotFound", stage.active_says, CLUSTER_QUEUES, "cq")
        await stage.shows("False/Suspended", stage.says, "a", "QuotaReserved")
        await stage.apply(flavor())
        await stage.shows("True/Ready", stage.active_says, CLUSTER_QUEUES, "cq")
        await stage.shows(1, stage.active, "a")

    on_stage(scene)


def test_jobs_without_the_label_run_at_once(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.apply(job("a", "4", queue="", suspend=False))
        await stage.shows(1, stage.active, "a")
        await stage.apply(job("b", "4"))
        await stage.shows(1, stage.active, "b")
        assert [] == stage.workloads("a")

    on_stage(scene)


def test_jobs_without_the_label_are_managed_when_configured_so(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.apply(job("a", "4", queue="", suspend=False))
        await stage.shows(True, stage.suspended, "a")
        await stage.shows(1, lambda: len(stage.workloads("a")))

    # Not in every namespace: other stories may be told on the same server.
    chosen = {"matchLabels": {"managed": "without-label"}}

    async def chosen_scene(stage: Stage) -> None:
        await stage.apply(namespace("team", managed="without-label"))
        await scene(stage)

    config = {"manageJobsWithoutQueueName": True, "managedJobsNamespaceSelector": chosen}
    on_stage(chosen_scene, config)


def test_jobs_of_other_namespaces_are_left_alone(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.apply(job("a", "4"))
        await stage.shows("True/Ready", stage.active_says, CLUSTER_QUEUES, "cq")
        await stage.holds(lambda: stage.find(JOBS, "a"))
        assert [] == stage.workloads("a")
        await stage.apply(namespace("team", managed="yes"))
        await stage.shows(1, stage.active, "a")

    on_stage(scene, {"managedJobsNamespaceSelector": {"matchLabels": {"managed": "yes"}}})


def test_a_namespace_that_a_queue_does_not_admit_waits(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.apply(flavor(), local_queue())
        await stage.apply(queue("cq", namespaceSelector={"matchLabels": {"fits": "yes"}}))
        await stage.apply(job("a"))
        await stage.shows("False/Misconfigured", stage.says, "a", "QuotaReserved")
        await stage.apply(namespace("team", fits="yes"))
        await stage.shows(1, stage.active, "a")

    on_stage(scene)
