# SPDX-License-Identifier: Apache-2.0
"""Wall time that does not jump, for timestamps from which durations are computed.

Timers of Kubernetes objects are differences of timestamps, which are stored and survive a restart:
`activeDeadlineSeconds` counts from `startTime`. If the system clock jumps, such a difference is
wrong. `SteadyTime` advances with the time since boot instead. It approaches the system clock by at
most a twentieth of the elapsed time, so durations are at most 5% off, and it never decreases.

All parts of a process use `SHARED`. `offset` and `resume` carry it over to the next process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache

SLEW = 0.05
"""The rate at which steady time approaches the system clock, per second."""
UNSET_BEFORE = 1_704_067_200.0
"""2024-01-01. A clock before this date was not set; nothing useful was measured with it."""


def uptime() -> float:
    """Seconds since this machine booted, including the time in which it was suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@cache
def boot_id() -> str:
    """The identity of the current boot; "" if the kernel does not tell. No process is older."""
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return ""


class SteadyTime:
    """Seconds since 1970 by a `wall` clock that may jump and a `steady` one that does not."""

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = uptime
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._offset: float | None = None
        self._seen = 0.0

    def now(self) -> float:
        """Return the current time. It never decreases."""
        wall, steady = self._wall(), self._steady()
        if self._offset is None or self._offset + steady < UNSET_BEFORE <= wall:
            self._offset = wall - steady
        else:
            most = SLEW * max(0.0, steady - self._seen)
            gap = wall - steady - self._offset
            self._offset += max(-most, min(most, gap))
        self._seen = steady
        return self._offset + steady

    @property
    def offset(self) -> float:
        """The difference to the time since boot, for `resume`."""
        return self.now() - self._seen

    @property
    def ahead_s(self) -> float:
        """How far this time is ahead of the wall clock; negative if behind."""
        return self.now() - self._wall()

    def resume(self, offset: float) -> None:
        """Continue the time of an earlier process since the same boot."""
        self._offset = offset
        self._seen = self._steady()

    def advance(self, to: float) -> None:
        """Continue from this time, which must not be in the past."""
        self.resume(to - self._steady())


SHARED = SteadyTime()
