# SPDX-License-Identifier: Apache-2.0
"""The system clock jumps by hours while pods and Jobs run: their timers do not notice."""

from __future__ import annotations

from pathlib import Path

import pytest

from kuota.api.base import Json, Key
from kuota.kube.resources import JOBS, PODS
from runner.machine import World, container, job, pod, story

HOURS = 3 * 3600.0
JUMPS = pytest.mark.parametrize("jump_s", [-HOURS, HOURS])


def is_failed(obj: Json) -> bool:
    return any(each["type"] == "Failed" for each in obj["status"].get("conditions") or ())


@JUMPS
def test_a_pod_is_ended_at_its_deadline_and_not_before(tmp_path: Path, jump_s: float) -> None:
    async def work(world: World) -> None:
        await world.submit(pod("long", container("sleep 1000"), activeDeadlineSeconds=2))
        await world.submit(pod("patient", container("sleep 1000"), activeDeadlineSeconds=600))
        await world.phase("long", "Running")
        running = await world.phase("patient", "Running")
        world.clock.skew_s = jump_s
        await world.submit(pod("next", container("exit 0"), activeDeadlineSeconds=600))
        await world.phase("next", "Succeeded")
        failed = await world.phase("long", "Failed")
        assert "DeadlineExceeded" == failed["status"]["reason"]
        found = await world.client.get(PODS, Key("team", "patient"))
        assert running["status"]["phase"] == found["status"]["phase"]

    story(tmp_path, work)


@JUMPS
def test_a_job_fails_at_its_deadline_and_not_before(tmp_path: Path, jump_s: float) -> None:
    async def work(world: World) -> None:
        await world.submit(job("long", "sleep 1000", activeDeadlineSeconds=2))
        await world.submit(job("patient", "sleep 1000", activeDeadlineSeconds=600))
        for name in ("long", "patient"):
            await world.until(JOBS, name, lambda each: each["status"].get("active"))
        world.clock.skew_s = jump_s
        await world.until(JOBS, "long", is_failed)
        assert not is_failed(await world.client.get(JOBS, Key("team", "patient")))

    story(tmp_path, work)


@JUMPS
def test_a_finished_job_is_deleted_in_time_and_not_before(tmp_path: Path, jump_s: float) -> None:
    async def work(world: World) -> None:
        await world.submit(job("brief", "exit 0", ttlSecondsAfterFinished=1))
        await world.submit(job("kept", "exit 0", ttlSecondsAfterFinished=600))
        await world.until(JOBS, "kept", lambda each: each["status"].get("completionTime"))
        world.clock.skew_s = jump_s
        await world.some(
            JOBS, lambda some: all(each["metadata"]["name"] != "brief" for each in some)
        )
        assert (await world.client.get(JOBS, Key("team", "kept")))["status"]["succeeded"]

    story(tmp_path, work)


@JUMPS
def test_containers_restart_after_a_jump(tmp_path: Path, jump_s: float) -> None:
    """Their delay depends on when the last run ended, which another process has recorded."""

    async def work(world: World) -> None:
        script = "echo >> runs; [ $(wc -l < runs) -ge 5 ]"
        spec = pod("again", container(script))
        spec["spec"]["restartPolicy"] = "OnFailure"
        await world.submit(pod("first", container("exit 0")))
        await world.phase("first", "Succeeded")
        world.clock.skew_s = jump_s
        await world.submit(spec)
        done = await world.phase("again", "Succeeded")
        assert 4 == done["status"]["containerStatuses"][0]["restartCount"]

    story(tmp_path, work)
