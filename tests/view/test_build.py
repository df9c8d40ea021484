# SPDX-License-Identifier: Apache-2.0
"""Rows of a plan: every pending workload has a reason."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from build import cohort, flavor, job, local_queue, namespace, queue
from kuota.engine.explanation import Advice, Limit, Shortfall, Suggestion
from kuota.engine.facts import EngineObject
from kuota.engine.model import Quota
from kuota.engine.policy import Policy
from kuota.engine.reasons import Reason, RejectionCause
from kuota.sim.simulation import Simulation
from kuota.view.build import Builder, Subject
from kuota.view.plan import Plan, PlannedState
from kuota.view.words import help_texts, lack_text, several

POLICIES = (Policy(), Policy(fair_sharing=()))
RECLAIM = ("Never", "LowerPriority", "Any")
WITHIN = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")


def plan_of(world: Simulation) -> Plan:
    subjects = [
        Subject(key=each.key, name=each.key.name, kind="Workload", workload=each)
        for each in world.engine.state.workloads.values()
    ]
    return Builder(world.engine, world.now, subjects).plan()


@st.composite
def worlds(draw: st.DrawFn) -> Simulation:
    world = Simulation(draw(st.sampled_from(POLICIES)))
    limits = st.none() | st.integers(0, 4)
    quotas = st.builds(Quota, st.integers(0, 4), limits, limits)
    values: list[EngineObject] = [namespace(), flavor(), cohort("top"), cohort("low", parent="top")]
    for name in ("a", "b", "c"):
        values.append(
            queue(
                name,
                gpu=draw(quotas),
                cohort=draw(st.sampled_from(["top", "low"])),
                reclaim=draw(st.sampled_from(RECLAIM)),
                within=draw(st.sampled_from(WITHIN)),
                strategy=draw(st.sampled_from(["StrictFIFO", "BestEffortFIFO"])),
            )
        )
        values.append(local_queue(name))
    for number in range(draw(st.integers(1, 7))):
        values.append(
            job(
                f"j{number}",
                queue=draw(st.sampled_from(["a", "b", "c", "nowhere"])),
                gpu=draw(st.integers(1, 6)),
                priority=draw(st.integers(0, 2)),
                created=float(number),
            )
        )
    for value in values:
        world.store(value)
    return world


@given(worlds())
@settings(max_examples=60)
def test_every_workload_that_waits_has_an_answer(world: Simulation) -> None:
    world.settle()
    for row in plan_of(world).workloads:
        if row.state is not PlannedState.ADMITTED:
            assert row.why is not None
            assert row.why.text
            assert row.why.help


@given(worlds())
@settings(max_examples=40)
def test_a_plan_adds_up(world: Simulation) -> None:
    """What queues use, borrow and lend is told consistently, and loans are what is borrowed."""
    world.settle()
    plan = plan_of(world)
    for each in plan.cluster_queues:
        (quota,) = each.quotas
        borrowed = sum(
            int(loan.amount)
            for row in plan.workloads
            if row.cluster_queue == each.name
            for loan in row.borrows
        )
        assert int(quota.borrowed) == borrowed
    lent = sum(int(each.quotas[0].lent) for each in plan.cluster_queues)
    assert lent == sum(int(each.quotas[0].borrowed) for each in plan.cluster_queues)


def test_names_in_a_row_are_cut_when_they_are_many() -> None:
    assert ["", "a", "a and b", "a, b and c", "a, b, c and 2 more"] == [
        several(names) for names in ("", "a", "ab", "abc", "abcde")
    ]


def test_amounts_that_are_needed_together_are_reported_together() -> None:
    both = [
        Suggestion(
            advice=Advice.WAIT_FOR_RELEASE,
            kind="Cohort",
            where="eng",
            flavor="spot",
            resource=resource,
            amount=amount,
        )
        for resource, amount in (("cpu", 1500), ("memory", 2 << 30))
    ]
    assert ["wait for 1500m cpu and 2Gi memory on spot to be released in cohort eng"] == help_texts(
        both
    )


def test_a_borrowing_limit_is_reported_with_its_owner() -> None:
    reason = Reason(
        cause=RejectionCause.INSUFFICIENT,
        flavor="spot",
        resource="gpu",
        requested=4,
        limit=1,
        missing=3,
    )
    lack = Shortfall(reason=reason, kind="ClusterQueue", where="a", limit=Limit.BORROWING)
    assert (
        "needs 4 gpu on spot, but the borrowingLimit of ClusterQueue a leaves only 1"
        == lack_text(lack)
    )
