# SPDX-License-Identifier: Apache-2.0
"""Unexpected exceptions are counted, and lead to a rollback, a retry, or an exit."""

from __future__ import annotations

import asyncio

import pytest

from control.objects import job, local_queue, queue, workload_class
from control.stage import Stage, run_scene
from kuota.api import workload as api
from kuota.api.base import Key
from kuota.control.observer import attach_observer
from kuota.engine.decisions import CycleResult
from kuota.engine.engine import Engine
from kuota.engine.facts import Fact, ObjectStored
from kuota.engine.model import Workload
from kuota.failures import COUNTS, Fatal, cause
from kuota.kube.resources import CLUSTER_QUEUES, JOBS, WORKLOADS


def test_a_bug_while_an_admission_is_written_releases_its_quota() -> None:
    before = COUNTS["write"]

    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=1)
        await stage.api.apply(job("first"))
        await stage.rest()
        await stage.api.apply(job("odd"), job("plain"))
        await stage.rest()
        odd = stage.workload("odd")["metadata"]["name"]
        stage.api.barred[odd] = RuntimeError("a bug")
        await stage.kubelet.succeed("first")
        await stage.rest()
        assert not stage.suspended("plain"), "others go first"
        assert "InternalError" in stage.events("Workload", odd)
        assert COUNTS["write"] > before
        del stage.api.barred[odd]
        await stage.kubelet.succeed("plain")
        await stage.rest(60)
        assert not stage.suspended("odd")

    run_scene(scene)


def test_a_bug_while_an_admission_is_written_is_no_hot_loop() -> None:
    before = COUNTS["write"]

    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=1)
        await stage.api.apply(job("first"))
        await stage.rest()
        await stage.api.apply(job("odd"))
        await stage.rest()
        odd = stage.workload("odd")["metadata"]["name"]
        stage.api.barred[odd] = RuntimeError("a bug")
        await stage.kubelet.succeed("first")
        await stage.rest(120)
        usage = stage.get(CLUSTER_QUEUES, "cq")["status"]["flavorsReservation"]
        assert "0" == usage[0]["resources"][0]["total"]

    run_scene(scene)
    assert 3 < COUNTS["write"] - before < 20


def test_the_failures_of_a_deleted_workload_are_forgotten() -> None:
    async def scene(stage: Stage) -> None:
        await stage.furnish(cpu=1)
        await stage.api.apply(job("odd"))
        stage.api.refuse["status", WORKLOADS.kind] = [RuntimeError("a bug")]
        while not stage.system.driver._failed:
            await stage.clock.sleep(0.01)
        [odd] = stage.system.driver._failed
        await stage.api.delete(JOBS, Key(odd.namespace, "odd"))
        await stage.rest(60)
        assert {} == stage.system.driver._failed

    run_scene(scene)


def test_a_bug_while_an_eviction_is_written_leaves_the_victim_to_be_tried_again() -> None:
    async def scene(stage: Stage) -> None:
        preemption = {"withinClusterQueue": "LowerPriority"}
        await stage.furnish(cpu=1)
        await stage.api.apply(workload_class("high", 10), queue("cq", 1, preemption=preemption))
        await stage.api.apply(job("low"))
        await stage.rest()
        victim = stage.workload("low")["metadata"]["name"]
        stage.api.barred[victim] = RuntimeError("a bug")
        await stage.api.apply(job("high", labels={"kueue.x-k8s.io/priority-class": "high"}))
        await stage.rest(10)
        assert not stage.suspended("low")
        del stage.api.barred[victim]
        await stage.rest(60)
        assert (True, False) == (stage.suspended("low"), stage.suspended("high"))

    run_scene(scene)


def test_a_fact_that_the_engine_cannot_take_ends_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise the engine would go on deciding about a cluster that is not there."""
    takes = Engine.apply

    def apply(self: Engine, fact: Fact, now: float) -> None:
        if isinstance(fact, ObjectStored) and isinstance(fact.value, Workload):
            raise ValueError("a bug")
        takes(self, fact, now)

    async def scene(stage: Stage) -> None:
        await stage.furnish()
        await stage.rest()
        monkeypatch.setattr(Engine, "apply", apply)
        await stage.api.apply(job("a"))
        with pytest.raises(BaseExceptionGroup) as caught:
            await asyncio.wait_for(asyncio.shield(stage.running), 60)
        assert isinstance(cause(caught.value), Fatal)
        monkeypatch.undo()
        stage.start()
        await stage.rest()
        assert not stage.suspended("a")

    run_scene(scene)


class _Broken:
    """An observer with a bug in each of its methods."""

    def cycle(self, outcome: CycleResult, took_s: float) -> None:
        raise RuntimeError("a bug")

    def changed(self, old: api.Workload | None, new: api.Workload | None, now: float) -> None:
        raise RuntimeError("a bug")

    def removed(self, kind: str, key: Key) -> None:
        raise RuntimeError("a bug")

    def cohort_specified(self, name: str) -> None:
        raise RuntimeError("a bug")

    def ungated(self, workload: api.Workload, gate: str, took_s: float, *, in_group: bool) -> None:
        raise RuntimeError("a bug")

    def created(self, workload: api.Workload, job_kind: str, took_s: float) -> None:
        raise RuntimeError("a bug")


def test_a_fault_in_a_metrics_observer_is_counted_and_otherwise_harmless() -> None:
    before = COUNTS["metrics"]

    async def scene(stage: Stage) -> None:
        attach_observer(_Broken(), stage.system.driver, stage.system.cache, stage.clock)
        await stage.furnish()
        await stage.api.apply(local_queue("other"), job("a"))
        await stage.rest()
        assert not stage.suspended("a")

    run_scene(scene)
    assert COUNTS["metrics"] > before


def test_a_pass_that_keeps_failing_is_counted_and_reported_on_its_object() -> None:
    before = COUNTS["reconcile"]

    async def scene(stage: Stage) -> None:
        await stage.furnish()
        stage.api.refuse["create", "Workload"] = [RuntimeError("a bug") for _ in range(4)]
        await stage.api.apply(job("a"))
        await stage.rest()
        assert COUNTS["reconcile"] == before + 4
        assert "InternalError" in stage.events("Job", "a")
        assert not stage.suspended("a")

    run_scene(scene)
