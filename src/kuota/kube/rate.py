# SPDX-License-Identifier: Apache-2.0
"""Limits on how fast something happens: requests of a client, and Events about one object."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

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


EVENT_BURST = 25
EVENT_REFILL_S = 60.0
_MOST_OBJECTS = 4096


class EventQuota:
    """Counts by object. Those not heard of for longest are forgotten first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def spend(self, about: Hashable) -> bool:
        """Whether one more Event about the object may be made; counts it if so."""
        now = self._clock.monotonic()
        left, at = self._left.get(about, (float(EVENT_BURST), now))
        left = min(float(EVENT_BURST), left + (now - at) / EVENT_REFILL_S)
        allowed = left >= 1
        self._left[about] = (left - 1 if allowed else left, now)
        self._left.move_to_end(about)
        if len(self._left) > _MOST_OBJECTS:
            self._left.popitem(last=False)
        return allowed
