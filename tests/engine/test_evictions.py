# SPDX-License-Identifier: Apache-2.0
"""Decisions do not depend on when evictions are stored."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from build import flavor, job, local_queue, namespace, queue, running
from kuota.engine.decisions import Preempt
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, EvictionFailed, ObjectStored
from kuota.engine.model import Eviction

SMALL = running(job("small", queue="borrower", gpu=1, priority=1), "borrower", 2.0)
LARGE = running(job("large", queue="borrower", gpu=3, priority=2), "borrower", 3.0)
BLOCKED = job("blocked", queue="borrower", gpu=2, priority=4)
NEXT = job("next", queue="borrower", gpu=1, priority=3)
RECLAIMS = job("reclaims", queue="lender", gpu=2, priority=3)


def reclaiming() -> Engine:
    """An engine that has just decided to evict the larger of two workloads."""
    engine = Engine()
    queues = (
        queue("borrower", gpu=1, cohort="all", within="LowerPriority", reclaim="Any"),
        queue("lender", gpu=3, cohort="all", reclaim="LowerPriority"),
    )
    local_queues = [local_queue(each.name) for each in queues]
    pending = (BLOCKED, NEXT, RECLAIMS)
    objects: list[EngineObject] = [namespace(), flavor(), *queues, *local_queues]
    for each in (*objects, SMALL, LARGE, *pending):
        engine.apply(ObjectStored(value=each), 4.0)
    assert {"large"} == new_victims(engine, cycles=1)
    return engine


def new_victims(engine: Engine, cycles: int = 3) -> set[str]:
    """Run cycles, and return the workloads that they evict."""
    return {
        victim.workload.key.name
        for _ in range(cycles)
        for decision in engine.cycle(4.0).decisions
        if isinstance(decision, Preempt)
        for victim in decision.victims
        if not victim.leaving
    }


@pytest.mark.parametrize("stored", [True, False])
def test_the_next_preemptor_prefers_a_victim_before_its_eviction_is_stored(stored: bool) -> None:
    engine = reclaiming()
    if stored:
        evicted = replace(LARGE, evicted=Eviction(reason="Preempted", at=4.0))
        engine.apply(ObjectStored(value=evicted), 4.0)
    assert set() == new_victims(engine)


def test_an_update_without_the_eviction_does_not_revoke_it() -> None:
    engine = reclaiming()
    engine.apply(ObjectStored(value=replace(LARGE, pods_ready=True)), 4.0)
    assert set() == new_victims(engine)


def test_an_eviction_that_failed_is_decided_again() -> None:
    engine = reclaiming()
    engine.apply(EvictionFailed(key=LARGE.key), 4.0)
    assert "large" in new_victims(engine, cycles=1)
