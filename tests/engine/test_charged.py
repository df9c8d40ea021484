# SPDX-License-Identifier: Apache-2.0
"""Running workloads of a queue: the order of candidates follows every change."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from build import column
from kuota.api.base import Key
from kuota.engine.charged import ChargedWorkload, ChargedWorkloads, by_rank
from kuota.engine.model import Eviction, Reservation, Workload
from kuota.engine.usage import Usage


def running(
    number: int,
    priority: int,
    since: int | None,
    evicted: bool,
    queue: str = "main",
    admitted: bool = False,
    gpu: int = 0,
) -> ChargedWorkload:
    workload = Workload(
        key=Key("", f"w{number}"),
        queue=queue,
        admitted=admitted,
        uid=str(number),
        priority=priority,
        reservation=Reservation(cluster_queue="a", pod_sets=(), usage={}, since=since),
        evicted=Eviction(reason="Preempted", at=0.0) if evicted else None,
    )
    return ChargedWorkload(workload, "a", Usage(quota={column("gpu"): gpu}))


workloads = st.builds(
    running,
    st.integers(0, 5),
    st.integers(0, 2),
    st.none() | st.integers(0, 2),
    st.booleans(),
    st.sampled_from(("main", "other")),
    st.booleans(),
    st.integers(0, 3),
)


def test_low_priority_comes_first_then_the_latest_reservation_then_the_smaller_uid() -> None:
    running_set = ChargedWorkloads()
    for each in (
        running(1, 1, 9, False),
        running(3, 0, 5, False),
        running(2, 0, 5, False),
        running(4, 0, 7, False),
        running(5, 0, None, False),
        running(6, 9, 1, True),
    ):
        running_set[each.key] = each
    assert ["5", "4", "2", "3", "1"] == [each.workload.uid for each in running_set.ranked(False)]
    assert ["6"] == [each.workload.uid for each in running_set.ranked(True)]


def _after_each(changes: list[ChargedWorkload | int]) -> Iterator[ChargedWorkloads]:
    """Yield the set after each change: a workload is stored, or one is removed by its number."""
    running_set = ChargedWorkloads()
    for change in changes:
        if isinstance(change, ChargedWorkload):
            running_set[change.key] = change
        elif Key("", f"w{change}") in running_set:
            del running_set[Key("", f"w{change}")]
        yield running_set


@given(st.lists(workloads | st.integers(0, 5)))
def test_workloads_are_ranked_after_any_changes(
    changes: list[ChargedWorkload | int],
) -> None:
    for running_set in _after_each(changes):
        for leaving in (False, True):
            expected = [each for each in running_set.values() if each.leaving == leaving]
            assert sorted(expected, key=by_rank) == running_set.ranked(leaving)


@given(st.lists(workloads | st.integers(0, 5)))
def test_totals_are_sums_over_the_workloads_after_any_changes(
    changes: list[ChargedWorkload | int],
) -> None:
    for running_set in _after_each(changes):
        for local in (None, Key("", "main"), Key("", "other")):
            for admitted in (False, True):
                expected = [
                    each
                    for each in running_set.values()
                    if local in (None, each.workload.local_queue)
                    and (each.workload.admitted or not admitted)
                ]
                total = running_set.total(local, admitted=admitted)
                assert len(expected) == total.count
                used = sum(each.usage.quota[column("gpu")] for each in expected)
                assert used == total.amounts.get(column("gpu"), 0)
