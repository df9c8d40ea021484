# SPDX-License-Identifier: Apache-2.0
"""A Job is queued, admitted, started and finished."""

from __future__ import annotations

from cluster.stage import Stage, StageRunner
from control.objects import flavor, job, local_queue, queue
from kuota.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES


def test_a_job_is_queued_admitted_started_and_finished(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        toleration = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
        gold = flavor(nodeLabels={"tier": "gold"}, tolerations=[toleration])
        await stage.apply(gold, queue("cq"), local_queue())
        await stage.apply(job("a", "2", parallelism=2, completions=2))
        await stage.shows("True/Admitted", stage.says, "a", "Admitted")
        await stage.shows(2, stage.active, "a")
        template = stage.job("a")["spec"]["template"]
        assert {"tier": "gold"} == template["spec"]["nodeSelector"]
        assert [toleration] == template["spec"]["tolerations"]
        labels = template["metadata"]["labels"]
        assert "main" == labels["kueue.x-k8s.io/podset"]
        assert "main" == labels["kueue.x-k8s.io/local-queue-name"]
        assert stage.names.own("cq") == labels["kueue.x-k8s.io/cluster-queue-name"]
        await stage.shows("4", _used, stage)
        await stage.succeed("a", 2)
        await stage.shows("True/Succeeded", stage.says, "a", "Finished")
        await stage.shows(None, lambda: stage.workload("a")["metadata"].get("finalizers"))
        await stage.shows("0", _used, stage)
        wanted = {"CreatedWorkload", "Started", "FinishedWorkload"}
        await stage.holds(lambda: wanted <= set(stage.events("Job", "a")))

    on_stage(scene)


def test_amounts_beyond_64_bits_are_written_as_the_largest_quantity(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(10**20)
        await stage.apply(job("a", "100E"))
        await stage.shows(False, stage.suspended, "a")
        await stage.shows("9223372036854775807m", _used, stage)
        admission = stage.workload("a")["status"]["admission"]
        usage = admission["podSetAssignments"][0]["resourceUsage"]
        assert {"cpu": "9223372036854775807m"} == usage

    on_stage(scene)


def _used(stage: Stage) -> str:
    status = stage.get(CLUSTER_QUEUES, "cq")["status"]
    return str(status["flavorsUsage"][0]["resources"][0]["total"])


def test_queues_count_who_waits_and_who_runs(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(2)
        await stage.apply(*(job(f"j{number}") for number in range(5)))
        for resource, name in ((CLUSTER_QUEUES, "cq"), (LOCAL_QUEUES, "main")):
            await stage.shows((2, 2, 3), _counts, stage, resource, name)
            await stage.shows("True/Ready", stage.active_says, resource, name)

    on_stage(scene)


def _counts(stage: Stage, resource: object, name: str) -> tuple[int, int, int]:
    status = stage.get(resource, name)["status"]  # type: ignore[arg-type]
    return (
        status["admittedWorkloads"],
        status["reservingWorkloads"],
        status["pendingWorkloads"],
    )
