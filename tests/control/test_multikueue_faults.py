# SPDX-License-Identifier: Apache-2.0
"""Faults at every moment: workers that are lost, return or are slow, and a restarted manager.

Whatever happens, a Job completes exactly once as its owner sees it, no cluster gets it again
without an eviction, no copy is left in any cluster, and the manager's quota is released.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from control.multikueue_fleet import Fleet, told
from control.objects import condition
from kuota.kube.resources import JOBS

PHASES = [
    0.001,
    pytest.param(0.0, marks=pytest.mark.slow),
    pytest.param(0.01, marks=pytest.mark.slow),
    pytest.param(0.5, marks=pytest.mark.slow),
    pytest.param(1.0, marks=pytest.mark.slow),
    pytest.param(2.0, marks=pytest.mark.slow),
    pytest.param(5.0, marks=pytest.mark.slow),
    30.0,
]
"""Moments after a submission, in seconds: before, during and after the dispatch."""


async def completed(fleet: Fleet, names: list[str], seconds: float = 4000) -> None:
    """Let every Job that runs succeed, until all have, and check what is left."""
    for _ in range(int(seconds / 20)):
        if all(_over(fleet, name) for name in names):
            break
        for member in fleet.members.values():
            for name in member.running():
                await member.kubelet.succeed(name)
        await fleet.rest(20)
    await fleet.rest(400)
    for name in names:
        found = fleet.job(name)
        ended = [each for each in found["status"]["conditions"] if each["type"] == "Complete"]
        assert len(ended) == 1, f"{name}: {found['status']}"
        assert condition(fleet.workload(name), "Finished")["reason"] == "Succeeded"
        made = sum(each.line.jobs[name] for each in fleet.members.values())
        assert made <= 1 + _evictions(fleet, name), f"{name} was created again without an eviction"
    assert {name: each.copies() for name, each in fleet.members.items()} == dict.fromkeys(
        fleet.members, 0
    )
    (queue,) = (each for each in fleet.system.engine.state.queues.values())
    assert not queue.running


def _evictions(fleet: Fleet, name: str) -> int:
    stats = fleet.workload(name)["status"].get("schedulingStats") or {}
    return sum(each["count"] for each in stats.get("evictions") or ())


def _over(fleet: Fleet, name: str) -> bool:
    return bool(condition(fleet.workload(name), "Finished"))


@pytest.mark.parametrize("after_s", PHASES)
def test_the_manager_is_restarted_in_every_phase(after_s: float) -> None:
    async def scene(fleet: Any) -> None:
        await fleet.submit("train")
        await fleet.rest(after_s)
        await fleet.restart()
        await fleet.rest(20)
        assert len(fleet.where("train")) == 1
        await completed(fleet, ["train"])

    told(scene)


@pytest.mark.parametrize(
    "restarted",
    [False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["", "and the manager is restarted"],
)
@pytest.mark.parametrize("after_s", PHASES)
def test_a_worker_is_lost_in_every_phase(after_s: float, restarted: bool) -> None:
    async def scene(fleet: Any) -> None:
        await fleet.submit("train")
        await fleet.rest(after_s)
        fleet.members["near"].line.cut()
        if restarted:
            await fleet.restart()
        await fleet.rest(400)
        assert "far" in fleet.where("train")
        fleet.members["near"].line.mend()
        await fleet.rest(700)
        assert fleet.where("train") == ["far"]
        await completed(fleet, ["train"])

    told(scene, multi={"workerLostTimeout": "5m"})


@pytest.mark.parametrize("restarted", [False, True], ids=["", "and is restarted"])
def test_a_manager_that_loses_a_cluster_while_it_creates_a_job_continues_with_it(
    restarted: bool,
) -> None:
    async def scene(fleet: Any) -> None:
        for member in fleet.members.values():
            member.line.breaks = True
        await fleet.submit("train")
        await fleet.rest(1)
        (winner,) = fleet.where("train")
        if restarted:
            await fleet.restart()
        await fleet.rest(100)
        assert fleet.where("train") == [winner], "its cluster is lost for less than the timeout"
        for member in fleet.members.values():
            member.line.breaks = False
        fleet.members[winner].line.mend()
        await fleet.rest(200)
        assert (fleet.where("train"), fleet.cluster_of("train")) == ([winner], winner)
        await completed(fleet, ["train"])
        assert not condition(fleet.workload("train"), "Evicted")

    told(scene, multi={"workerLostTimeout": "5m"})


@pytest.mark.parametrize("late", ["near", "far"])
def test_clocks_that_differ_by_minutes_change_nothing(late: str) -> None:
    async def scene(fleet: Any) -> None:
        for name, member in fleet.members.items():
            member.clock.skew_s = -600.0 if name == late else 600.0
        names = [f"j{number}" for number in range(5)]
        for name in names:
            await fleet.submit(name, "2")
        await fleet.rest(20)
        running = [name for each in fleet.members.values() for name in each.running()]
        assert len(running) == len(set(running)) == 4
        (lost,) = fleet.where(running[0])
        fleet.members[lost].line.cut()
        await fleet.rest(100)
        assert fleet.cluster_of(running[0]) == lost, "the timeout is that of the manager's clock"
        await fleet.rest(250)
        assert fleet.cluster_of(running[0]) != lost
        fleet.members[lost].line.mend()
        await fleet.rest(700)
        await completed(fleet, names)

    told(scene, multi={"workerLostTimeout": "5m"})


@pytest.mark.parametrize("seed", range(1))
def test_jobs_survive_random_faults(seed: int) -> None:
    survive(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 201))
def test_jobs_survive_many_random_faults(seed: int) -> None:
    survive(seed)


def survive(seed: int) -> None:
    """Kill, disconnect or slow down a random worker or the manager at random moments under load.

    Some responses get lost. The clocks of some workers differ by minutes.
    """
    chance = random.Random(seed)

    async def scene(fleet: Any) -> None:
        names = [f"j{number}" for number in range(8)]
        for member in fleet.members.values():
            member.clock.skew_s = chance.choice([-600.0, 0.0, 0.0, 600.0])
        for name in names:
            await fleet.submit(name, str(chance.choice([1, 2, 3])))
            await fleet.rest(chance.choice([0.0, 0.01, 0.3, 1.0]))
            await _fault(fleet, chance)
        for _ in range(chance.randrange(8)):
            await fleet.rest(chance.choice([0.05, 1.0, 20.0, 200.0]))
            await _fault(fleet, chance)
            await _progress(fleet, chance)
        for member in fleet.members.values():
            member.line.mend()
            member.line.latency_s, member.line.breaks = 0.0, False
        await completed(fleet, names)

    told(scene, {"a": 4, "b": 4, "c": 4}, {"workerLostTimeout": "2m"})


async def _fault(fleet: Fleet, chance: random.Random) -> None:
    member = chance.choice(list(fleet.members.values()))
    fault = chance.randrange(6)
    if fault == 0:
        member.line.cut()
    elif fault == 1:
        member.line.mend()
    elif fault == 2:
        await fleet.restart()
    elif fault == 3:
        await member.restart()
    elif fault == 4:
        member.line.latency_s = chance.choice([0.0, 0.1, 5.0])
    else:
        member.line.breaks = not member.line.breaks


async def _progress(fleet: Fleet, chance: random.Random) -> None:
    """Let some Jobs succeed where they run."""
    for member in fleet.members.values():
        for name in member.running():
            if chance.random() < 0.4 and fleet.api.find(JOBS, name) is not None:
                await member.kubelet.succeed(name)
