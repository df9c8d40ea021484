# SPDX-License-Identifier: Apache-2.0
"""Who borrows from whom."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from build import cohort, job, queue, running
from kuota.engine.facts import EngineObject
from kuota.engine.model import Quota
from kuota.engine.state import State
from kuota.engine.tree import available
from kuota.view.loans import lent_amounts, loans

Told = list[tuple[str, str, int]]


def state_of(*values: EngineObject) -> State:
    from kuota.engine.engine import Engine
    from kuota.engine.facts import ObjectStored

    engine = Engine()
    for value in values:
        engine.apply(ObjectStored(value=value), 0.0)
    return engine.state


def reported(*values: EngineObject) -> Told:
    """Borrowing workload, lender, amount."""
    return [(each.workload.name, each.lender, each.amount) for each in loans(state_of(*values))]


def test_within_nominal_quota_nothing_is_borrowed() -> None:
    assert [] == reported(queue("a", gpu=4, cohort="eng"), running(job("j", gpu=4), "a", 1.0))


def test_who_came_first_uses_the_nominal_quota() -> None:
    assert [("late", "b", 3)] == reported(
        queue("a", gpu=4, cohort="eng"),
        queue("b", gpu=4, cohort="eng"),
        running(job("late", gpu=3), "a", 2.0),
        running(job("early", gpu=4), "a", 1.0),
    )


def test_the_one_with_most_to_spare_lends_first() -> None:
    assert [("j", "big", 5), ("j", "small", 1)] == reported(
        queue("a", cohort="eng", gpu=0),
        queue("small", gpu=4, cohort="eng"),
        queue("big", gpu=5, cohort="eng"),
        running(job("j", gpu=6), "a", 1.0),
    )


def test_the_nearest_cohort_lends_first_and_its_own_quota_before_its_members() -> None:
    assert [("j", "low", 1), ("j", "mate", 1), ("j", "top", 1), ("j", "far", 1)] == reported(
        cohort("top", gpu=1),
        cohort("low", parent="top", gpu=1),
        queue("a", gpu=0, cohort="low"),
        queue("mate", gpu=1, cohort="low"),
        queue("far", gpu=9, cohort="top"),
        running(job("j", gpu=4), "a", 1.0),
    )


def test_a_lending_limit_is_respected() -> None:
    assert [("j", "open", 2), ("j", "tight", 1)] == reported(
        queue("a", gpu=0, cohort="eng"),
        queue("tight", gpu=Quota(9, lending_limit=1), cohort="eng"),
        queue("open", gpu=2, cohort="eng"),
        running(job("j", gpu=3), "a", 1.0),
    )


def test_usage_beyond_all_quota_has_no_lender() -> None:
    assert [("j", "", 2)] == reported(
        queue("a", gpu=2, cohort="eng"), running(job("j", gpu=4), "a", 1.0)
    )


def test_a_circle_of_cohorts_lends_nothing() -> None:
    assert [] == reported(
        cohort("x", parent="y"),
        cohort("y", parent="x"),
        queue("a", gpu=0, cohort="x"),
        running(job("j", gpu=1), "a", 1.0),
    )


limits = st.none() | st.integers(0, 6)


@given(st.data())
@settings(max_examples=60)
def test_loans_cover_what_is_borrowed_and_no_more_than_is_lent(data: st.DataObject) -> None:
    quota = st.builds(Quota, st.integers(0, 6), st.none(), limits)
    values: list[EngineObject] = [cohort("top"), cohort("low", parent="top")]
    names = ["a", "b", "c", "d"]
    for name in names:
        of = data.draw(st.sampled_from(["top", "low"]))
        values.append(queue(name, gpu=data.draw(quota), cohort=of))
    state = state_of(*values)
    for number in range(data.draw(st.integers(0, 6))):
        name = data.draw(st.sampled_from(names))
        node = state.queues[name].node
        column = next(iter(node.cells))
        amount = data.draw(st.integers(0, max(0, available(node.cell(column)))))
        if amount:
            state.record(running(job(f"j{number}", gpu=amount), name, float(number)))
    made = loans(state)
    assert all(each.lender for each in made)
    for name in names:
        node = state.queues[name].node
        cell = node.cell(next(iter(node.cells)))
        own = sum(each.amount for each in made if each.borrower == name)
        assert max(0, cell.used - cell.nominal) == own
        given_away = lent_amounts(made)["ClusterQueue", name, next(iter(node.cells))]
        assert given_away <= max(0, min(cell.lent, cell.nominal - cell.used))
