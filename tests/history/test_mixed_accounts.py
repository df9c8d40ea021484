# SPDX-License-Identifier: Apache-2.0
"""Accounts of elastic jobs, partial admissions and pod groups agree with what was held.

A meter reads the Workloads once per second, independently of the recorder, which is interrupted.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from fractions import Fraction
from pathlib import Path

import pytest

from control.objects import condition, flavor, job, local_queue, queue, workload_class
from control.stage import Stage, run_scene
from control.test_elastic_jobs import elastic, resize
from control.test_pods import CONFIG, pod, run
from history.test_recorder import HIGH, Recording
from kuota.api.base import Json, Key
from kuota.api.rules.metadata import ELASTIC_JOB
from kuota.history.accounts import By, Period, merged, usage
from kuota.history.address import SqliteFile
from kuota.history.charges import ChargePeriod, charges
from kuota.history.records import RESIZED, JobRecord, overlap_ms
from kuota.history.series import series_report
from kuota.kube.resources import JOBS, PODS, WORKLOADS

GATES = {"ElasticJobsViaWorkloadSlices": True, "PartialAdmission": True}
MIN = "kueue.x-k8s.io/job-min-parallelism"
CPUS = 8


class Meter:
    """Adds up the CPU seconds that each Workload holds, and how often that changes."""

    def __init__(self, stage: Stage) -> None:
        self.seconds: Counter[str] = Counter()
        self.changes: Counter[str] = Counter()
        self._held: dict[str, int] = {}
        self._stage = stage

    async def run(self) -> None:
        while True:
            for each in self._stage.api.all(WORKLOADS):
                uid, now = each["metadata"]["uid"], held(each)
                self.seconds[uid] += now
                self.changes[uid] += now != self._held.get(uid, 0)
                self._held[uid] = now
            await asyncio.sleep(1)


def held(workload: Json) -> int:
    """Return the CPUs of admitted pods that have not been given back."""
    status = workload.get("status") or {}
    if condition(workload, "Finished") or condition(workload, "Admitted").get("status") != "True":
        return 0
    sizes = {each["name"]: each["count"] for each in workload["spec"]["podSets"]}
    given_back = {each["name"]: each["count"] for each in status.get("reclaimablePods") or ()}
    total = 0
    for each in (status.get("admission") or {}).get("podSetAssignments") or ():
        name, count = each["name"], each["count"]
        left = min(count, sizes[name] - given_back.get(name, 0))
        total += int(each["resourceUsage"]["cpu"]) * left // count
    return total


class Story:
    """Random events of a small lab, whose names tell the kind of a job."""

    def __init__(self, stage: Stage, chance: random.Random) -> None:
        self._stage = stage
        self._chance = chance
        self.names: list[str] = []
        self.groups: list[str] = []

    async def begin(self) -> None:
        """Submit a job of each kind, and let the elastic one grow."""
        await self._elastic("e")
        await self._partial("p")
        await self._group("g")
        await self._stage.rest(10)
        await resize(self._stage, "e", 4)

    async def step(self) -> None:
        events = [self._submit, self._resize, self._resize, self._finish, self._finish]
        await self._chance.choice(events)()
        await self._stage.rest(self._chance.choice([1.0, 15.0, 40.0]))

    async def _submit(self) -> None:
        name = f"j{len(self.names) + len(self.groups)}"
        submit: Callable[[str], Awaitable[None]] = self._chance.choice(
            [self._elastic, self._partial, self._group]
        )
        await submit(name)

    async def _elastic(self, name: str) -> None:
        self.names.append(name)
        await self._stage.api.apply(elastic(name, self._chance.randint(1, 3), labels=self._labels))

    async def _partial(self, name: str) -> None:
        self.names.append(name)
        size = self._chance.randint(2, 8)
        given = job(name, parallelism=size, annotations={MIN: "1"}, labels=self._labels)
        await self._stage.api.apply(given)

    async def _group(self, name: str) -> None:
        self.groups.append(name)
        size = self._chance.randint(1, 3)
        pods = [pod(f"{name}-{each}", group=name, of=size) for each in range(size)]
        await self._stage.api.apply(*pods)

    @property
    def _labels(self) -> dict[str, str]:
        return HIGH if self._chance.random() < 0.4 else {}

    async def _resize(self) -> None:
        elastic_ones = [
            each["metadata"]["name"]
            for each in self._stage.api.all(JOBS)
            if ELASTIC_JOB in each["metadata"]["annotations"] and not each["spec"]["suspend"]
        ]
        if elastic_ones:
            size = self._chance.randint(1, 4)
            await resize(self._stage, self._chance.choice(elastic_ones), size)

    async def _finish(self) -> None:
        name = self._chance.choice([*self.names, ""])
        await self._finish_pod()
        if self._stage.api.find(JOBS, name) is not None:
            if self._stage.active(name) and self._chance.random() < 0.7:
                await self._stage.kubelet.end(name, "Complete")
            else:
                await self._stage.api.delete(JOBS, Key("team", name))

    async def _finish_pod(self) -> None:
        """Let one pod that has started succeed. The others of its group go on."""
        pods = [
            each
            for each in self._stage.api.all(PODS)
            if not each["spec"].get("schedulingGates") and each["status"]["phase"] != "Succeeded"
        ]
        if pods:
            await run(self._stage, self._chance.choice(pods)["metadata"]["name"], "Succeeded")


def cpu_seconds(record: JobRecord) -> float:
    runs = (each.amounts["default"]["cpu"] * overlap_ms(each, 0, 10**15) for each in record.runs)
    return sum(runs) / 1_000_000


@pytest.mark.parametrize("seed", range(5))
def test_accounts_of_jobs_that_change_while_they_run_are_exact(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)

    async def scene(stage: Stage) -> None:
        preemption = {"withinClusterQueue": "LowerPriority"}
        await stage.api.apply(flavor(), workload_class("high", 10), local_queue())
        await stage.api.apply(queue("cq", CPUS, preemption=preemption))
        whole, broken = (Recording(stage, SqliteFile(str(tmp_path / each))) for each in "ab")
        meter, story = Meter(stage), Story(stage, chance)
        measuring = asyncio.create_task(meter.run())
        whole.start()
        broken.start()
        await story.begin()
        for _ in range(30):
            await story.step()
            if chance.random() < 0.3:
                await broken.stop()
                broken.start()
        await stage.rest(30)
        measuring.cancel()
        for each in (whole, broken):
            await each.stop()
        records = whole.records()
        assert records == broken.records()
        _agree(records, meter)
        _add_up(records, stage.clock.now().timestamp())
        assert len(story.names) + len(story.groups) == len(merged(records)) < len(records)
        assert any(run.ending == RESIZED for each in records for run in each.runs)

    run_scene(scene, CONFIG, GATES)


def _agree(records: list[JobRecord], meter: Meter) -> None:
    for record in records:
        if record.running is None:
            error = abs(cpu_seconds(record) - meter.seconds[record.uid])
            # Conditions have whole seconds, and the meter reads once per second.
            assert error <= 2 * CPUS * meter.changes[record.uid], record


def _add_up(records: list[JobRecord], now: float) -> None:
    """Every report of the same records has the same sum, whatever it is grouped by."""
    period = Period(0.0, now)
    sums = {
        round(sum(each.resources["cpu"].hours for each in usage(records, by, period)
                  if "cpu" in each.resources), 9)
        for by in By
    }  # fmt: skip
    exact = sum(Fraction(e.resource_seconds) for e in charges(records, period, ChargePeriod.DAY))
    sums.add(round(float(exact / 3600), 9))
    (team,) = series_report(records, period, 3600).items
    sums.add(round(sum(sum(each.hours) for each in team.resources), 9))
    assert 1 == len(sums), sums
    (account,) = usage(records, By.TEAM, period)
    lost = sum(sum(each.lost) for each in team.resources)
    assert account.resources["cpu"].lost == pytest.approx(lost)
