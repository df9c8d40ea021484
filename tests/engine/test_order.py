# SPDX-License-Identifier: Apache-2.0
"""The order in which heads of different queues are settled."""

from __future__ import annotations

import pytest

from build import flavor, job, local_queue, namespace, queue, running
from kuota.api.gates import Gates
from kuota.engine.decisions import Admit, CycleResult, Preempt, Wait, WaitCause
from kuota.engine.engine import Engine
from kuota.engine.facts import EngineObject, ObjectStored
from kuota.engine.model import Workload
from kuota.engine.policy import Policy


@pytest.mark.parametrize("fair", [None, ()], ids=["classical", "fair"])
@pytest.mark.parametrize(("by_priority", "first"), [(True, "urgent"), (False, "early")])
def test_between_queues_priority_counts_only_while_its_gate_is_on(
    fair: tuple[str, ...] | None, by_priority: bool, first: str
) -> None:
    gates = Gates.of({"PrioritySortingWithinCohort": by_priority}, check=False)
    engine = Engine(Policy(gates=gates, fair_sharing=fair))
    for value in (
        namespace(),
        flavor(),
        queue("a", gpu=0, cohort="team"),
        queue("b", gpu=0, cohort="team"),
        queue("lender", gpu=1, cohort="team"),
        local_queue("a"),
        local_queue("b"),
        job("early", queue="a", gpu=1, created=1.0),
        job("urgent", queue="b", gpu=1, created=2.0, priority=1),
    ):
        engine.apply(ObjectStored(value=value), 10.0)

    outcome = engine.cycle(10.0)

    admitted = [each.workload.key.name for each in outcome.decisions if isinstance(each, Admit)]
    assert [first] == admitted


def first_cycle(*workloads: Workload, policy: Policy | None = None) -> CycleResult:
    """What is decided in a cohort with a quota of 3: 1 from "a", 2 from "b"."""
    engine = Engine(policy)
    known: tuple[EngineObject, ...] = (
        namespace(),
        flavor(),
        queue("a", gpu=1, cohort="team", reclaim="Any"),
        queue("b", gpu=2, cohort="team", reclaim="Any"),
        queue("borrower", gpu=0, cohort="team"),
        local_queue("a"),
        local_queue("b"),
        *workloads,
    )
    for value in known:
        engine.apply(ObjectStored(value=value), 10.0)
    return engine.cycle(10.0)


def borrowing(name: str, gpu: int) -> Workload:
    return running(job(name, queue="borrower", gpu=gpu), "borrower", 0.0)


def test_a_preemption_whose_victims_another_head_claimed_counts_as_skipped() -> None:
    recompute = "RecomputeAssignmentUponPreemptionTargetsOverlap"
    outcome = first_cycle(
        borrowing("victim", 3),
        job("first", queue="a", gpu=1, priority=1),
        job("second", queue="b", gpu=2),
        policy=Policy(gates=Gates.of({recompute: False}, check=False)),
    )

    first, second = outcome.decisions
    assert isinstance(first, Preempt)
    assert isinstance(second, Wait)
    assert WaitCause.OVERLAP is second.why
    assert {"b": 1} == outcome.skipped_preemptions


def test_a_preemption_that_leaves_too_little_room_after_another_head_counts_as_skipped() -> None:
    outcome = first_cycle(
        borrowing("victim", 1),
        borrowing("spared", 1),
        job("first", queue="a", gpu=1, priority=1),
        job("second", queue="b", gpu=2),
    )

    first, second = outcome.decisions
    assert isinstance(first, Admit)
    assert isinstance(second, Wait)
    assert WaitCause.LOST_RACE is second.why
    assert {"b": 1} == outcome.skipped_preemptions


def test_a_head_that_needed_no_preemption_is_not_counted_as_skipped() -> None:
    outcome = first_cycle(
        job("first", queue="a", gpu=3, priority=1),
        job("second", queue="b", gpu=3),
    )

    assert [Admit, Wait] == [type(each) for each in outcome.decisions]
    assert 0 == sum(outcome.skipped_preemptions.values())
