# SPDX-License-Identifier: Apache-2.0
"""The driver is idle without work, and survives rejected writes and invalid objects."""

from __future__ import annotations

from typing import Any

import pytest

from control.objects import flavor, job, local_queue, priority_class, queue
from control.stage import Stage, run_scene
from kuota.api.base import Key
from kuota.kube.errors import Conflict, Invalid, ServerError
from kuota.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, key_of


async def _setting(stage: Stage, cpu: int = 4, **spec: Any) -> None:
    await stage.api.apply(flavor(), queue("cq", cpu, **spec), local_queue())


def test_a_blocked_strict_queue_does_not_spin() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, queueingStrategy="StrictFIFO")
        await stage.api.apply(job("runs", "4"))
        await stage.rest()
        await stage.api.apply(job("big", "4"))
        await stage.rest()
        await stage.api.apply(job("small", "1"))
        await stage.rest(10)
        writes, cycles = stage.api.writes, stage.system.engine.cycles
        await stage.rest(600)
        assert writes == stage.api.writes
        assert cycles == stage.system.engine.cycles
        await stage.kubelet.succeed("runs")
        await stage.rest()
        assert not stage.suspended("big")
        assert stage.suspended("small")

    run_scene(scene)


def test_a_preemptor_does_not_spin_while_its_victims_leave() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, preemption={"withinClusterQueue": "LowerOrNewerEqualPriority"})
        stage.kubelet.grace_s = 300
        await stage.api.apply(job("runs", "4"))
        await stage.rest()
        made = job("waits", "4", pod={"priorityClassName": "p"})
        await stage.api.apply(priority_class("p", 9), made)
        await stage.rest(60)
        cycles = stage.system.engine.cycles
        await stage.rest(100)
        assert cycles == stage.system.engine.cycles

    run_scene(scene)


def test_everyone_of_a_class_that_does_not_fit_says_why() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("runs", "3"))
        await stage.rest()
        await stage.api.apply(*(job(f"j{number}", "2") for number in range(5)))
        await stage.rest()
        said = {stage.says(f"j{number}", "QuotaReserved") for number in range(5)}
        assert {"False/WaitingForQuota"} == said

    run_scene(scene)


def test_our_own_writes_count_before_the_watch_delivers_them() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.rest()
        stage.api.lag_s = 10
        await stage.api.apply(job("a"))
        # Only the Job itself has to come through the watch, not the Workload nor its admission.
        await stage.rest(11)
        assert not stage.suspended("a")
        await stage.rest(60)
        assert 1 == len(stage.workloads("a"))
        assert "True/Admitted" == stage.says("a", "Admitted")

    run_scene(scene)


def test_a_conflict_is_answered_with_the_newest_object() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        conflict = Conflict(409, "Conflict", "somebody was faster")
        stage.api.refuse["status", "Workload"] = [conflict, conflict]
        await stage.api.apply(job("a"))
        await stage.rest(10)
        assert not stage.suspended("a")

    run_scene(scene)


def test_a_write_that_fails_is_tried_again_later() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        down = [ServerError(500, "InternalError", "out of order") for _ in range(20)]
        stage.api.refuse["status", "Workload"] = list(down)
        stage.api.refuse["patch", "Job"] = list(down)
        await stage.api.apply(job("a"), job("b"))
        await stage.rest(600)
        assert not stage.suspended("a")
        assert not stage.suspended("b")

    run_scene(scene)


def test_one_whose_admission_is_refused_lets_others_go_first_and_is_reported() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=1)
        await stage.api.apply(job("first"))
        await stage.rest()
        await stage.api.apply(job("odd"), job("plain"))
        await stage.rest()
        odd = stage.workload("odd")["metadata"]["name"]
        stage.api.barred[odd] = Invalid(422, "Invalid", "no such thing")
        await stage.kubelet.succeed("first")
        await stage.rest()
        assert not stage.suspended("plain")
        assert "AdmissionRefused" in stage.events("Workload", odd)
        del stage.api.barred[odd]
        await stage.kubelet.succeed("plain")
        await stage.rest(60)
        assert not stage.suspended("odd")

    run_scene(scene)


