# SPDX-License-Identifier: Apache-2.0
"""Which devices are idle: the rule, with readings and times as arguments."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kuota.utilization.idle import MAX_GAP_S, IdleTracker
from kuota.view.idle import DeviceHolder, HeldDevice, IdlePeriod, IdlePolicy

POLICY = IdlePolicy(threshold_percent=5, after_s=120)
ANN = DeviceHolder("vision", "train-0", "uid-ann", "job-train")
BOB = DeviceHolder("speech", "eval-0", "uid-bob")


def gpu(percent: float | None, holder: DeviceHolder = ANN, device: str = "GPU-0") -> HeldDevice:
    return HeldDevice(device, "nvidia.com/gpu", holder, percent)


def test_a_device_is_idle_after_the_minimum_time_from_its_first_quiet_reading() -> None:
    tracker = IdleTracker(POLICY)
    assert not tracker.update([gpu(0)], 1000).continuing
    assert not tracker.update([gpu(4.9)], 1119).continuing
    report = tracker.update([gpu(0)], 1120)
    (period,) = report.begun
    assert (1000, 1120) == (period.since, period.until)
    assert [120] == list(report.added_s)
    assert 1000 == tracker.idle_since("uid-ann", "GPU-0")


def test_a_period_is_begun_once_and_then_grows() -> None:
    tracker = IdleTracker(POLICY)
    for at in (0, 60):
        tracker.update([gpu(0)], at)
    assert 1 == len(tracker.update([gpu(0)], 120).begun)
    later = tracker.update([gpu(0)], 180)
    assert not later.begun
    assert [60] == list(later.added_s)
    assert (0, 180) == (later.continuing[0].since, later.continuing[0].until)


def test_a_reading_at_the_threshold_ends_the_period_and_the_next_one_begins_anew() -> None:
    tracker = IdleTracker(POLICY)
    for at in (0, 120):
        tracker.update([gpu(0)], at)
    assert not tracker.update([gpu(5)], 180).continuing
    assert tracker.idle_since("uid-ann", "GPU-0") is None
    tracker.update([gpu(0)], 200)
    assert not tracker.update([gpu(0)], 319).continuing
    assert 200 == tracker.update([gpu(0)], 320).begun[0].since


def test_the_next_holder_of_a_device_starts_from_zero() -> None:
    tracker = IdleTracker(POLICY)
    tracker.update([gpu(0)], 0)
    tracker.update([gpu(0)], 119)
    assert not tracker.update([gpu(0, BOB)], 121).continuing
    assert not tracker.update([gpu(0)], 122).continuing


def test_a_missing_reading_extends_nothing_and_ends_nothing() -> None:
    tracker = IdleTracker(POLICY)
    tracker.update([gpu(0)], 0)
    assert not tracker.update([gpu(None)], 200).continuing
    assert (0, 220) == _times(tracker, 220)


def test_a_long_gap_between_readings_counts_as_nothing() -> None:
    tracker = IdleTracker(POLICY)
    tracker.update([gpu(0)], 0)
    tracker.update([gpu(0)], 120)
    at = 120 + MAX_GAP_S + 1
    assert not tracker.update([gpu(0)], at).continuing
    assert at == tracker.update([gpu(0)], at + 120).begun[0].since


def test_time_that_goes_backwards_begins_a_new_period() -> None:
    tracker = IdleTracker(POLICY)
    tracker.update([gpu(0)], 1000)
    assert not tracker.update([gpu(0)], 10).continuing
    assert (10, 130) == _times(tracker, 130)


def _times(tracker: IdleTracker, now: float) -> tuple[float, float]:
    (period,) = tracker.update([gpu(0)], now).continuing
    return period.since, period.until


@given(st.lists(st.tuples(st.integers(1, 100), st.sampled_from([0, 3, 5, 90, None])), max_size=40))
def test_added_time_equals_the_length_of_all_periods(steps: list[tuple[int, int | None]]) -> None:
    tracker, now, added = IdleTracker(POLICY), 0.0, 0.0
    latest: dict[tuple[str, str, float], IdlePeriod] = {}
    for step, percent in steps:
        now += step
        report = tracker.update([gpu(percent)], now)
        added += sum(report.added_s)
        latest |= {each.identity: each for each in report.continuing}
    assert added == sum(each.seconds for each in latest.values())
