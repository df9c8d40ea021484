# SPDX-License-Identifier: Apache-2.0
"""Who runs in a queue: the line of those to be displaced keeps up with every change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kuota.api.base import Key
from kuota.engine.model import Eviction, Reservation, Workload
from kuota.engine.roster import Roster, Running, by_rank


def running(number: int, priority: int, since: int | None, evicted: bool) -> Running:
    workload = Workload(
        key=Key("", f"w{number}"),
        uid=str(number),
        priority=priority,
        reservation=Reservation(cluster_queue="a", pod_sets=(), usage={}, since=since),
        evicted=Eviction(reason="Preempted", at=0.0) if evicted else None,
    )
    return Running(workload, "a", {})


workloads = st.builds(
    running,
    st.integers(0, 5),
    st.integers(0, 2),
    st.none() | st.integers(0, 2),
    st.booleans(),
)


def test_low_priority_comes_first_then_the_latest_reservation_then_the_smaller_uid() -> None:
    roster = Roster()
    for each in (
        running(1, 1, 9, False),
        running(3, 0, 5, False),
        running(2, 0, 5, False),
        running(4, 0, 7, False),
        running(5, 0, None, False),
        running(6, 9, 1, True),
    ):
        roster[each.key] = each
    assert ["5", "4", "2", "3", "1"] == [each.workload.uid for each in roster.line(False)]
    assert ["6"] == [each.workload.uid for each in roster.line(True)]


@given(st.lists(workloads | st.integers(0, 5)))
def test_the_lines_are_the_sorted_roster_after_any_changes(
    changes: list[Running | int],
) -> None:
    roster = Roster()
    for change in changes:
        if isinstance(change, Running):
            roster[change.key] = change
        elif Key("", f"w{change}") in roster:
            del roster[Key("", f"w{change}")]
        for leaving in (False, True):
            expected = [each for each in roster.values() if each.leaving == leaving]
            assert sorted(expected, key=by_rank) == roster.line(leaving)
