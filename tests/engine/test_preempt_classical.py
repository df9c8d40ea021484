# SPDX-License-Identifier: Apache-2.0
"""Victims without fair sharing."""

from __future__ import annotations

import pytest

from engine.stage import GPU, Stage
from kuota.engine.amounts import FlavorResource
from kuota.engine.charged import ChargedWorkload
from kuota.engine.model import Quota, Reservation, Workload
from kuota.engine.policy import AdmissionFairSharing, Policy

OWN = "InClusterQueue"
RECLAIMED = "InCohortReclamation"
WHILE_BORROWING = "InCohortReclaimWhileBorrowing"

CPU = FlavorResource("default", "cpu")


def test_the_lowest_priority_survives_when_a_later_victim_suffices() -> None:
    stage = Stage()
    stage.queue("a", 6, "", within="LowerPriority")
    stage.run("low", "a", 2, priority=-1)
    stage.run("old", "a", 1)
    stage.run("mid", "a", 3)
    assert stage.victims("a", 3, priority=1) == {"mid": OWN}


def test_reclaim_stops_where_a_borrower_is_back_within_its_quota() -> None:
    stage = Stage()
    stage.queue("a", 6, reclaim="Any")
    stage.queue("b", 2)
    stage.queue("c", 2)
    stage.run("c2", "c", 3)
    stage.run("c1", "c", 3)
    stage.run("b2", "b", 1)
    stage.run("b1", "b", 3)
    assert stage.victims("a", 4) == {"b1": RECLAIMED, "c1": RECLAIMED}


def test_without_borrowing_own_and_cohort_victims_may_be_mixed() -> None:
    stage = Stage()
    stage.queue("a", 6, within="LowerPriority", reclaim="Any")
    stage.queue("b", 4)
    stage.run("a1", "a", 3, priority=-1)
    stage.run("b1", "b", 4)
    stage.run("b2", "b", 3)
    assert stage.victims("a", 5) == {"b2": RECLAIMED, "a1": OWN}


def test_priority_candidates_are_preferred_over_evicting_more_of_the_own_queue() -> None:
    """The attempt without borrowing comes first when nobody outside uses the preemptor's quota."""
    stage = Stage()
    stage.queue("a", 4, within="LowerPriority", reclaim="Any")
    stage.queue("b", 4)
    stage.run("a1", "a", 1, priority=-1)
    stage.run("a2", "a", 1, priority=-1)
    stage.run("b1", "b", 4)
    stage.run("b2", "b", 1)
    assert stage.victims("a", 3) == {"b2": RECLAIMED, "a2": OWN}


def test_quota_of_a_surrounding_cohort_is_reclaimed_before_the_own_queue_gives_way() -> None:
    """The attempt with borrowing comes first when a subtree around the preemptor could hold it."""
    stage = Stage()
    stage.cohort("root")
    stage.cohort("team", "root")
    stage.queue("a", 4, "team", within="LowerPriority", reclaim="Any")
    stage.queue("idle", 4, "team")
    stage.queue("b", 4, "root")
    stage.run("a1", "a", 2, priority=-1)
    stage.run("b1", "b", 6)
    stage.run("b2", "b", 4)
    assert stage.victims("a", 4) == {"b2": RECLAIMED}


@pytest.mark.parametrize(
    ("request_", "threshold", "expected"),
    [
        (5, 2, {"b1": RECLAIMED}),
        (6, 2, {}),
        (6, 3, {"b1": WHILE_BORROWING}),
        (6, None, {"b1": WHILE_BORROWING}),
    ],
)
def test_a_victim_at_the_threshold_yields_to_a_borrower_and_one_above_does_not(
    request_: int, threshold: int | None, expected: dict[str, str]
) -> None:
    stage = Stage()
    stage.queue("a", 6, reclaim="LowerPriority", borrow=True, threshold=threshold)
    stage.queue("b", 2)
    stage.run("a1", "a", 1)
    stage.run("b1", "b", 7, priority=3)
    assert stage.victims("a", request_, priority=5) == expected


def test_equal_priority_is_never_taken_while_borrowing_but_reclaimed_without() -> None:
    stage = Stage()
    stage.queue("a", 6, reclaim="Any", borrow=True)
    stage.queue("b", 2)
    stage.run("a1", "a", 1)
    stage.run("b1", "b", 7)
    assert stage.victims("a", 6) == {}
    assert stage.victims("a", 5) == {"b1": RECLAIMED}


def test_what_a_subtree_around_the_preemptor_could_hold_is_reclaimed_from_outside_it() -> None:
    stage = Stage()
    stage.cohort("R")
    stage.cohort("L", "R", quota=4)
    stage.cohort("RR", "R", quota=2)
    stage.queue("l1", 0, "L", reclaim="Any")
    stage.queue("l2", 0, "L")
    stage.queue("r1", 0, "RR")
    stage.run("x", "l2", 2, priority=9)
    stage.run("y", "r1", 4, priority=9)
    assert stage.victims("l1", 2) == {"y": RECLAIMED}


