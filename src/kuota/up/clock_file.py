# SPDX-License-Identifier: Apache-2.0
"""Carries steady time over to the next start, so that a restart after a clock jump stops no timer.

The file contains the difference between steady time and the time since boot. After a reboot, steady
time starts at the system clock, but not before the time at which the file was written: stored
timestamps would lie in the future.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Never

import msgspec

from kuota.steady_time import SteadyTime, boot_id

EVERY_S = 10.0
CHANGE_S = 0.5
"""The difference that is worth a write. The system clock drifts all the time."""
JUMP_S = 10.0
LONGEST_S = 86_400.0
"""After a reboot, a system clock that is further behind was corrected, or was wrong before."""
LOG = logging.getLogger(__name__)


class ClockRecord(msgspec.Struct, frozen=True):
    """Steady time as of a moment of one boot."""

    boot: str
    offset: float
    at: float


class ClockFile:
    """The file. An absent or damaged one means that the system clock is right."""

    def __init__(self, path: Path, time: SteadyTime, boot: str | None = None) -> None:
        self._path = path
        self._time = time
        self._boot = boot_id() if boot is None else boot
        self._written: float | None = None
        self._ahead_s = 0.0

    def resume(self) -> None:
        """Continue the time of the previous process."""
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=ClockRecord)
        except (OSError, msgspec.DecodeError):
            return
        if found.boot == self._boot and self._boot:
            self._time.resume(found.offset)
        elif 0 < found.at - self._time.now() < LONGEST_S:
            self._time.advance(found.at)

    def save(self) -> None:
        """Write the current difference if it has changed."""
        offset = self._time.offset
        if self._written is not None and abs(offset - self._written) < CHANGE_S:
            return
        record = ClockRecord(self._boot, offset, self._time.now())
        fresh = self._path.with_suffix(".new")
        try:
            fresh.write_bytes(msgspec.json.encode(record))
            fresh.replace(self._path)
        except OSError as error:
            LOG.warning("%s: %s", self._path, error.strerror)
        else:
            self._written = offset

    async def keep_saved(self) -> Never:
        """Save it periodically, and report jumps of the system clock. Never returns."""
        while True:
            self.save()
            ahead_s = self._time.ahead_s
            if abs(ahead_s - self._ahead_s) > JUMP_S:
                LOG.warning(
                    "the system clock jumped by %+.0f s; timers continue, and new timestamps "
                    "approach the system clock gradually",
                    self._ahead_s - ahead_s,
                )
            self._ahead_s = ahead_s
            await asyncio.sleep(EVERY_S)
