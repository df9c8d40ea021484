# SPDX-License-Identifier: Apache-2.0
"""The monitor of idle devices, with readings and a clock that the test controls."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from kuota.api.base import Json
from kuota.utilization.monitor import INTERVAL_S, IdleMonitor
from kuota.view.idle import REASON, DeviceHolder, HeldDevice, IdlePeriod, IdlePolicy

ANN = DeviceHolder("vision", "train-0", "uid", "job-train", "cq")


class Clock:
    """A clock that advances when it is slept on, and ends after so many seconds."""

    def __init__(self, end: float) -> None:
        self.at = 0.0
        self._end = end

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.at, UTC)

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        if self.at > self._end:
            raise asyncio.CancelledError


class Readings:
    """Two devices of one pod, whose utilization follows a schedule."""

    def __init__(self, clock: Clock, busy: Sequence[tuple[float, float]]) -> None:
        self._clock = clock
        self._busy = busy

    async def held(self) -> list[HeldDevice]:
        working = any(begin <= self._clock.at < end for begin, end in self._busy)
        percent = 80.0 if working else 0.0
        return [HeldDevice(f"GPU-{n}", "nvidia.com/gpu", ANN, percent) for n in range(2)]

    def regarding(self, holder: DeviceHolder) -> Iterable[Json]:
        for kind, name in (("Pod", holder.pod), ("Workload", holder.workload)):
            yield {"kind": kind, "metadata": {"namespace": holder.namespace, "name": name}}


class Events:
    """Recorded events."""

    def __init__(self) -> None:
        self.recorded: list[tuple[str, str, str]] = []

    def record(self, regarding: Json, reason: str, note: str, **_: Any) -> None:
        self.recorded.append((regarding["kind"], reason, note))


def watched(end: float, *busy: tuple[float, float]) -> tuple[Events, list[IdlePeriod], list[float]]:
    """Watch until the end; return events, the last reported periods, and all added seconds."""
    clock, events = Clock(end), Events()
    added: list[float] = []
    stored: list[IdlePeriod] = []

    def observe(
        held: list[HeldDevice], idle: tuple[IdlePeriod, ...], seconds: tuple[float, ...]
    ) -> None:
        added.extend(seconds)

    async def record(periods: Sequence[IdlePeriod]) -> None:
        stored[:] = periods

    async def play() -> None:
        monitor = IdleMonitor(
            Readings(clock, busy),
            IdlePolicy(5, 60),
            events,
            observe=observe,
            record=record,
            clock=clock,
        )
        try:
            await monitor.run()
        except asyncio.CancelledError:
            return

    asyncio.run(play())
    return events, stored, added


def test_an_idle_period_causes_one_event_per_object_for_all_devices() -> None:
    events, _, _ = watched(600)
    assert [("Pod", REASON), ("Workload", REASON)] == [each[:2] for each in events.recorded]
    note = events.recorded[0][2]
    assert note.startswith("GPU-0, GPU-1 of pod train-0 are idle since 1970-01-01T00:00:00Z")
    assert "below 5 % for 1m" in note


def test_a_new_idle_period_causes_another_event() -> None:
    events, _, _ = watched(600, (200, 300))
    assert 4 == len(events.recorded)


def test_a_busy_device_causes_no_event() -> None:
    assert [] == watched(600, (0, 1000))[0].recorded
    assert [] == watched(45)[0].recorded


def test_idle_time_is_recorded_with_the_definition_of_the_metrics() -> None:
    _, stored, added = watched(600)
    assert {(0.0, 600.0)} == {(each.since, each.until) for each in stored}
    assert 2 * 600.0 == sum(added)
    assert 600.0 % INTERVAL_S == 0
