# SPDX-License-Identifier: Apache-2.0
"""What is written about pending Workloads, when, and how often."""

from __future__ import annotations

import pytest

from control.objects import job
from control.stage import Stage, run_scene
from kuota.api.base import Json
from kuota.control.pending_reports import MAX_WITH_EVENTS, REFRESH_S
from kuota.engine.model import Workload
from kuota.engine.pending import PendingQueue
from kuota.kube.errors import Unreachable
from kuota.kube.resources import CLUSTER_QUEUES, WORKLOADS


def _workloads(stage: Stage) -> list[Json]:
    return stage.api.all(WORKLOADS)


def _versions(stage: Stage) -> list[int]:
    return [stage.api.versions(WORKLOADS, e["metadata"]["name"]) for e in _workloads(stage)]


def test_the_same_reason_is_not_published_again_within_a_minute() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("runs", "1", parallelism=3, completions=3))
        await stage.rest()
        await stage.api.apply(job("waits", "4"))
        await stage.rest()
        name = stage.workload("waits")["metadata"]["name"]
        before = stage.api.versions(WORKLOADS, name)
        # Each pod that ends reduces what is missing, and so changes the message.
        for _ in range(2):
            await stage.kubelet.succeed("runs")
            await stage.rest()
        assert before == stage.api.versions(WORKLOADS, name)
        await stage.kubelet.succeed("runs")
        await stage.rest()
        assert not stage.suspended("waits")

    run_scene(scene)


def test_an_old_message_is_replaced_when_it_has_changed() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("runs", "1", parallelism=3, completions=3))
        await stage.rest()
        await stage.api.apply(job("waits", "4"))
        await stage.rest(REFRESH_S + 1)
        before = stage.condition("waits", "QuotaReserved")
        await stage.kubelet.succeed("runs")
        await stage.rest()
        after = stage.condition("waits", "QuotaReserved")
        assert before["reason"] == after["reason"]
        assert before["message"] != after["message"]

    run_scene(scene)


def test_a_newer_message_that_the_server_refused_once_is_written_later() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("runs", "1", parallelism=3, completions=3))
        await stage.rest()
        await stage.api.apply(job("waits", "4"))
        await stage.rest(REFRESH_S + 1)
        before = stage.condition("waits", "QuotaReserved")
        # The first write is the reclaimable pod of the Job that runs.
        await stage.kubelet.succeed("runs")
        while not stage.workload("runs")["status"].get("reclaimablePods"):
            await stage.rest(0.001)
        stage.api.refuse["status", "Workload"] = [Unreachable("the server restarts")]
        await stage.rest()
        assert not stage.api.refuse["status", "Workload"]
        assert before["message"] != stage.condition("waits", "QuotaReserved")["message"]

    run_scene(scene)


def test_all_members_of_a_class_get_the_reason_of_the_one_that_was_tried() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(*(job(f"j{n}", "6") for n in range(5)))
        await stage.rest()
        messages = {stage.condition(f"j{n}", "QuotaReserved")["message"] for n in range(5)}
        assert 1 == len(messages)
        assert 1 == len(stage.events("Workload"))
        versions = _versions(stage)
        # One that is tried later has nothing to add.
        await stage.rest(30)
        assert versions == _versions(stage)

    run_scene(scene)


def test_members_of_a_class_are_not_visited_again_whenever_one_is_admitted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    visits: list[str] = []
    ordered = PendingQueue.ordered

    def counted(queue: PendingQueue) -> list[Workload]:
        visits.append(queue.name)
        return ordered(queue)

    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(*(job(f"j{n}", "3") for n in range(6)))
        await stage.rest()
        running = [n for n in range(6) if not stage.suspended(f"j{n}")]
        monkeypatch.setattr(PendingQueue, "ordered", counted)
        await stage.kubelet.succeed(f"j{running[0]}")
        await stage.rest()
        started = [n for n in range(6) if not stage.suspended(f"j{n}")]
        assert len(started) == len(running) + 1
        assert [] == visits

    run_scene(scene)


def test_a_newcomer_to_a_rejected_class_gets_its_reason_without_being_tried() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("first", "6"))
        await stage.rest()
        cycles = stage.system.engine.cycles
        await stage.api.apply(job("second", "6"))
        await stage.rest()
        assert cycles == stage.system.engine.cycles
        assert stage.says("first", "QuotaReserved") == stage.says("second", "QuotaReserved")
        first, second = (stage.condition(j, "QuotaReserved") for j in ("first", "second"))
        assert first["message"] == second["message"]

    run_scene(scene)


def test_members_of_a_rejected_class_keep_the_reason_of_a_stopped_queue() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("first", "6"), job("second", "6"))
        await stage.rest()
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "Hold"}})
        await stage.rest(2 * REFRESH_S)
        assert "False/Suspended" == stage.says("first", "QuotaReserved")
        assert "False/Suspended" == stage.says("second", "QuotaReserved")
        await stage.edit(CLUSTER_QUEUES, "cq", {"spec": {"stopPolicy": "None"}})
        await stage.rest()
        assert "False/ExceedsMaxQuota" == stage.says("first", "QuotaReserved")
        assert "False/ExceedsMaxQuota" == stage.says("second", "QuotaReserved")

    run_scene(scene)


def test_many_reports_are_written_without_events() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        # Each asks for something else, so that each is tried.
        await stage.api.apply(*(job(f"j{n}", str(5 + n)) for n in range(2 * MAX_WITH_EVENTS)))
        await stage.rest(30)
        assert all(stage.says(f"j{n}", "QuotaReserved") for n in range(2 * MAX_WITH_EVENTS))
        assert len(stage.events("Workload")) < 2 * MAX_WITH_EVENTS

    run_scene(scene)


def test_a_workload_that_waits_shows_what_it_asks_for() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.api.apply(job("first", "6"), job("second", "6"))
        await stage.rest()
        shown = [each["status"]["resourceRequests"] for each in _workloads(stage)]
        assert shown == 2 * [[{"name": "main", "resources": {"cpu": "6"}}]]

    run_scene(scene)


def test_readiness_of_a_waiting_workload_is_published_late_and_once() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish()
        stage.kubelet.ready = False
        await stage.api.apply(job("runs", "4"), job("waits", "4"))
        await stage.rest()
        assert "False/WaitForStart" == stage.says("runs", "PodsReady")
        assert "False/WaitForStart" == stage.says("waits", "PodsReady")
        versions = _versions(stage)
        await stage.rest()
        assert versions == _versions(stage)

    run_scene(scene)
