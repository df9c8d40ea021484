# SPDX-License-Identifier: Apache-2.0
"""The number of writes per Job is bounded, and an idle system writes nothing."""

from __future__ import annotations

import asyncio

from control.objects import flavor, job, local_queue, queue
from control.stage import Stage, run_scene
from kuota.kube.resources import CLUSTER_QUEUES, CORE_EVENTS, JOBS, LOCAL_QUEUES, WORKLOADS

AN_HOUR_S = 3600


async def _setting(stage: Stage, cpu: int = 4) -> None:
    await stage.api.apply(flavor(), queue("cq", cpu), local_queue())
    await stage.rest()


def test_an_admission_is_one_patch() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        assert ["QuotaReserved", "Admitted"] == stage.events("Workload")
        quota, admitted = (stage.condition("a", each) for each in ("QuotaReserved", "Admitted"))
        assert quota["lastTransitionTime"] == admitted["lastTransitionTime"]

    run_scene(scene)


def test_in_a_flood_of_admissions_only_the_last_step_is_an_event() -> None:
    async def scene(stage: Stage) -> None:
        stage.api.latency_s = 0.05
        await _setting(stage, 1000)
        await asyncio.gather(*(stage.api.apply(job(f"job-{number}")) for number in range(200)))
        await stage.rest(60)
        events = stage.events("Workload")
        assert 200 == events.count("Admitted")
        assert 0 < events.count("QuotaReserved") < 100

    run_scene(scene)


def test_the_whole_life_of_a_job_takes_these_writes() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        name = stage.workload("a")["metadata"]["name"]
        await stage.kubelet.succeed("a")
        await stage.rest(AN_HOUR_S)
        # Made, admitted, ready, finished, let go.
        assert 5 == stage.api.versions(WORKLOADS, name)
        told_of = {kind: stage.events(kind) for kind in ("Job", "Workload")}
        expected = ["CreatedWorkload", "Started", "FinishedWorkload"]
        assert {"Job": expected, "Workload": ["QuotaReserved", "Admitted"]} == told_of
        written = len(expected) + 2
        assert written == sum(
            stage.api.versions(CORE_EVENTS, e["metadata"]["name"]) for e in _all(stage)
        )

    run_scene(scene)


def _all(stage: Stage) -> list[dict[str, dict[str, str]]]:
    return stage.api.all(CORE_EVENTS)


def test_nothing_is_written_while_nothing_happens() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("runs", "4"), job("waits", "4"))
        await stage.rest()
        before = stage.api.writes
        await stage.rest(AN_HOUR_S)
        assert before == stage.api.writes

    run_scene(scene)


def test_no_report_remains_for_finished_workloads() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        names = [f"short-{number}" for number in range(30)]
        for name in names:
            await stage.api.apply(job(name, "4"))
        for name in names:
            while stage.suspended(name):
                await stage.rest(0.01)
            await stage.kubelet.succeed(name)
        await stage.rest(0.04)
        assert all(stage.says(each, "Finished") for each in names)
        assert 0 == len(stage.system.reports)

    run_scene(scene)


def test_a_job_that_passes_by_costs_each_queue_no_more_than_a_write_a_second() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, 100)
        before = [stage.api.versions(*each) for each in _QUEUES]
        for number in range(20):
            await stage.api.apply(job(f"j{number}"))
            await stage.rest(0.05)
        await stage.rest(5)
        after = [stage.api.versions(*each) for each in _QUEUES]
        assert all(new - old <= 3 for old, new in zip(before, after, strict=True))
        assert 20 == stage.get(CLUSTER_QUEUES, "cq")["status"]["admittedWorkloads"]

    run_scene(scene)


_QUEUES = ((CLUSTER_QUEUES, "cq"), (LOCAL_QUEUES, "main"))


def test_those_who_react_to_one_change_do_not_get_in_each_others_way() -> None:
    async def scene(stage: Stage) -> None:
        stage.api.latency_s = 0.01
        await _setting(stage)
        await stage.api.apply(job("a", "4"))
        await stage.rest()
        await stage.edit_workload("a", {"spec": {"active": False}})
        await stage.rest()
        await stage.edit_workload("a", {"spec": {"active": True}})
        await stage.rest()
        assert 0 == stage.api.conflicts[WORKLOADS]
        assert not stage.get(JOBS, "a")["spec"]["suspend"]

    run_scene(scene)
