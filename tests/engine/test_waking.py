# SPDX-License-Identifier: Apache-2.0
"""When inadmissible workloads are retried after changes of queues, cohorts or flavors."""

from __future__ import annotations

from msgspec.structs import replace

from build import cohort, flavor, job, local_queue, namespace, queue, running
from kuota.engine.decisions import Admit
from kuota.engine.engine import Engine
from kuota.engine.facts import AdmissionFailed, EngineObject, ObjectStored
from kuota.engine.model import Eviction


def engine_with(*values: EngineObject, flush_batch_s: float = 1.0) -> Engine:
    """An engine in which a job of nine waits in vain for a queue of four."""
    engine = Engine(flush_batch_s=flush_batch_s)
    big = job("big", queue="q", gpu=9)
    for each in (namespace(), flavor(), *values, queue("q", gpu=4, cohort="all"), local_queue("q")):
        engine.apply(ObjectStored(value=each), 0.0)
    engine.apply(ObjectStored(value=big), 0.0)
    assert [] == [each for each in tried(engine, 0.0) if each != "big"]
    return engine


def tried(engine: Engine, now: float) -> list[str]:
    """Who has a turn at that time, by name."""
    return [each.workload.key.name for each in engine.cycle(now).decisions]


def edit(engine: Engine, gpu: int, now: float) -> None:
    engine.apply(ObjectStored(value=queue("q", gpu=gpu, cohort="all")), now)


def test_the_first_change_wakes_at_once_and_those_of_the_next_second_together() -> None:
    engine = engine_with()
    edit(engine, 5, 10.0)
    assert ["big"] == tried(engine, 10.0)
    for step in range(4):
        edit(engine, 6 + step, 10.1 + step / 10)
        assert [] == tried(engine, 10.1 + step / 10)
    assert 11.0 == engine.next_wakeup()
    (decision,) = engine.cycle(11.0).decisions
    assert isinstance(decision, Admit)
    assert engine.next_wakeup() is None


def test_after_a_quiet_second_a_change_wakes_at_once_again() -> None:
    engine = engine_with()
    edit(engine, 5, 10.0)
    assert ["big"] == tried(engine, 10.0)
    edit(engine, 6, 11.5)
    assert ["big"] == tried(engine, 11.5)


def test_changes_that_requeue_nothing_leave_no_fitting_workload_waiting() -> None:
    engine = engine_with()
    engine.apply(ObjectStored(value=queue("other", gpu=1)), 10.0)
    assert [] == tried(engine, 10.0)
    edit(engine, 5, 10.1)
    assert ["big"] == tried(engine, 10.1)


def test_released_quota_is_offered_at_once_whatever_was_changed_before() -> None:
    engine = engine_with()
    small = job("small", queue="q", gpu=4)
    engine.apply(ObjectStored(value=small), 9.0)
    assert ["small"] == tried(engine, 9.0)
    engine.apply(ObjectStored(value=job("next", queue="q", gpu=4)), 9.5)
    assert ["next"] == tried(engine, 9.5)
    edit(engine, 5, 10.0)
    assert {"big", "next"} == {*tried(engine, 10.0), *tried(engine, 10.0)}
    engine.apply(ObjectStored(value=replace(running(small, "q", 9.0), finished=True)), 10.1)
    assert ["next"] == tried(engine, 10.1)


def test_an_unchanged_cohort_requeues_nothing() -> None:
    engine = engine_with(cohort("all", gpu=1))
    engine.apply(ObjectStored(value=cohort("all", gpu=1)), 10.0)
    assert [] == tried(engine, 10.0)
    engine.apply(ObjectStored(value=cohort("all", gpu=2)), 11.0)
    assert ["big"] == tried(engine, 11.0)


def test_one_whose_admission_failed_is_tried_again_in_time_though_nothing_happens() -> None:
    engine = engine_with()
    small = job("small", queue="q", gpu=1)
    engine.apply(ObjectStored(value=small), 10.0)
    assert ["small"] == tried(engine, 10.0)
    engine.apply(AdmissionFailed(key=small.key, retry_at=15.0), 11.0)
    assert "small" not in tried(engine, 11.0)
    assert 15.0 == engine.next_wakeup()
    assert ["small"] == tried(engine, 15.0)
    assert engine.next_wakeup() is None


def test_one_that_was_admitted_meanwhile_is_not_tried_again() -> None:
    engine = engine_with()
    small = job("small", queue="q", gpu=1)
    engine.apply(ObjectStored(value=small), 10.0)
    assert ["small"] == tried(engine, 10.0)
    engine.apply(AdmissionFailed(key=small.key, retry_at=15.0), 11.0)
    engine.apply(ObjectStored(value=replace(small, generation=2)), 12.0)
    assert ["small"] == tried(engine, 12.0)
    assert [] == tried(engine, 15.0)


def test_a_head_that_became_a_preemptor_has_another_turn_before_its_tree_is_quiet() -> None:
    """Its second turn may differ: preemptors are settled before all others."""
    engine = Engine()
    victim = running(job("victim", queue="b", gpu=4), "b", 0.0)
    for value in (
        namespace(),
        flavor(),
        queue("a", gpu=4, cohort="all", reclaim="Any"),
        queue("b", gpu=0, cohort="all"),
        local_queue("a"),
        replace(victim, evicted=Eviction(reason="Preempted", at=1.0)),
        job("urgent", queue="a", gpu=4),
    ):
        engine.apply(ObjectStored(value=value), 2.0)

    assert [["urgent"], ["urgent"], []] == [tried(engine, 2.0) for _ in range(3)]


def test_the_confirmation_of_an_admission_requeues_nothing() -> None:
    engine = Engine()
    admitted = job("admitted", queue="a", gpu=1)
    strict = queue("b", gpu=1, cohort="all", strategy="StrictFIFO")
    for value in (
        namespace(),
        flavor(),
        queue("a", gpu=1, cohort="all"),
        local_queue("a"),
        strict,
        local_queue("b"),
        admitted,
        job("blocked", queue="b", gpu=2),
    ):
        engine.apply(ObjectStored(value=value), 2.5)
    assert ["admitted", "blocked"] == sorted(tried(engine, 2.5))
    assert [["blocked"], []] == [tried(engine, 2.5), tried(engine, 2.5)]
    engine.apply(ObjectStored(value=running(admitted, "a", 2.0)), 9.0)
    assert [] == tried(engine, 9.0)
    engine.apply(ObjectStored(value=running(admitted, "a", 2.0)), 9.0)
    assert [] == tried(engine, 9.0)
    engine.apply(ObjectStored(value=running(admitted, "a", 3.0)), 9.0)
    assert ["blocked"] == tried(engine, 9.0)
