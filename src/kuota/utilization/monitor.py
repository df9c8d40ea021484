# SPDX-License-Identifier: Apache-2.0
"""Reads the utilization of allocated devices from time to time, and reports idle ones."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Protocol

from kuota.api.base import Json
from kuota.kube.clock import Clock, steady
from kuota.kube.events import Recorder
from kuota.view.idle import REASON, DeviceHolder, HeldDevice, IdlePeriod, IdlePolicy

from .idle import IdleTracker

INTERVAL_S = 15.0
"""The longest time between two rounds. A shorter minimum time needs more rounds."""
CONTROLLER = "kuota-devices"
_MOST_NAMED = 8


class Readings(Protocol):
    """Where readings come from."""

    async def held(self) -> Sequence[HeldDevice]:
        """Return every allocated device with its utilization."""

    def regarding(self, holder: DeviceHolder) -> Iterable[Json]:
        """Return the objects that an Event about the devices of this pod concerns."""


Observe = Callable[[list[HeldDevice], tuple[IdlePeriod, ...], tuple[float, ...]], None]
"""Takes all held devices, the idle ones among them, and the idle seconds to add for each."""
Record = Callable[[Sequence[IdlePeriod]], Awaitable[None]]
"""Stores the current idle periods. A period that continues is stored again with a later end."""


class IdleMonitor:
    """Follows the readings while `run` runs. Each idle period causes one Event per object.

    Without `recorder`, there are no Events; without `observe` and `record`, nobody is told.
    """

    def __init__(
        self,
        readings: Readings,
        policy: IdlePolicy,
        recorder: Recorder | None = None,
        *,
        observe: Observe | None = None,
        record: Record | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.tracker = IdleTracker(policy)
        self._readings = readings
        self._recorder = recorder
        self._observe = observe
        self._record = record
        self._clock = steady(clock)
        self._interval_s = min(INTERVAL_S, max(1.0, policy.after_s / 4))

    async def run(self) -> None:
        """Read until cancelled."""
        while True:
            await self.round()
            await self._clock.sleep(self._interval_s)

    async def round(self) -> None:
        """Take one round of readings."""
        held = list(await self._readings.held())
        report = self.tracker.update(held, self._clock.now().timestamp())
        if self._observe is not None:
            self._observe(held, report.continuing, report.added_s)
        if self._recorder is not None:
            for holder, periods in _by_holder(report.begun).items():
                self._notify(self._recorder, holder, periods)
        if self._record is not None and report.continuing:
            await self._record(report.continuing)

    def _notify(self, recorder: Recorder, holder: DeviceHolder, periods: list[IdlePeriod]) -> None:
        note = idle_note(periods, self.tracker.policy)
        for each in self._readings.regarding(holder):
            recorder.record(each, REASON, note, warning=True, controller=CONTROLLER)


def idle_note(periods: Sequence[IdlePeriod], policy: IdlePolicy) -> str:
    """Return the message about devices of one pod."""
    names = ", ".join(each.device for each in periods[:_MOST_NAMED])
    more = len(periods) - _MOST_NAMED
    names += f" and {more} more" if more > 0 else ""
    since = datetime.fromtimestamp(min(each.since for each in periods), UTC)
    verb = "is" if len(periods) == 1 else "are"
    return (
        f"{names} of pod {periods[0].holder.pod} {verb} idle since {since:%Y-%m-%dT%H:%M:%SZ}: "
        f"{policy.words}. Other jobs may wait for it; delete the job if it is not needed"
    )


def _by_holder(periods: Iterable[IdlePeriod]) -> dict[DeviceHolder, list[IdlePeriod]]:
    found: dict[DeviceHolder, list[IdlePeriod]] = {}
    for each in periods:
        found.setdefault(each.holder, []).append(each)
    return found
