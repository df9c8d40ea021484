# SPDX-License-Identifier: Apache-2.0
"""Waste is counted once, by its cause."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from control.objects import flavor, job, local_queue, queue
from control.stage import Stage, run_scene
from history.test_recorder import Recording
from kuota.api.base import Json
from kuota.history import waste as module
from kuota.history.accounts import By, Period, usage
from kuota.history.address import Address, SqliteFile
from kuota.history.database import HistoryReader, HistoryWriter, read_waste
from kuota.history.quota_recorder import QuotaRecorder, quota_informers
from kuota.history.quotas import QuotaFact, QuotaKind
from kuota.history.records import Interval, JobRecord, RecordedOutcome, Run
from kuota.history.waste import IdleSpan, TooManyChanges, waste
from kuota.view.idle import DeviceHolder, IdlePeriod

GPU = "nvidia.com/gpu"
DAY = Period(0.0, 86_400.0)


def quota(name: str, gpus: int, cohort: str = "", since: float = 0.0) -> QuotaFact:
    resource = {"name": GPU, "nominalQuota": str(gpus)}
    group = {"coveredResources": [GPU], "flavors": [{"name": "a100", "resources": [resource]}]}
    spec: Json = {"resourceGroups": [group]} | ({"cohortName": cohort} if cohort else {})
    return QuotaFact(QuotaKind.CLUSTER_QUEUE, name, since, spec)


def leads(queue: str, to: str) -> QuotaFact:
    return QuotaFact(QuotaKind.LOCAL_QUEUE, queue, 0.0, {"clusterQueue": to})


def run(start: float, end: float | None, ending: str, gpus: int = 2, **more: Any) -> Run:
    return Run(start, start, "cq", {"a100": {GPU: gpus}}, end, ending, **more)


def record(*runs: Run, uid: str = "u", team: str = "vision", **more: Any) -> JobRecord:
    given = {"submitted": 0.0, "finished": runs[-1].ended if runs else None} | more
    submitted, finished = given.pop("submitted"), given.pop("finished")
    return JobRecord(uid, team, f"w-{uid}", "Job", uid, "q", "", submitted, runs, finished, **given)


def causes(
    *records: JobRecord, quotas: tuple[QuotaFact, ...] = (), idle: tuple[IdleSpan, ...] = ()
) -> dict[str, dict[str, float]]:
    """Return GPU seconds by team and cause, without zeros."""
    return {
        each.group: {
            cause: round(hours * 3600, 6) for cause, hours in each.resources[GPU].items() if hours
        }
        for each in waste(records, quotas, idle, DAY)
        if GPU in each.resources
    }


@pytest.mark.parametrize(
    ("runs", "outcome", "expected"),
    [
        ((run(0, 10, "Preempted"), run(10, 20, "Finished")), "Succeeded", {"preempted": 20.0}),
        ((run(0, 10, "NodeFailures"), run(10, 20, "Finished")), "Succeeded", {"evicted": 20.0}),
        ((run(0, 10, "PodsReadyTimeout"),), "", {"failedStart": 20.0}),
        ((run(0, 500, "Finished", ready=False),), "Failed", {"failedStart": 1000.0}),
        ((run(0, 60, "Finished"),), "Failed", {"failedStart": 120.0}),
        ((run(0, 61, "Finished"),), "Failed", {}),
        ((run(0, 10, "Finished", ready=True),), "Failed", {}),
        ((run(0, 10, "Finished"),), "Succeeded", {}),
        ((run(0, 10, "Deleted"),), "Deleted", {}),
    ],
)
def test_a_run_is_wasted_for_one_reason(
    runs: tuple[Run, ...], outcome: str, expected: dict[str, float]
) -> None:
    found = causes(record(*runs, outcome=RecordedOutcome(outcome)))
    assert ({"vision": expected} if expected else {}) == found


def test_all_amounts_of_an_admission_that_was_preempted_are_lost() -> None:
    resized = Run(0, 0, "cq", {"a100": {GPU: 4}}, 10, "Resized")
    rest = Run(0, 10, "cq", {"a100": {GPU: 2}}, 20, "Preempted")
    given = record(resized, rest)
    assert {"vision": {"preempted": 60.0}} == causes(given)
    (account,) = usage([given], By.TEAM, DAY)
    assert 60 == round(account.resources[GPU].lost * 3600)


def test_idle_devices_count_within_runs_that_were_not_lost() -> None:
    given = record(run(10, 20, "Preempted"), run(30, 50, "Finished"))
    holders = (("p", "w-u"), ("q", "w-u"), ("r", "other"))
    spans = tuple(IdleSpan(pod, "GPU-1", "vision", w, GPU, 0.0, 45.0) for pod, w in holders)
    assert {"vision": {"preempted": 20.0, "idle": 30.0}} == causes(given, idle=spans)


def test_an_idle_device_counts_once_whoever_has_recorded_it() -> None:
    """A recorder that has lost the Lease may go on for a while beside its successor."""
    given = record(run(0, 100, "Finished"))
    times = ((10.0, 40.0), (20.0, 30.0), (35.0, 60.0), (50.0, 60.0))
    spans = tuple(IdleSpan("p", "GPU-1", "vision", "w-u", GPU, *each) for each in times)
    assert {"vision": {"idle": 50.0}} == causes(given, idle=spans)


def test_a_device_is_idle_in_all_slices_of_an_elastic_job() -> None:
    first = record(run(0, 20, "Finished"), uid="a", job_uid="job")
    second = record(run(20, 50, "Finished"), uid="b", job_uid="job")
    span = IdleSpan("p", "GPU-1", "vision", "w-a", GPU, 10.0, 90.0)
    assert {"vision": {"idle": 40.0}} == causes(first, second, idle=(span,))


def test_quota_that_is_free_while_jobs_wait_is_wasted_once() -> None:
    quotas = (quota("cq", 8), leads("vision/q", "cq"), leads("speech/q", "cq"))
    runs = record(run(0, 100, "Finished", 6), uid="a")
    wants: dict[str, Any] = {"requests": {GPU: 4}, "submitted": 10.0}
    first = record(uid="b", **wants, finished=60.0)
    other = record(uid="c", team="speech", **wants, finished=60.0)
    found = causes(runs, first, other, quotas=quotas)
    # Two GPUs are free for 50 seconds, and both teams want the same.
    assert {"vision": {"waiting": 50.0}, "speech": {"waiting": 50.0}} == found


def test_what_a_cohort_lends_is_free_and_what_it_has_lent_is_not() -> None:
    quotas = (quota("cq", 0, "all"), quota("other", 4, "all"), leads("vision/q", "cq"))
    waits = record(uid="b", requests={GPU: 8}, finished=100.0)
    held = Run(40, 40, "other", {"a100": {GPU: 3}}, None)
    assert {"vision": {"waiting": 4 * 40.0 + 1 * 60.0}} == causes(
        waits, record(held, uid="a", team="speech", submitted=40.0), quotas=quotas
    )


def test_a_job_that_is_held_or_has_no_queue_does_not_wait() -> None:
    quotas = (quota("cq", 8), leads("vision/q", "cq"))
    held = record(requests={GPU: 1}, finished=100.0, held=(Interval(20.0, 90.0),))
    assert {"vision": {"waiting": 30.0}} == causes(held, quotas=quotas)
    assert {} == causes(held, quotas=(quota("cq", 8),))
    assert {} == causes(held, quotas=(*quotas, QuotaFact(quotas[0].kind, "cq", 0.0, None)))


def test_a_report_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MOMENTS", 3)
    with pytest.raises(TooManyChanges):
        causes(record(run(1, 2, "Finished")), record(run(3, 4, "Finished"), uid="b"))


@pytest.mark.parametrize("seed", range(4))
def test_waste_never_exceeds_what_exists(seed: int) -> None:
    chance = random.Random(seed)
    quotas = (quota("cq", 8), quota("other", 4, "x"), leads("a/q", "cq"), leads("b/q", "cq"))
    jobs = []
    for number in range(60):
        start = chance.uniform(0, 80_000)
        ending = chance.choice(["Preempted", "Finished", "PodsReadyTimeout"])
        runs = (run(start, start + chance.uniform(0, 900), ending, chance.randint(1, 2)),)
        team = chance.choice("ab")
        wants: dict[str, Any] = {"requests": {GPU: chance.randint(1, 20)}}
        wants["submitted"] = start - 300
        jobs.append(record(*(runs if number % 3 else ()), uid=str(number), team=team, **wants))
    total = sum(sum(each.values()) for each in causes(*jobs, quotas=quotas).values())
    used = sum(each.resources[GPU].hours for each in usage(jobs, By.TEAM, DAY) if each.resources)
    assert 0 < total <= 8 * 86_400 + used * 3600


def test_idle_periods_are_stored_once(address: Address) -> None:
    holder = DeviceHolder("vision", "pod", "pod-uid", "w-u")
    with HistoryWriter(address) as writer:
        for until in (20.0, 50.0, 30.0):
            writer.write_idle([IdlePeriod(holder, "gpu-0", GPU, 10.0, until)])
    with HistoryReader(address) as reader:
        stored = IdleSpan("pod-uid", "gpu-0", "vision", "w-u", GPU, 10.0, 50.0)
        assert [stored] == reader.idle(0.0, 100.0)
        assert [] == reader.idle(50.0, 100.0)


def test_facts_about_quotas_are_stored_if_they_change(address: Address) -> None:
    first, second = quota("cq", 8, since=1.0), quota("cq", 8, since=2.0)
    gone = msgspec.structs.replace(first, since=3.0, spec=None)
    with HistoryWriter(address) as writer:
        writer.write_quotas([first, second])
        assert {(QuotaKind.CLUSTER_QUEUE, "cq")} == writer.live_quotas()
        writer.write_quotas([gone])
        assert set() == writer.live_quotas()
        writer.prune(2.5)
    with HistoryReader(address) as reader:
        assert [first, gone] == reader.quotas(10.0)


def test_quotas_are_recorded_across_restarts(tmp_path: Path) -> None:
    async def scene(stage: Stage) -> None:
        file = SqliteFile(str(tmp_path / "history"))
        recording = Recording(stage, file)
        recording.start()
        recorders = [_recorder(stage, file)]
        await stage.api.apply(flavor(), queue("cq", 4, stopPolicy="Hold"), local_queue())
        await stage.api.apply(job("waits", "3"))
        await stage.rest(100)
        recorders.pop().cancel()
        await stage.edit_queue_quota(2)
        recorders.append(_recorder(stage, file))
        await stage.rest(100)
        recorders.pop().cancel()
        await recording.stop()
        now = stage.clock.now().timestamp()
        (found,) = waste(*read_waste(file, 0.0, now), Period(0.0, now))
        # Three CPUs are wanted. Four were free, and then two.
        wasted = found.resources["cpu"]["waiting"] * 3600
        assert 300 + 200 == pytest.approx(wasted, abs=10)

    run_scene(scene)


def _recorder(stage: Stage, file: SqliteFile) -> asyncio.Future[Any]:
    informers = quota_informers(stage.api, stage.clock)
    recorder = QuotaRecorder(informers, lambda obj: obj, file, stage.clock)
    return asyncio.gather(recorder.run(), *(each.run() for each in informers.values()))
