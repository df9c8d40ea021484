# SPDX-License-Identifier: Apache-2.0
"""Charges follow changes of queues, and the cost of a change is proportional to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from build import cohort, column, flavor, job, queue, running
from kuota.engine import state as state_module
from kuota.engine.activity import QueueObstacle, obstacles
from kuota.engine.model import AdmissionCheck, ClusterQueue, Workload
from kuota.engine.state import State


def put(state: State, workload: Workload) -> None:
    state.workloads[workload.key] = workload
    state.record(workload)


def used(state: State, name: str) -> int:
    return state.queues[name].node.cell(column("gpu")).used


class Unread(dict[Any, Any]):
    """Objects that may be looked up by name and never one after the other."""

    def values(self) -> Any:
        raise AssertionError("looks at every object")

    items = __iter__ = values


def test_a_workload_is_charged_once_its_queue_is_known() -> None:
    state = State()
    put(state, running(job("early", gpu=2), "q", 0.0))
    put(state, running(job("elsewhere", gpu=1), "r", 0.0))
    state.put_queue(queue("q", gpu=8))
    assert used(state, "q") == 2
    assert state.running(job("elsewhere").key) is None


def test_a_queue_that_comes_back_has_its_workloads_again() -> None:
    state = State()
    state.put_queue(queue("q", gpu=8))
    put(state, running(job("a", gpu=2), "q", 0.0))
    state.drop_queue("q")
    assert state.running(job("a").key) is None
    state.put_queue(queue("q", gpu=8))
    assert used(state, "q") == 2


def test_a_queue_that_is_inactive_does_not_count_in_the_height_of_its_cohorts() -> None:
    state = State()
    state.put_flavor(flavor())
    for name, parent in (("root", ""), ("left", "root"), ("right", "root"), ("deep", "right")):
        state.put_cohort(cohort(name, parent=parent))
    state.put_queue(queue("a", gpu=1, cohort="left"))
    deep = queue("b", gpu=1, cohort="deep")
    heights = []
    for policy in ("None", "Hold", "None"):
        state.put_queue(replace(deep, stop_policy=policy))
        heights.append([state.tree.cohorts[name].height for name in ("root", "right", "deep")])
    assert [[3, 2, 1], [2, 1, 0], [3, 2, 1]] == heights


def test_a_workload_admitted_again_before_the_first_admission_is_written_is_charged_once() -> None:
    """Its LocalQueue moves to another ClusterQueue while the write is under way."""
    state = State()
    for name in ("q", "r"):
        state.put_queue(queue(name, gpu=8))
        held = running(job("a", gpu=2), name, 0.0).reservation
        assert held is not None
        state.assume(job("a", gpu=2), held)
    assert (used(state, "q"), used(state, "r")) == (0, 2)
    state.drop_queue("q")
    assert used(state, "r") == 2


@pytest.mark.parametrize("over", ["finished", "gone", "moved"])
def test_a_workload_that_is_over_before_its_queue_comes_is_not_charged(over: str) -> None:
    state = State()
    put(state, running(job("early", gpu=2), "q", 0.0))
    if over == "finished":
        put(state, running(job("early", gpu=2, finished=True), "q", 0.0))
    elif over == "moved":
        put(state, running(job("early", gpu=2), "r", 0.0))
    else:
        del state.workloads[job("early").key]
        state.discharge(job("early").key)
    state.put_queue(queue("q", gpu=8))
    assert used(state, "q") == 0


def test_a_new_queue_looks_only_at_the_workloads_that_wait_for_it() -> None:
    state = State()
    for number in range(20):
        put(state, job(f"w{number}", gpu=1))
    put(state, running(job("early", gpu=2), "q", 0.0))
    state.workloads = Unread(state.workloads)
    state.put_queue(queue("q", gpu=8))
    assert used(state, "q") == 2


def test_only_queues_that_use_an_object_are_looked_at_when_it_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[str] = []

    def counted(spec: ClusterQueue, *known: Mapping[str, Any]) -> tuple[QueueObstacle, ...]:
        looked_at.append(spec.name)
        return obstacles(spec, *known)

    state = State()
    for number in range(20):
        state.put_queue(queue(f"q{number}", {f"f{number}/gpu": 1}, cohort=f"c{number}"))
    monkeypatch.setattr(state_module, "obstacles", counted)
    state.queues = Unread(state.queues)
    state.put_flavor(flavor("f3"))
    state.drop_flavor("f3")
    state.put_check(AdmissionCheck(name="none"))
    state.put_cohort(cohort("c4", parent="all"))
    state.drop_cohort("c4")
    assert looked_at == ["q3", "q3", "q4", "q4"]


def test_queues_of_cohorts_in_a_loop_are_inactive_until_the_loop_is_broken() -> None:
    state = State()
    state.put_flavor(flavor())
    state.put_cohort(cohort("a", parent="b"))
    state.put_queue(queue("q", gpu=1, cohort="a"))
    found = [state.queues["q"].active]
    state.put_cohort(cohort("b", parent="a"))
    found.append(state.queues["q"].active)
    state.drop_cohort("b")
    found.append(state.queues["q"].active)
    assert found == [True, False, True]


def test_a_queue_that_cannot_be_understood_is_inactive_and_keeps_its_quota() -> None:
    state = State()
    state.put_flavor(flavor())
    state.put_queue(queue("q", gpu=8))
    put(state, running(job("a", gpu=2), "q", 0.0))
    state.put_queue(ClusterQueue(name="q", faults=("nonsense",)))
    assert [str(each) for each in state.obstacles["q"]] == ["its spec is invalid (nonsense)"]
    assert not state.is_schedulable("q")
    cell = state.queues["q"].node.cell(column("gpu"))
    assert (cell.nominal, cell.used) == (8, 2)
    state.put_queue(queue("q", gpu=9))
    assert state.is_schedulable("q")
    assert state.queues["q"].node.cell(column("gpu")).nominal == 9


def test_a_new_queue_that_cannot_be_understood_has_no_quota() -> None:
    state = State()
    state.put_queue(ClusterQueue(name="q", faults=("nonsense",)))
    put(state, running(job("a", gpu=2), "q", 0.0))
    assert not state.is_schedulable("q")
    assert used(state, "q") == 2
