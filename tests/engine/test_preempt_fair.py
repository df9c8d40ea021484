# SPDX-License-Identifier: Apache-2.0
"""Victims under fair sharing."""

from __future__ import annotations

import pytest

from engine.stage import FAIR, GPU, Stage
from kuota.api.gates import Gate, Gates
from kuota.engine.amounts import FlavorResource
from kuota.engine.policy import FINAL_SHARE, INITIAL_SHARE, Policy

OWN = "InClusterQueue"
RECLAIMED = "InCohortReclamation"
EVENED = "InCohortFairSharing"

CPU = FlavorResource("default", "cpu")


def three(nominal: int, policy: Policy = FAIR) -> Stage:
    """Queues a, b and c of one cohort, each with the same quota; a may reclaim from anyone."""
    stage = Stage(policy)
    stage.queue("a", nominal, within="LowerPriority", reclaim="Any")
    stage.queue("b", nominal)
    stage.queue("c", nominal)
    return stage


def test_a_candidate_too_big_to_even_things_out_is_passed_over_for_a_smaller_one() -> None:
    stage = three(4)
    stage.run("a1", "a", 4)
    stage.run("b1", "b", 2)
    stage.run("b2", "b", 1)
    stage.run("b3", "b", 5)
    assert stage.victims("a", 1) == {"b2": EVENED}


def test_what_the_first_strategy_refused_may_pass_the_second() -> None:
    stage = three(3)
    stage.run("a1", "a", 3)
    stage.run("b1", "b", 3)
    stage.run("b2", "b", 3)
    assert stage.victims("a", 2) == {"b2": EVENED}
    assert stage.victims("a", 3) == {}


def test_with_one_strategy_configured_there_is_no_second_pass() -> None:
    stage = three(3, Policy(fair_sharing=(FINAL_SHARE,)))
    stage.run("a1", "a", 3)
    stage.run("b1", "b", 3)
    stage.run("b2", "b", 3)
    assert stage.victims("a", 2) == {}


def test_the_initial_share_alone_takes_the_first_candidate_however_big() -> None:
    stage = three(4, Policy(fair_sharing=(INITIAL_SHARE,)))
    stage.run("a1", "a", 4)
    stage.run("b1", "b", 2)
    stage.run("b2", "b", 1)
    stage.run("b3", "b", 5)
    assert stage.victims("a", 1) == {"b3": EVENED}


def test_branches_contend_at_their_first_common_cohort_and_not_queue_against_queue() -> None:
    stage = Stage(FAIR)
    stage.cohort("P", "R")
    stage.cohort("Q", "R")
    stage.queue("p1", 3, "P", reclaim="Any")
    stage.queue("p2", 3, "P")
    stage.queue("q1", 6, "Q")
    stage.run("x", "p2", 1)
    stage.run("y1", "q1", 3)
    stage.run("y2", "q1", 3)
    stage.run("y3", "q1", 5)
    assert stage.victims("p1", 4) == {"y3": EVENED}


def test_a_borrower_inside_a_cohort_that_does_not_borrow_is_safe_from_outsiders_only() -> None:
    stage = Stage(FAIR)
    stage.cohort("P", "R")
    stage.queue("p1", 3, "P", reclaim="Any")
    stage.queue("p2", 1, "P")
    stage.queue("outside", 2, "R", reclaim="Any")
    stage.run("x", "p2", 4)
    stage.run("o", "outside", 2)
    assert stage.victims("outside", 1) == {}
    assert stage.victims("p1", 1) == {"x": RECLAIMED}


def test_the_nominal_quota_is_reclaimed_whatever_the_shares() -> None:
    stage = Stage(FAIR)
    stage.queue("a", {GPU: 4, CPU: 0}, reclaim="Any")
    stage.queue("b", {GPU: 0, CPU: 9})
    stage.run("a1", "a", {CPU: 9})
    stage.run("b1", "b", {GPU: 4})
    assert stage.victims("a", {GPU: 1}) == {"b1": RECLAIMED}


def test_without_that_gate_the_shares_decide_about_the_nominal_quota_too() -> None:
    gates = Gates.of({Gate.FairSharingPreemptWithinNominal: False}, check=False)
    stage = Stage(Policy(gates=gates, fair_sharing=()))
    stage.queue("a", {GPU: 4, CPU: 0}, reclaim="Any")
    stage.queue("b", {GPU: 0, CPU: 9})
    stage.run("a1", "a", {CPU: 9})
    stage.run("b1", "b", {GPU: 4})
    assert stage.victims("a", {GPU: 1}) == {}


