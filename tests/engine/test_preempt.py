# SPDX-License-Identifier: Apache-2.0
"""The interface of preemption: find victims, and whether any victim is possible."""

from __future__ import annotations

import pytest

from engine.stage import FAIR, GPU, Stage, preemptor
from kuota.engine.policy import Policy
from kuota.engine.preempt import OracleResult, PreemptionPossibility, targets

BOTH = pytest.mark.parametrize("policy", [Policy(), FAIR], ids=["classical", "fair"])


def possibilities(policy: Policy) -> Stage:
    stage = Stage(policy)
    stage.queue("a", 4, within="LowerPriority", reclaim="Any")
    stage.queue("b", 2)
    stage.run("low", "a", 2, priority=-1)
    stage.run("b1", "b", 4)
    return stage


@BOTH
def test_the_oracle_says_reclaim_when_all_victims_are_of_other_queues(policy: Policy) -> None:
    stage = possibilities(policy)
    assert stage.oracle("a", 2) == OracleResult(PreemptionPossibility.RECLAIM, 0)


@BOTH
def test_the_oracle_says_preempt_when_a_victim_is_of_the_same_queue(policy: Policy) -> None:
    stage = Stage(policy)
    stage.queue("a", 4, "", within="LowerPriority")
    stage.run("low", "a", 3, priority=-1)
    assert stage.oracle("a", 2) == OracleResult(PreemptionPossibility.PREEMPT, 0)


def test_one_own_victim_among_others_makes_it_preempt() -> None:
    assert possibilities(Policy()).oracle("a", 4) == OracleResult(PreemptionPossibility.PREEMPT, 0)


@BOTH
def test_the_oracle_reports_the_current_height_without_victims(policy: Policy) -> None:
    stage = possibilities(policy)
    assert stage.oracle("a", 7) == OracleResult(PreemptionPossibility.NO_CANDIDATES, 1)
    assert stage.oracle("b", 1) == OracleResult(PreemptionPossibility.NO_CANDIDATES, 1)


def test_the_oracle_reports_the_height_after_the_victims_are_gone() -> None:
    stage = Stage()
    stage.queue("a", 4, within="LowerPriority")
    stage.queue("b", 4)
    stage.run("low", "a", 6, priority=-1)
    stage.run("b1", "b", 2)
    assert stage.oracle("a", 4) == OracleResult(PreemptionPossibility.PREEMPT, 0)
    assert stage.oracle("a", 5) == OracleResult(PreemptionPossibility.PREEMPT, 1)


def test_possibilities_rank_from_worst_to_best_and_print_as_kueue_names_them() -> None:
    names = [str(each) for each in sorted(PreemptionPossibility, reverse=True)]
    assert names == ["Reclaim", "Preempt", "NoCandidates"]


@BOTH
@pytest.mark.parametrize("rule", ["", "Never"])
def test_unset_rules_preempt_nothing(policy: Policy, rule: str) -> None:
    stage = Stage(policy)
    stage.queue("a", 2, within=rule, reclaim=rule)
    stage.queue("b", 0)
    stage.run("low", "a", 1, priority=-1)
    stage.run("b1", "b", 1, priority=-1)
    assert stage.targets("a", 1, priority=1) == ()


@BOTH
def test_victims_are_added_until_the_pods_can_be_placed_too(policy: Policy) -> None:
    stage = Stage(policy)
    queue = stage.queue("a", 4, "", within="LowerPriority")
    nodes = [stage.run(name, "a", 1, priority=-1) for name in ("one", "two", "three")]

    def placed() -> bool:
        """Only the place of the oldest is good enough."""
        return nodes[0] not in stage.snapshot.running(queue)

    found = targets(preemptor(), queue, frozenset({GPU}), {GPU: 1}, stage.snapshot, placed)
    assert ["one"] == [target.running.key.name for target in found]
    assert targets(preemptor(), queue, frozenset({GPU}), {GPU: 1}, stage.snapshot, no_place) == ()


def no_place() -> bool:
    return False
