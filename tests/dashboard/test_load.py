# SPDX-License-Identifier: Apache-2.0
"""Viewers of costly views slow down these views, not the server."""

from __future__ import annotations

import pytest

from kuota.dashboard.feed import TICK_S
from kuota.dashboard.views import REST, SLOWEST_S, Load


class FakeClock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_cheap_views_are_sent_every_tick() -> None:
    load = Load(FakeClock())
    assert TICK_S == load.pace_s
    load.record("tree", 0.001)
    assert TICK_S == load.pace_s


def test_all_views_together_take_a_bounded_part_of_the_time() -> None:
    load = Load(FakeClock())
    for number in range(32):
        load.record(("queue", number), 0.005)
    assert pytest.approx(REST * 32 * 0.005) == load.pace_s
    for number in range(10_000):
        load.record(("workload", number), 0.1)
    assert SLOWEST_S == load.pace_s


def test_a_view_that_nobody_watches_any_more_does_not_count() -> None:
    clock = FakeClock()
    load = Load(clock)
    load.record("tree", 0.5)
    assert REST * 0.5 == load.pace_s
    clock.now += 2 * SLOWEST_S
    assert TICK_S == load.pace_s
