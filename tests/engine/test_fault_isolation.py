# SPDX-License-Identifier: Apache-2.0
"""A bug that occurs with one workload does not affect others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from build import column, flavor, job, local_queue, namespace, queue
from kuota.engine import cycle, explain
from kuota.engine.decisions import Admit, Wait, WaitCause
from kuota.engine.entry import Entry, Head
from kuota.engine.nominate import nominate
from kuota.engine.policy import FINAL_SHARE, Policy
from kuota.sim.simulation import Simulation

BAD = job("bad").key


class Bug(Exception):
    pass


def world(policy: Policy | None = None, strategy: str = "BestEffortFIFO") -> Simulation:
    made = Simulation(policy)
    for value in (namespace(), flavor()):
        made.store(value)
    for name in ("a", "b"):
        made.store(queue(name, gpu=4, cohort="all", strategy=strategy))
        made.store(local_queue(name))
    return made


def failing(step: Callable[..., Any], after: bool) -> Callable[..., Any]:
    """The same step, which raises for one workload, before or after it did its work."""

    def fails(what: Head | Entry, *more: Any) -> Any:
        found = step(what, *more) if after or what.workload.key != BAD else None
        if what.workload.key == BAD:
            raise Bug("told you so")
        return found

    return fails


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["nominate", "settle"])
@pytest.mark.parametrize("strategies", [None, (FINAL_SHARE,)])
def test_only_the_workload_that_a_step_fails_for_waits(
    monkeypatch: pytest.MonkeyPatch, step: str, after: bool, strategies: tuple[str, ...] | None
) -> None:
    it = world(Policy(fair_sharing=strategies))
    monkeypatch.setattr(cycle, step, failing(getattr(cycle, step), after))
    it.store(job("bad", queue="a", gpu=8, priority=9))
    it.store(job("good", queue="b", gpu=8))
    outcome = it.cycle()
    found = {each.workload.key.name: each for each in outcome.decisions}
    assert isinstance(found["good"], Admit)
    waits = found["bad"]
    assert isinstance(waits, Wait)
    assert (waits.why, waits.details) == (WaitCause.INTERNAL_ERROR, ("Bug: told you so",))
    assert [(each.key, type(each.error)) for each in outcome.failures] == [(BAD, Bug)]
    root = it.engine.state.queues["a"].node.root
    assert root.cell(column("gpu")).used == 8


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_it_is_tried_again_once_something_changes_and_not_before(
    monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    it = world(strategy=strategy)
    with monkeypatch.context() as patched:
        patched.setattr(cycle, "nominate", failing(nominate, False))
        it.store(job("bad", queue="a", gpu=1, priority=9))
        it.store(job("next", queue="a", gpu=1))
        story = it.settle()
        assert [each.workload.key.name for each in story.decisions] == ["bad", "next"]
        assert it.cycle().decisions == ()
    it.finish(job("next").key)
    assert [type(each) for each in it.settle().decisions] == [Admit]


def test_when_the_order_cannot_be_found_those_that_are_left_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def first_only(entries: list[Entry], snapshot: object) -> Any:
        yield entries[0]
        raise Bug("told you so")

    monkeypatch.setattr(cycle, "in_order", first_only)
    it = world()
    it.store(job("one", queue="a", gpu=1))
    it.store(job("two", queue="b", gpu=1))
    outcome = it.cycle()
    assert [type(each) for each in outcome.decisions] == [Admit, Wait]
    assert [each.key.name for each in outcome.failures] == ["two"]


def test_explaining_it_does_not_fail_either(monkeypatch: pytest.MonkeyPatch) -> None:
    it = world()
    it.store(job("bad", queue="a", gpu=9))
    it.settle()
    monkeypatch.setattr(explain, "nominate", failing(nominate, False))
    found = it.engine.explain(BAD, 0.0)
    assert found is not None
    assert [each.detail for each in found.suggestions] == ["Bug: told you so"]
