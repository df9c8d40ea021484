# SPDX-License-Identifier: Apache-2.0
"""Lanes move whole scheduling classes and stay ordered."""

from __future__ import annotations

from kuota.api.base import Key
from kuota.engine.buckets import FlushGroup, Pending
from kuota.engine.model import Workload


def pending(number: int, scheduling_hash: str) -> Pending:
    key = Key("team", f"{number:04}")
    return Pending(
        Workload(key=key, scheduling_hash=scheduling_hash), "cq", (0, float(number), "", key)
    )


def group_of(*everyone: Pending) -> FlushGroup:
    group = FlushGroup(Key("team", ""))
    for each in everyone:
        group.active.add(each)
    return group


def test_flushing_a_class_moves_its_bucket_unchanged() -> None:
    group = group_of(*(pending(number, "c") for number in range(100)))
    bucket = group.active.buckets["c"]
    assert group.make_inadmissible("c") == 100
    assert group.inadmissible.buckets["c"] is bucket
    assert group.best() is None
    assert group.make_active() == 100
    assert group.active.buckets["c"] is bucket


def test_a_release_of_many_classes_moves_the_few_that_are_active() -> None:
    group = group_of(*(pending(number, f"c{number}") for number in range(100)))
    for number in range(99):
        group.make_inadmissible(f"c{number}")
    many = group.inadmissible
    assert group.make_active() == 99
    assert group.active is many
    assert (group.active.count, group.inadmissible.count) == (100, 0)


def test_the_smaller_bucket_of_a_class_joins_the_larger_one() -> None:
    inadmissible = [pending(number, "c") for number in range(1, 10)]
    group = group_of(*inadmissible)
    large = group.active.buckets["c"]
    group.make_inadmissible("c")
    first = pending(0, "c")
    group.active.add(first)
    assert group.make_active() == 9
    assert group.active.buckets == {"c": large}
    assert group.best() is first


def test_workloads_alike_to_none_have_buckets_of_their_own() -> None:
    group = group_of(pending(1, ""), pending(2, ""))
    assert group.make_inadmissible("") == 0
    assert len(group.active.buckets) == 2


def test_entries_that_count_no_more_do_not_pile_up() -> None:
    group, first = group_of(pending(10_000, "c")), pending(0, "c")
    for number in range(5_000):
        first.rank = (0, float(number % 7), "", first.key)
        group.active.add(first)
        assert group.best() is first
        group.active.remove(first)
    assert group.active.buckets["c"].length < 200
    assert group.active.length < 200