def test_a_lower_priority_rule_limits_what_is_reclaimed_from_outside_too() -> None:
    stage = Stage()
    stage.queue("a", 4, reclaim="LowerPriority")
    stage.queue("b", 0)
    stage.run("equal", "b", 2)
    stage.run("lower", "b", 2, priority=-1)
    assert stage.victims("a", 2) == {"lower": RECLAIMED}
    assert stage.victims("a", 4) == {}


def test_a_subtree_within_its_quota_shields_the_borrowers_in_it() -> None:
    stage = Stage()
    stage.cohort("R", quota=2)
    stage.cohort("protection", "R", quota=2)
    stage.queue("a", 4, "R", reclaim="Any")
    stage.queue("b", 0, "R")
    stage.queue("inside", 0, "protection")
    stage.run("b1", "b", 4)
    stage.run("b2", "b", 2)
    stage.run("safe", "inside", 2)
    assert stage.victims("a", 3) == {"b1": RECLAIMED}


def test_a_shield_may_appear_while_victims_are_taken() -> None:
    stage = Stage()
    stage.cohort("R")
    stage.cohort("M", "R", quota=3)
    stage.queue("a", 4, "R", reclaim="Any")
    stage.queue("b", 0, "R")
    stage.queue("inside", 0, "M")
    stage.run("b1", "b", 2)
    stage.run("m1", "inside", 3)
    stage.run("m2", "inside", 2)
    assert stage.victims("a", 4) == {"m2": RECLAIMED, "b1": RECLAIMED}
    assert stage.victims("a", 5) == {}


def test_a_queue_that_borrows_only_other_resources_offers_no_victims() -> None:
    stage = Stage()
    stage.queue("a", {GPU: 4, CPU: 4}, reclaim="Any")
    stage.queue("b", {GPU: 2, CPU: 0})
    stage.queue("c", {GPU: 0, CPU: 2})
    stage.run("b1", "b", {GPU: 1, CPU: 3})
    stage.run("c1", "c", {GPU: 3, CPU: 1})
    stage.run("a1", "a", {GPU: 2})
    assert stage.victims("a", {GPU: 2}) == {"c1": RECLAIMED}
    assert stage.victims("a", {GPU: 2, CPU: 4}) == {"c1": RECLAIMED, "b1": RECLAIMED}


def test_a_candidate_that_uses_other_flavors_only_is_never_a_victim() -> None:
    stage = Stage()
    stage.queue("a", {GPU: 4, CPU: 4}, "", within="LowerPriority")
    stage.run("cpu", "a", {CPU: 4}, priority=-9)
    stage.run("gpu", "a", {GPU: 4}, priority=-1)
    asked = {GPU: 1, CPU: 0}
    assert stage.victims("a", asked, needed=frozenset({GPU})) == {"gpu": OWN}


def test_among_equal_priorities_the_newer_in_queue_time_yields() -> None:
    stage = Stage()
    stage.queue("a", 6, "", within="LowerOrNewerEqualPriority")
    stage.run("older", "a", 2, created=5)
    stage.run("same", "a", 2, created=10)
    stage.run("newer", "a", 2, created=15)
    assert stage.victims("a", 2, created=10) == {"newer": OWN}
    assert stage.victims("a", 2, created=15) == {}


def test_of_equal_candidates_the_latest_reservation_goes_and_then_the_smaller_uid() -> None:
    stage = Stage()
    stage.queue("a", 6, "", within="LowerPriority")
    stage.run("z-early", "a", 2, since=1)
    stage.run("y-late", "a", 2, since=2)
    stage.run("x-late", "a", 2, since=2)
    assert stage.victims("a", 2, priority=1) == {"x-late": OWN}


def test_those_already_evicted_go_first_whatever_their_rank() -> None:
    stage = Stage()
    stage.queue("a", 4, within="LowerPriority", reclaim="Any")
    stage.queue("b", 0)
    stage.run("leaving", "a", 2, priority=4, evicted=True)
    stage.run("other", "b", 2)
    assert stage.victims("a", 2, priority=5) == {"leaving": OWN}


def test_at_nominal_with_borrowing_off_only_own_workloads_go() -> None:
    stage = Stage()
    stage.queue("a", 2, within="LowerPriority", reclaim="Any")
    stage.queue("b", 2)
    stage.queue("c", 2)
    stage.run("a1", "a", 2, priority=-1)
    stage.run("b1", "b", 4, priority=-5)
    assert stage.victims("a", 2) == {"a1": OWN}
    assert stage.victims("a", 3) == {}


