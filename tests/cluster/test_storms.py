# SPDX-License-Identifier: Apache-2.0
"""Many Jobs while watches are truncated, writes are lost, and others write the same objects."""

from __future__ import annotations

import asyncio

import pytest

from cluster.flood import Flood, meddle
from cluster.lines import LossyWrites, LostAdmissionResponse, TruncatedStreams
from cluster.stage import Stage, StageRunner
from control.objects import condition, flavor, job, local_queue, queue, workload_class
from kuota.kube.requests import Transport
from kuota.kube.resources import LOCAL_QUEUES, WORKLOADS

pytestmark = pytest.mark.slow
JOBS = 30


def test_a_flood_passes_while_somebody_writes_on_every_workload(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        flood = Flood(stage, JOBS)
        meddler = asyncio.create_task(meddle(stage))
        await flood.begin()
        await flood.end()
        assert not meddler.done()
        meddler.cancel()

    on_stage(scene)


def test_a_flood_passes_while_every_watch_is_cut_several_times_a_second(
    on_stage: StageRunner,
) -> None:
    async def scene(stage: Stage) -> None:
        lines: list[TruncatedStreams] = []

        def cut(transport: Transport) -> TruncatedStreams:
            lines.append(TruncatedStreams(transport, every_s=0.2))
            return lines[-1]

        await stage.stop_system()
        stage.start_system(cut)
        flood = Flood(stage, JOBS)
        await flood.begin()
        await flood.end()
        assert lines[0].cuts

    on_stage(scene)


def test_a_flood_passes_while_one_write_in_three_goes_wrong(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        lines: list[LossyWrites] = []

        def lossy(transport: Transport) -> LossyWrites:
            lines.append(LossyWrites(transport, seed=7))
            return lines[-1]

        await stage.stop_system()
        stage.start_system(lossy)
        flood = Flood(stage, JOBS)
        await flood.begin()
        await flood.end()
        assert lines[0].lost

    on_stage(scene)


def test_a_flood_passes_while_the_controller_is_killed_again_and_again(
    on_stage: StageRunner,
) -> None:
    async def scene(stage: Stage) -> None:
        flood = Flood(stage, JOBS)
        await flood.begin()
        for part in range(1, 5):
            await flood.until(JOBS * part // 5)
            await stage.stop_system()
            stage.start_system()
        await flood.end()

    on_stage(scene)


def test_quota_whose_giving_got_no_answer_is_not_given_to_another(on_stage: StageRunner) -> None:
    async def scene(stage: Stage) -> None:
        await stage.stop_system()
        stage.start_system(lambda transport: LostAdmissionResponse(transport, late_s=1.5))
        await stage.apply(flavor(), workload_class("high", 100), queue("cq", 1))
        await stage.apply(local_queue(), local_queue("held", stopPolicy="Hold"))
        both: list[str] = []
        stage.observe(WORKLOADS, lambda old, new: both.extend(_both(stage)))
        high = {"kueue.x-k8s.io/priority-class": "high"}
        await stage.apply(job("high", queue="held", labels=high))
        await stage.holds(lambda: stage.workload("high"))
        await stage.apply(job("low"))
        await stage.shows("True/QuotaReserved", stage.says, "low", "QuotaReserved")
        await stage.edit(LOCAL_QUEUES, "held", {"spec": {"stopPolicy": "None"}})
        await stage.succeed("low")
        await stage.shows(1, stage.active, "high")
        assert [] == both
        assert stage.systems[-1].engine.cycles < 100

    on_stage(scene)


def _both(stage: Stage) -> list[str]:
    """Those that hold quota, where more than one does."""
    found = [
        each["metadata"]["name"]
        for each in stage.workloads()
        if condition(each, "QuotaReserved").get("status") == "True"
        and condition(each, "Finished").get("status") != "True"
    ]
    return found if len(found) > 1 else []