def test_a_queue_within_its_quota_offers_no_victims_whatever_its_weight() -> None:
    stage = Stage(FAIR)
    stage.queue("a", 2, reclaim="Any")
    stage.queue("b", 2, weight=0.0)
    stage.run("a1", "a", 2)
    stage.run("b1", "b", 2)
    assert stage.victims("a", 1) == {}


def test_a_borrower_of_weight_zero_loses_first() -> None:
    stage = Stage(FAIR)
    stage.queue("a", 4, reclaim="Any")
    stage.queue("b", 2)
    stage.queue("light", 2, weight=0.0)
    stage.run("l1", "light", 3)
    stage.run("b1", "b", 5)
    assert stage.victims("a", 1) == {"l1": RECLAIMED}


def test_of_two_borrowers_of_weight_zero_the_larger_plain_ratio_loses_first() -> None:
    stage = Stage(FAIR)
    stage.queue("a", 6, reclaim="Any")
    stage.queue("b", 1, weight=0.0)
    stage.queue("c", 1, weight=0.0)
    stage.run("b1", "b", 5)
    stage.run("c1", "c", 3)
    assert stage.victims("a", 1) == {"b1": RECLAIMED}


def test_a_preemptor_of_weight_zero_gets_its_nominal_quota_and_no_more() -> None:
    stage = Stage(FAIR)
    stage.queue("a", 2, reclaim="Any", weight=0.0)
    stage.queue("b", 2)
    stage.queue("c", 2)
    stage.run("b1", "b", 3)
    stage.run("b2", "b", 3)
    assert stage.victims("a", 2) == {"b2": RECLAIMED}
    assert stage.victims("a", 3) == {}


def test_the_second_pass_takes_one_workload_of_each_queue_at_most() -> None:
    stage = Stage(FAIR)
    stage.queue("a", 0, within="LowerPriority", reclaim="Any")
    stage.queue("b", 0)
    stage.queue("pool", 14)
    stage.run("low", "a", 2, priority=-1)
    for name in ("b1", "b2", "b3"):
        stage.run(name, "b", 4)
    # At first a stands at 9 against b's 12, and b would be left with 8: all three are refused.
    # Without `low` a stands at 7, which two of them would make room for.
    assert stage.victims("a", 7) == {}
    assert stage.victims("a", 6) == {"b3": EVENED, "low": OWN}


def test_own_workloads_go_under_the_rule_of_their_queue_when_it_is_the_most_loaded() -> None:
    stage = three(3)
    stage.run("low1", "a", 2, priority=-1)
    stage.run("low2", "a", 2, priority=-1)
    stage.run("b1", "b", 3)
    stage.run("c1", "c", 2)
    assert stage.victims("a", 2) == {"low2": OWN}


def test_a_queue_without_a_cohort_displaces_its_own_in_plain_order() -> None:
    stage = Stage(FAIR)
    stage.queue("a", 4, "", within="LowerPriority", reclaim="Any")
    stage.run("mid", "a", 2, priority=-1)
    stage.run("low", "a", 2, priority=-2)
    assert stage.victims("a", 2) == {"low": OWN}
    assert stage.victims("a", 4) == {"low": OWN, "mid": OWN}
    assert stage.victims("a", 5) == {}


def test_equally_loaded_queues_are_distinguished_by_their_first_candidates() -> None:
    stage = three(3)
    stage.run("c1", "c", 4)
    stage.run("b1", "b", 4, priority=1)
    assert stage.victims("a", 2) == {"c1": RECLAIMED}


def test_equally_loaded_cohorts_are_distinguished_by_name_and_come_before_queues() -> None:
    stage = Stage(FAIR)
    for name in ("Y", "X"):
        stage.cohort(name, "R")
        stage.queue(name.lower(), 0, name)
    stage.queue("a", 6, "R", reclaim="Any")
    stage.queue("b", 0, "R")
    for name in ("y", "x", "b"):
        stage.run(f"{name}1", name, 2)
    assert stage.victims("a", 2) == {"x1": RECLAIMED}
    assert stage.victims("a", 4) == {"x1": RECLAIMED, "y1": RECLAIMED}


def test_an_inactive_queue_takes_no_part() -> None:
    stage = three(3)
    stage.snapshot.queues["b"].active = False
    stage.run("b1", "b", 6)
    stage.run("c1", "c", 3)
    assert stage.victims("a", 1) == {}


@pytest.mark.parametrize("rule", ["", "Never"])
def test_without_a_reclaim_rule_the_cohort_is_left_alone(rule: str) -> None:
    stage = Stage(FAIR)
    stage.queue("a", 3, within="LowerPriority", reclaim=rule)
    stage.queue("b", 0)
    stage.run("b1", "b", 3)
    assert stage.victims("a", 1) == {}
