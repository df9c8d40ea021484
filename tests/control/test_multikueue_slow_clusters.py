# SPDX-License-Identifier: Apache-2.0
"""A worker that takes long for every request delays nothing but its own jobs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from control.multikueue_fleet import told
from control.objects import condition
from control.virtual import played
from kuota.api.base import Key
from kuota.control.checks.multikueue.remote_requests import AT_ONCE, PATIENCE_S, RemoteRequests
from kuota.failures import Fatal, cause
from kuota.kube.errors import Unreachable
from kuota.kube.resources import JOBS

KEY = Key("team", "train")


def test_jobs_start_and_end_elsewhere_while_a_worker_is_slow() -> None:
    async def scene(fleet: Any) -> None:
        fleet.members["slow"].line.latency_s = 14.0
        names = [f"j{number}" for number in range(100)]
        for name in names:
            await fleet.submit(name)
        await fleet.rest(6)
        near = fleet.members["near"]
        assert sorted(names) == near.running()
        for name in names:
            await near.kubelet.succeed(name)
        await fleet.rest(4)
        ends = {condition(fleet.workload(name), "Finished").get("reason") for name in names}
        assert {"Succeeded"} == ends
        await fleet.rest(400)
        assert 0 == fleet.members["slow"].copies() + near.copies()

    told(scene, {"near": 200, "slow": 200})


def test_a_job_that_ends_in_a_slow_worker_is_finished_once_its_status_was_read() -> None:
    async def scene(fleet: Any) -> None:
        slow = fleet.members["slow"]
        await fleet.submit("train")
        await fleet.rest(5)
        assert fleet.where("train") == ["slow"]
        slow.line.latency_s = 10.0
        await slow.kubelet.succeed("train")
        await fleet.rest(9)
        assert not condition(fleet.workload("train"), "Finished"), "its status is not known yet"
        await fleet.rest(4)
        assert condition(fleet.workload("train"), "Finished")["reason"] == "Succeeded"
        assert fleet.job("train")["status"]["succeeded"] == 1
        await fleet.rest(60)
        assert 0 == slow.copies()

    told(scene, {"slow": 4})


def test_a_job_that_is_deleted_before_its_slow_copy_exists_leaves_nothing() -> None:
    async def scene(fleet: Any) -> None:
        slow = fleet.members["slow"]
        slow.line.latency_s = 10.0
        await fleet.submit("train")
        await fleet.rest(2)
        await fleet.api.delete(JOBS, Key("team", "train"))
        await fleet.rest(100)
        assert 0 == slow.copies()
        dispatcher = fleet.system.checks.multikueue.dispatcher
        assert not dispatcher._known

    told(scene, {"slow": 4}, {"gcInterval": "0s"})


@pytest.mark.parametrize("fails", [False, True])
def test_a_request_that_takes_longer_continues_and_causes_another_pass(fails: bool) -> None:
    async def story() -> None:
        ended: list[Key] = []
        done: list[str] = []
        requests = RemoteRequests(ended.append)

        async def slow() -> None:
            await asyncio.sleep(PATIENCE_S * 4)
            if fails:
                raise Unreachable("no response")

        async with asyncio.TaskGroup() as requests.group:
            first = await requests.run(KEY, {"slow": slow}, done.append)
            assert not first.failed
            assert {"slow"} == first.busy
            second = await requests.run(KEY, {"slow": slow}, done.append)
            assert {"slow"} == second.busy, "nothing is sent before the first request has ended"
            assert ([], []) == (ended, done)
            await asyncio.sleep(PATIENCE_S * 4)
            assert [KEY] == ended
            assert ([] if fails else ["slow"]) == done
            third = await requests.run(KEY, {}, done.append)
            assert (["slow"] if fails else []) == list(third.failed)
            assert not requests.busy(KEY)

    played(story())


def test_a_late_request_that_must_end_the_process_is_not_forgotten_by_the_next_pass() -> None:
    async def story() -> None:
        async def broken() -> None:
            await asyncio.sleep(PATIENCE_S * 2)
            raise Fatal("an observer failed")

        async def good() -> None:
            await asyncio.sleep(0)

        async def passes() -> None:
            requests = RemoteRequests(lambda key: None)
            async with asyncio.TaskGroup() as requests.group:
                await requests.run(KEY, {"slow": broken}, lambda _: None)
                await asyncio.sleep(PATIENCE_S * 2)
                await requests.run(KEY, {"slow": good}, lambda _: None)

        with pytest.raises(BaseExceptionGroup) as caught:
            await passes()
        assert isinstance(cause(caught.value), Fatal)

    played(story())


def test_a_cluster_gets_a_limited_number_of_requests_at_a_time() -> None:
    async def story() -> None:
        running = most = 0

        async def slow() -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(100)
            running -= 1

        requests = RemoteRequests(lambda key: None)
        keys = [Key("team", str(number)) for number in range(3 * AT_ONCE)]
        async with asyncio.TaskGroup() as requests.group:
            await asyncio.gather(*(requests.run(key, {"a": slow}, lambda _: None) for key in keys))
        assert AT_ONCE == most

    played(story())
