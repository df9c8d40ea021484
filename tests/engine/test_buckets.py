# SPDX-License-Identifier: Apache-2.0
"""Lanes move whole classes, not workloads, and stay in order while they do."""

from __future__ import annotations

from kuota.api.base import Key
from kuota.engine.buckets import Lane, Pending
from kuota.engine.model import Workload


def pending(number: int, class_id: str) -> Pending:
    key = Key("team", f"{number:04}")
    return Pending(Workload(key=key, class_id=class_id), "cq", (0, float(number), "", key))


def lane_of(*everyone: Pending) -> Lane:
    lane = Lane(Key("team", ""))
    for each in everyone:
        lane.active.add(each)
    return lane


def test_parking_and_releasing_a_class_hands_its_bucket_over_as_it_is() -> None:
    lane = lane_of(*(pending(number, "c") for number in range(100)))
    bucket = lane.active.buckets["c"]
    assert lane.park("c") == 100
    assert lane.parked.buckets["c"] is bucket
    assert lane.best() is None
    assert lane.release() == 100
    assert lane.active.buckets["c"] is bucket


def test_a_release_of_many_classes_moves_the_few_that_are_active() -> None:
    lane = lane_of(*(pending(number, f"c{number}") for number in range(100)))
    for number in range(99):
        lane.park(f"c{number}")
    many = lane.parked
    assert lane.release() == 99
    assert lane.active is many
    assert (lane.active.count, lane.parked.count) == (100, 0)


def test_the_smaller_bucket_of_a_class_joins_the_larger_one() -> None:
    parked = [pending(number, "c") for number in range(1, 10)]
    lane = lane_of(*parked)
    large = lane.active.buckets["c"]
    lane.park("c")
    first = pending(0, "c")
    lane.active.add(first)
    assert lane.release() == 9
    assert lane.active.buckets == {"c": large}
    assert lane.best() is first


def test_workloads_alike_to_none_have_buckets_of_their_own() -> None:
    lane = lane_of(pending(1, ""), pending(2, ""))
    assert lane.park("") == 0
    assert len(lane.active.buckets) == 2


def test_entries_that_count_no_more_do_not_pile_up() -> None:
    lane, first = lane_of(pending(10_000, "c")), pending(0, "c")
    for number in range(5_000):
        first.rank = (0, float(number % 7), "", first.key)
        lane.active.add(first)
        assert lane.best() is first
        lane.active.remove(first)
    assert lane.active.buckets["c"].length < 200
    assert lane.active.length < 200
