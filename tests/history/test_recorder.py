# SPDX-License-Identifier: Apache-2.0
"""The recorder counts every hour exactly once, whenever it is interrupted."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from control.objects import condition, flavor, job, local_queue, queue, workload_class
from control.stage import Stage, run_scene
from kuota.api.base import Json, Key
from kuota.api.core import AUTHOR
from kuota.history.address import Address, SqliteFile
from kuota.history.database import HistoryReader
from kuota.history.recorder import HistoryRecorder
from kuota.history.records import JobRecord, RecordedOutcome, overlap_ms
from kuota.kube.resources import JOBS, WORKLOADS

T = TypeVar("T")
HIGH = {"kueue.x-k8s.io/priority-class": "high"}


class Recording:
    """A recorder of a stage, which can be interrupted and continued."""

    def __init__(self, stage: Stage, address: Address) -> None:
        self.address = address
        self._stage = stage
        self._task: asyncio.Task[None] | None = None

    def start(self, *, authors: bool = True) -> None:
        recorder = HistoryRecorder(
            self._stage.api, self.address, self._stage.clock, authors=authors
        )
        self._task = asyncio.create_task(recorder.run())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._task = None

    def records(self) -> list[JobRecord]:
        with HistoryReader(self.address) as reader:
            return sorted(reader.jobs(0.0, None), key=lambda each: each.uid)


async def _story(stage: Stage, chance: random.Random, recording: Recording) -> None:
    """Jobs are submitted, preempted, finished and deleted, and the recording is interrupted."""
    preemption = {"withinClusterQueue": "LowerPriority"}
    await stage.api.apply(flavor(), workload_class("high", 10), local_queue())
    await stage.api.apply(queue("cq", 4, preemption=preemption))
    names: list[str] = []
    for number in range(12):
        labels = HIGH if chance.random() < 0.4 else {}
        names.append(f"j{number}")
        await stage.api.apply(job(names[-1], str(chance.randint(1, 3)), labels=labels))
        await stage.rest(chance.choice([0.0, 1.0, 30.0]))
        if chance.random() < 0.5:
            await recording.stop()
        over = chance.choice(names)
        if stage.api.find(JOBS, over) is not None:
            if stage.active(over) and chance.random() < 0.6:
                await stage.kubelet.succeed(over)
            else:
                await stage.api.delete(JOBS, Key("team", over))
        await stage.rest(chance.choice([0.0, 20.0]))
        if chance.random() < 0.7:
            await recording.stop()
            recording.start()
    await stage.rest(60)


class Meter:
    """Measures the CPU seconds of each Workload independently: once per second, what is held."""

    def __init__(self, stage: Stage) -> None:
        self.seconds: Counter[str] = Counter()
        self._stage = stage

    async def run(self) -> None:
        while True:
            for each in self._stage.api.all(WORKLOADS):
                self.seconds[each["metadata"]["uid"]] += _held(each)
            await asyncio.sleep(1)


def _held(workload: Json) -> int:
    status = workload.get("status") or {}
    if condition(workload, "Finished") or condition(workload, "Admitted").get("status") != "True":
        return 0
    sets = (status.get("admission") or {}).get("podSetAssignments") or ()
    return sum(int(each["resourceUsage"]["cpu"]) for each in sets)


def _counted(record: JobRecord) -> int:
    runs = (
        sum(each.amounts["default"].values()) * overlap_ms(each, 0, 10**15) for each in record.runs
    )
    return round(sum(runs) / 1_000_000)


@pytest.mark.parametrize("seed", range(8))
def test_an_interrupted_recorder_counts_every_hour_exactly_once(
    seed: int, address: Address, tmp_path: Path
) -> None:
    found: list[list[JobRecord]] = []
    meters: list[Meter] = []

    async def scene(stage: Stage) -> None:
        whole = Recording(stage, SqliteFile(str(tmp_path / "whole")))
        broken = Recording(stage, address)
        meters.append(Meter(stage))
        measuring = asyncio.create_task(meters[0].run())
        whole.start()
        broken.start()
        await _story(stage, random.Random(seed), broken)
        await broken.stop()
        broken.start()
        await stage.rest(5)
        measuring.cancel()
        for each in (whole, broken):
            await each.stop()
            found.append(each.records())

    run_scene(scene)
    whole, broken = found
    assert whole == broken
    assert any(each.runs for each in whole)
    for record in whole:
        # Times have whole seconds, and at most three CPUs are held.
        if record.running is None:
            error = abs(_counted(record) - meters[0].seconds[record.uid])
            assert error <= 2 * 3 * len(record.runs), record


@pytest.mark.parametrize("seed", range(4))
def test_two_recorders_of_one_database_count_nothing_twice(
    seed: int, address: Address, tmp_path: Path
) -> None:
    """A leader that has lost the Lease may go on for a while beside its successor."""
    found: list[list[JobRecord]] = []

    async def scene(stage: Stage) -> None:
        whole = Recording(stage, SqliteFile(str(tmp_path / "whole")))
        old, new = (Recording(stage, address) for _ in range(2))
        for each in (whole, old, new):
            each.start()
        await _story(stage, random.Random(seed), old)
        await stage.rest(20)
        for each in (whole, old, new):
            await each.stop()
        found.extend((whole.records(), new.records()))

    run_scene(scene)
    assert found[0] == found[1]
    assert any(each.runs for each in found[0])


@pytest.mark.parametrize(("authors", "user"), [(True, "ann"), (False, "")])
def test_without_webhooks_that_record_authors_no_user_is_recorded(
    tmp_path: Path, authors: bool, user: str
) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        recording = Recording(stage, SqliteFile(str(tmp_path / "history")))
        recording.start(authors=authors)
        await stage.api.apply(job("a", annotations={AUTHOR: "ann"}))
        await stage.rest(10)
        await stage.kubelet.succeed("a")
        await stage.rest(10)
        await recording.stop()
        (record,) = recording.records()
        assert (user, RecordedOutcome.SUCCEEDED) == (record.user, record.outcome)

    run_scene(scene)


def test_workloads_that_vanished_unseen_end_when_they_were_last_known(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("gone"), job("stays"))
        recording = Recording(stage, SqliteFile(str(tmp_path / "history")))
        recording.start()
        await stage.rest(30)
        await recording.stop()
        before = {each.job: each for each in recording.records()}
        assert before["gone"].running is not None
        await stage.rest(100)
        await stage.api.delete(JOBS, Key("team", "gone"))
        await stage.rest(100)
        stage.api.compacted = True
        recording.start()
        await stage.rest(5)
        await recording.stop()
        after = {each.job: each for each in recording.records()}
        assert before["stays"] == after["stays"]
        run = after["gone"].runs[0]
        assert RecordedOutcome.DELETED == after["gone"].outcome
        assert run.ended is not None
        assert run.ended - run.started <= 30

    run_scene(scene)


class _Killed(Exception):
    pass


def test_a_recorder_that_is_killed_after_its_first_record_misses_no_end(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        recording = Recording(stage, SqliteFile(str(tmp_path / "history")))

        async def killed(work: Callable[[], T]) -> T:
            result = work()
            if recording.records():
                raise _Killed
            return result

        await stage.furnish()
        await stage.api.apply(job("a"))
        await stage.rest(10)
        with pytest.raises(_Killed):
            await HistoryRecorder(stage.api, recording.address, stage.clock, calls=killed).run()
        await stage.kubelet.succeed("a")
        await stage.rest(10)
        await stage.api.delete(JOBS, Key("team", "a"))
        await stage.rest(10)
        recording.start()
        await stage.rest(5)
        await recording.stop()
        (record,) = recording.records()
        assert RecordedOutcome.SUCCEEDED == record.outcome

    run_scene(scene)
