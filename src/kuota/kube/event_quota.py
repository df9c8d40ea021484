# SPDX-License-Identifier: Apache-2.0
"""How much may be said about one object: a burst of Events, then one every few minutes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from .clock import Clock

BURST = 25
REFILL_S = 60.0
_MOST_OBJECTS = 4096


class EventQuota:
    """Counts by object. Those not heard of for longest are forgotten first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def spend(self, about: Hashable) -> bool:
        """Whether one more Event about the object may be made; counts it if so."""
        now = self._clock.monotonic()
        left, at = self._left.get(about, (float(BURST), now))
        left = min(float(BURST), left + (now - at) / REFILL_S)
        allowed = left >= 1
        self._left[about] = (left - 1 if allowed else left, now)
        self._left.move_to_end(about)
        if len(self._left) > _MOST_OBJECTS:
            self._left.popitem(last=False)
        return allowed
