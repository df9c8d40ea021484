# SPDX-License-Identifier: Apache-2.0
"""CronJobs in virtual time: schedules and concurrency policies."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from kuota.api.base import Json
from kuota.kube.informer import Informer
from kuota.kube.resources import CRON_JOBS, JOBS
from kuota.runner.cron_controller import CronController
from kuota.runner.cron_rules import Schedule, ScheduleError, cron_step
from kuota.runner.instants import instant, time_text
from runner.embedded import cluster

START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC).timestamp()
MINUTE = 60.0


def cron(schedule: str = "*/10 * * * *", **spec: Any) -> Json:
    container = {"name": "main", "image": "x", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {
            "name": "tick",
            "namespace": "team",
            "uid": "cron-uid",
            "creationTimestamp": time_text(START),
        },
        "spec": {
            "schedule": schedule,
            "jobTemplate": {"metadata": {"labels": {"a": "b"}}, "spec": {"template": template}},
            **spec,
        },
    }


def ran(name: str, end: str = "", at: float = START) -> Json:
    conditions = [{"type": end, "status": "True", "lastTransitionTime": time_text(at)}]
    return {
        "metadata": {"name": name, "uid": name, "creationTimestamp": time_text(at)},
        "spec": {},
        "status": {"conditions": conditions if end else []},
    }


def test_a_job_that_has_ended_is_reported_once() -> None:
    jobs = [ran("good", "Complete"), ran("bad", "Failed"), ran("on")]
    before = cron() | {"status": {"active": [{"uid": each} for each in ("good", "bad", "on")]}}
    step = cron_step(before, jobs, START + MINUTE)
    assert [
        "Saw completed job: good, condition: Complete",
        "Saw completed job: bad, condition: Failed",
    ] == [each.message for each in step.events if each.reason == "SawCompletedJob"]
    assert [] == cron_step(cron() | {"status": step.status}, jobs, START + MINUTE).events


def test_nothing_is_due_before_the_first_moment() -> None:
    step = cron_step(cron(), [], START + MINUTE)
    assert (None, START + 10 * MINUTE) == (step.create, step.retry_at)


def test_a_job_is_made_when_its_moment_comes() -> None:
    now = START + 10 * MINUTE
    step = cron_step(cron(), [], now + 3)
    assert step.create is not None
    meta = step.create["metadata"]
    assert (f"tick-{int(now) // 60}", {"a": "b"}) == (meta["name"], meta["labels"])
    assert "CronJob" == meta["ownerReferences"][0]["kind"]
    assert time_text(now) == step.status["lastScheduleTime"]


def test_of_many_missed_moments_the_last_is_made_up_for() -> None:
    step = cron_step(cron(), [], START + 35 * MINUTE)
    assert step.create is not None
    assert time_text(START + 30 * MINUTE) == step.status["lastScheduleTime"]


def test_a_moment_that_is_too_long_ago_is_released() -> None:
    step = cron_step(cron(startingDeadlineSeconds=60), [], START + 15 * MINUTE)
    assert (None, ["MissSchedule"]) == (step.create, [each.reason for each in step.events])


@pytest.mark.parametrize(
    ("policy", "made", "deleted"), [("Allow", True, 0), ("Forbid", False, 0), ("Replace", True, 1)]
)
def test_a_job_that_still_runs_may_be_joined_waited_for_or_replaced(
    policy: str, made: bool, deleted: int
) -> None:
    step = cron_step(cron(concurrencyPolicy=policy), [ran("old")], START + 10 * MINUTE)
    assert (made, deleted) == (step.create is not None, len(step.delete))


def test_a_suspended_cron_job_makes_nothing() -> None:
    step = cron_step(cron(suspend=True), [], START + 10 * MINUTE)
    assert (None, None) == (step.create, step.retry_at)


def test_old_ends_are_forgotten_oldest_first() -> None:
    jobs = [ran(f"good-{n}", "Complete", START + n) for n in range(5)]
    jobs += [ran(f"bad-{n}", "Failed", START + n) for n in range(3)]
    step = cron_step(cron(), jobs, START)
    names = [each["metadata"]["name"] for each in step.delete]
    assert ["good-0", "good-1", "bad-0", "bad-1"] == names
    assert START + 4 == instant(step.status["lastSuccessfulTime"])


def test_schedules_follow_their_time_zone() -> None:
    tokyo = Schedule("0 9 * * *", "Asia/Tokyo")
    assert datetime(2026, 3, 2, 0, 0, tzinfo=UTC).timestamp() == tokyo.after(START)


@pytest.mark.parametrize("text", ["", "* * * *", "61 * * * *", "0 * * * * *", "@every x"])
def test_nonsense_is_no_schedule(text: str) -> None:
    with pytest.raises(ScheduleError):
        Schedule(text)


def test_a_question_mark_is_any() -> None:
    assert Schedule("0 9 ? * *").after(START) == Schedule("0 9 * * *").after(START)


def test_words_stand_for_schedules() -> None:
    assert START + 60 * MINUTE == Schedule("@hourly").after(START)
    assert START + 90 == Schedule("@every 1m30s").after(START, START)


class SetClock:
    """A wall clock that stands where the test puts it; waiting is real."""

    def __init__(self) -> None:
        self.at = datetime.now(UTC).timestamp()

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def test_the_controller_makes_the_job_and_writes_it_down() -> None:
    async def work() -> None:
        clock = SetClock()
        clock.at += 3600
        async with cluster() as world:
            jobs = Informer[Json](world.client, JOBS)
            controller = CronController(world.client, jobs, clock=clock)
            tasks = [asyncio.create_task(each.run()) for each in (jobs, controller)]
            obj = cron("*/30 * * * *")
            del obj["metadata"]["uid"], obj["metadata"]["creationTimestamp"]
            await world.client.create(CRON_JOBS, obj)
            found = await world.until(
                CRON_JOBS, "tick", lambda each: each["status"].get("lastScheduleTime")
            )
            (made,) = (await world.client.list(JOBS)).items
            assert made["metadata"]["name"] == found["status"]["active"][0]["name"]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(work())
