# SPDX-License-Identifier: Apache-2.0
"""The end of a manager: passes finish their writes, and a worker that hangs does not delay it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from control.multikueue_fleet import Fleet, Line, told
from kuota.api.base import Json
from kuota.kube.resources import JOBS, Resource


async def _creation_of_job(fleet: Fleet, worker: str, latency_s: float) -> None:
    """Return as soon as a request to create a Job is on its way, which takes so long."""
    line, sent = fleet.members[worker].line, asyncio.Event()
    create = line.create

    async def noticed(resource: Resource, obj: Json, **options: Any) -> Json:
        if resource == JOBS:
            sent.set()
            await asyncio.sleep(latency_s)
        return await create(resource, obj, **options)

    line.create = noticed  # type: ignore[method-assign]
    await sent.wait()


@pytest.mark.parametrize("latency_s", [0.05, 1000.0], ids=["slow", "hangs"])
def test_the_end_of_the_manager_waits_for_writes_to_workers_but_not_for_long(
    latency_s: float,
) -> None:
    async def scene(fleet: Any) -> None:
        near = fleet.members["near"]
        await fleet.submit("train")
        await _creation_of_job(fleet, "near", latency_s)
        began = fleet.clock.monotonic()
        await fleet.system.finish()
        assert fleet.clock.monotonic() - began < 0.3
        finished = latency_s < 1
        assert (["train"] if finished else []) == near.jobs()
        assert ("Ready" if finished else "Pending") == fleet.state("train")
        assert "near" == fleet.cluster_of("train"), "it is recorded before the job is created"
        near.line.create = Line.create.__get__(near.line)
        await fleet.restart()
        await fleet.rest(30)
        assert fleet.where("train") == ["near"], "the next manager continues"

    told(scene, {"near": 4})


def test_the_loops_are_measured_under_the_names_of_kueue() -> None:
    async def scene(fleet: Any) -> None:
        await fleet.stop()
        measured: set[str] = set()

        def instrument(controller: str, reconcile: Any) -> Any:
            async def counted(name: Any) -> Any:
                measured.add(controller)
                return await reconcile(name)

            return counted

        begin = fleet.start

        def start() -> None:
            begin()
            fleet.system.instrument = instrument

        fleet.start = start
        fleet.start()
        await fleet.submit("train")
        await fleet.rest(30)
        names = {"multikueue_workload", "multikueue_cluster", "multikueue_clusterqueue"}
        assert names == measured & names
        assert names <= fleet.system.depths().keys()

    told(scene, {"near": 4}, MultiKueueManagerQuotaAutomation=True)