def test_an_unvalidated_object_gets_an_event_and_does_not_affect_others() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        bad = queue("bad")
        quota = bad["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]
        await stage.api.apply(bad)
        quota["nominalQuota"] = "many"
        stage.api.store_unvalidated(CLUSTER_QUEUES, Key("", "bad"), {"spec": bad["spec"]})
        await stage.api.apply(job("a"))
        await stage.rest()
        assert not stage.suspended("a")
        assert "Unreadable" in stage.events("ClusterQueue", "bad")

    run_scene(scene)


def test_status_is_written_at_most_once_a_second_and_never_in_vain() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, 100)
        for number in range(20):
            await stage.api.apply(job(f"j{number}"))
        await stage.rest(10)
        status = stage.get(CLUSTER_QUEUES, "cq")["status"]
        assert (20, 0) == (status["admittedWorkloads"], status["pendingWorkloads"])
        assert 20 == stage.get(LOCAL_QUEUES, "main")["status"]["admittedWorkloads"]
        assert stage.api.versions(CLUSTER_QUEUES, "cq") <= 5
        writes = stage.api.writes
        await stage.rest(120)
        assert writes == stage.api.writes

    run_scene(scene)


def test_a_system_that_starts_again_takes_up_what_it_finds() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage)
        await stage.api.apply(job("a", "4"), job("b", "4"))
        await stage.rest()
        await stage.restart()
        await stage.rest()
        running = [not stage.suspended(name) for name in ("a", "b")]
        assert [False, True] == sorted(running)
        await stage.kubelet.succeed("a" if running[0] else "b")
        await stage.rest()
        assert not stage.suspended("b" if running[0] else "a")

    run_scene(scene)


@pytest.mark.parametrize("stuck", ["a", "b"])
def test_a_victim_that_cannot_be_written_does_not_protect_the_others(stuck: str) -> None:
    other = "b" if stuck == "a" else "a"

    async def scene(stage: Stage) -> None:
        await _setting(stage, 2, preemption={"withinClusterQueue": "LowerPriority"})
        await stage.api.apply(priority_class("p", 9), job("a"), job("b"))
        await stage.rest()
        name = stage.workload(stuck)["metadata"]["name"]
        stage.api.barred[name] = ServerError(500, "InternalError", "no")
        await stage.api.apply(job("urgent", "2", pod={"priorityClassName": "p"}))
        await stage.rest()
        assert "True/InClusterQueue" == stage.says(other, "Preempted")
        assert "" == stage.says(stuck, "Preempted")
        del stage.api.barred[name]
        await stage.rest(60)
        assert not stage.suspended("urgent")

    run_scene(scene)


def test_a_preemption_that_fails_is_tried_again_ever_more_seldom() -> None:
    async def scene(stage: Stage) -> None:
        await _setting(stage, 1, preemption={"withinClusterQueue": "LowerPriority"})
        await stage.api.apply(priority_class("p", 9), job("a"))
        await stage.rest()
        refusals = _Refusals()
        stage.api.barred = refusals
        refusals[stage.workload("a")["metadata"]["name"]] = ServerError(500, "InternalError", "no")
        await stage.api.apply(job("urgent", "1", pod={"priorityClassName": "p"}))
        await stage.rest(60)
        assert 5 < refusals.met < 20

    run_scene(scene)


class _Refusals(dict[str, Exception]):
    """What is barred; counts how often somebody was refused."""

    met = 0

    def __getitem__(self, name: str) -> Exception:
        self.met += 1
        return super().__getitem__(name)


def test_an_admission_is_written_with_the_time_at_which_it_was_decided() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=1)
        await stage.api.apply(job("first"), job("second"))
        await stage.rest()
        waits = "second" if stage.suspended("second") else "first"
        key = key_of(stage.workload(waits))
        async with stage.system.sender.locks.hold(key):
            await stage.kubelet.succeed("first" if waits == "second" else "second")
            await stage.rest()
            running = stage.system.engine.state.running(key)
            assert running is not None
            assert running.assumed
            decided_before = stage.system.driver.now()
            await stage.rest(10)
        await stage.rest()
        confirmed = stage.system.engine.state.running(key)
        assert confirmed is not None
        assert not confirmed.assumed
        assert confirmed.reserved_at is not None
        assert confirmed.reserved_at <= decided_before

    run_scene(scene)
