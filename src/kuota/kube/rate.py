# SPDX-License-Identifier: Apache-2.0
"""How fast requests may leave: a bucket of `burst` permits that refills at `qps` a second."""

from __future__ import annotations

from .clock import Clock


class Rate:
    """Grants permits in the order asked for. A caller that gives up still used its permit."""

    def __init__(self, clock: Clock, qps: float, burst: int) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError("a rate needs qps above 0 and a burst of at least 1")
        self._clock = clock
        self._qps = qps
        self._burst = burst
        self._permits = float(burst)
        self._at = clock.monotonic()

    async def take(self) -> None:
        """Return when one more request may be sent."""
        now = self._clock.monotonic()
        refilled = self._permits + (now - self._at) * self._qps
        self._permits = min(float(self._burst), refilled) - 1
        self._at = now
        if self._permits < 0:
            await self._clock.sleep(-self._permits / self._qps)
