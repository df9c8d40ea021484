# SPDX-License-Identifier: Apache-2.0
"""The queue of second passes: each workload is due once, when it was queued last."""

from __future__ import annotations

from kuota.api.base import Key
from kuota.engine.model import PodSetReservation, Reservation, Workload
from kuota.engine.second_pass import SecondPass

KEY = Key("team", "w")


def _waiting() -> Workload:
    """A workload with quota whose pods still have to be placed."""
    pods = PodSetReservation(
        name="main", flavors={}, requests={}, count=1, delayed_topology="Pending"
    )
    held = Reservation(cluster_queue="cq", pod_sets=(pods,), usage={})
    return Workload(key=KEY, uid="u", reservation=held, checks={"check": "Ready"})


def test_a_workload_that_was_dropped_and_queued_again_is_due_once() -> None:
    second, workload = SecondPass(), _waiting()
    assert second.queue(workload, 0.0)
    assert [workload] == second.due(1.0)
    assert second.requeue(KEY, 1.0)
    second.drop(KEY)
    assert second.queue(workload, 1.5)
    assert 2.5 == second.next_wakeup()
    assert [workload] == second.due(10.0)
    assert second.next_wakeup() is None


def test_the_delay_doubles_with_every_failed_attempt_up_to_half_a_minute() -> None:
    second, delays = SecondPass(), []
    second.queue(_waiting(), 0.0)
    now = 0.0
    for _ in range(8):
        due = second.next_wakeup()
        assert due is not None
        delays.append(due - now)
        assert second.due(due)
        now = due
        assert second.requeue(KEY, now)
    assert [1, 2, 4, 8, 16, 30, 30, 30] == delays