def test_strictly_under_nominal_the_attempt_without_borrowing_comes_first() -> None:
    stage = Stage()
    stage.queue("a", 4, within="LowerPriority", reclaim="Any")
    stage.queue("b", 4)
    stage.run("a1", "a", 1, priority=-1)
    stage.run("a2", "a", 2, priority=-2)
    stage.run("b1", "b", 5)
    assert stage.victims("a", 2) == {"a2": OWN}


def test_resources_that_could_be_freed_one_by_one_may_not_be_freed_together() -> None:
    stage = Stage()
    stage.queue("a", {GPU: 4, CPU: 4}, reclaim="Any")
    stage.queue("b", {GPU: 0, CPU: 4})
    stage.run("a1", "a", {CPU: 4})
    stage.run("b1", "b", {GPU: 4, CPU: 1})
    assert stage.victims("a", {GPU: 4}) == {"b1": RECLAIMED}
    assert stage.victims("a", {GPU: 4, CPU: 5}) == {}


def test_a_borrowing_limit_holds_for_the_preemptor_as_well() -> None:
    stage = Stage()
    stage.queue("a", Quota(2, borrowing_limit=1), reclaim="LowerPriority", borrow=True)
    stage.queue("b", 4)
    stage.run("b1", "b", 6)
    assert stage.victims("a", 3, priority=1) == {"b1": WHILE_BORROWING}
    assert stage.victims("a", 4, priority=1) == {}


def test_an_inactive_queue_offers_no_victims() -> None:
    stage = Stage()
    stage.queue("a", 4, reclaim="Any")
    stage.queue("b", 0).active = False
    stage.run("b1", "b", 4)
    assert stage.victims("a", 4) == {}


def test_who_is_gone_already_is_no_candidate() -> None:
    stage = Stage()
    stage.queue("a", 4, "", within="LowerPriority")
    gone = stage.run("first", "a", 2)
    stage.run("second", "a", 2, priority=1)
    with stage.snapshot.trial():
        stage.snapshot.remove(gone)
        assert stage.victims("a", 4, priority=2) == {"second": OWN}
    assert stage.victims("a", 2, priority=2) == {"first": OWN}


def test_the_slice_that_is_replaced_is_no_victim_of_its_replacement() -> None:
    stage = Stage()
    stage.queue("a", 4, "", within="LowerPriority")
    old = stage.run("old", "a", 2, priority=-9)
    stage.run("other", "a", 2, priority=-1)
    grown = Workload(key=old.key, replaces=old.key)
    found = stage.targets("a", 1, workload=grown)
    assert ["other"] == [each.running.key.name for each in found]


def history(use: dict[str, float]) -> Stage:
    stage = Stage(Policy(admission_fair_sharing=AdmissionFairSharing()))
    stage.snapshot.local_queue_usage = lambda key: use[key.name]
    return stage


def test_with_past_use_counted_the_heavier_local_queue_loses_before_priority_counts() -> None:
    stage = history({"heavy": 5.0, "light": 1.0})
    stage.queue("a", 4, "", within="LowerPriority", usage_based=True)
    stage.run("low", "a", 2, priority=-2, local_queue="light")
    stage.run("high", "a", 2, priority=-1, local_queue="heavy")
    assert stage.victims("a", 2) == {"high": OWN}


@pytest.mark.parametrize(
    ("usage_based", "local_queue"), [(False, "heavy"), (True, "light")], ids=["mode", "same queue"]
)
def test_past_use_counts_only_in_queues_configured_for_it_and_between_different_local_queues(
    usage_based: bool, local_queue: str
) -> None:
    stage = history({"heavy": 5.0, "light": 1.0})
    stage.queue("a", 4, "", within="LowerPriority", usage_based=usage_based)
    stage.run("low", "a", 2, priority=-2, local_queue="light")
    stage.run("high", "a", 2, priority=-1, local_queue=local_queue)
    assert stage.victims("a", 2) == {"low": OWN}


def test_a_request_for_nothing_of_an_overdrawn_resource_does_not_count_as_borrowing() -> None:
    stage = Stage()
    stage.queue("a", {GPU: 4, CPU: 1}, reclaim="Any")
    stage.queue("b", {GPU: 0, CPU: 1})
    stage.run("a1", "a", {CPU: 2})
    stage.run("b1", "b", {GPU: 4})
    needed = frozenset({GPU})
    assert stage.victims("a", {GPU: 2, CPU: 0}, needed=needed) == {"b1": RECLAIMED}


def test_without_a_reservation_time_a_workload_counts_as_reserved_now() -> None:
    stage = Stage()
    queue = stage.queue("a", 4, "", within="LowerPriority")
    stage.run("known", "a", 2, since=99)
    timed = stage.run("unknown", "a", 2)
    reservation = Reservation(cluster_queue="a", pod_sets=(), usage=timed.usage.quota)
    untimed = Workload(key=timed.key, uid="unknown", reservation=reservation)
    queue.running[timed.key] = ChargedWorkload(untimed, "a", timed.usage)
    assert stage.victims("a", 2, priority=1) == {"unknown": OWN}
