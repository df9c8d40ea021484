# SPDX-License-Identifier: Apache-2.0
"""Words about why a Workload waits: told when there is time for them, and only the newest.

Such words help whoever looks at a Workload, but nobody decides by them. In a flood most would be
outdated before they are written, and would keep admissions from being written; so they wait for a
moment in which nothing else is under way. Every now and then one is told anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from kuota.api.base import Key
from kuota.kube.clock import Clock
from kuota.kube.errors import KubeError

APART_S = 0.05
"""Between two notices while nothing else is under way."""
TRICKLE_S = 1.0
"""Between two notices however much is under way."""

CROWD = 50
"""With more than this many to be told, each is told in its status and not by an event as well."""
STALE_S = 60.0
"""After this long the same reason may be told again in newer words."""
MOST_REMEMBERED = 16_384

WAITING = "waiting"
READINESS = "readiness"
"""What is told: of each topic only the newest."""

Tell = Callable[[Key], Awaitable[None]]

_log = logging.getLogger(__name__)


class Notices:
    """Who is to be told, oldest wish first. `busy` says whether urgent writes are under way."""

    def __init__(self, clock: Clock, busy: Callable[[], bool]) -> None:
        self._clock = clock
        self._busy = busy
        self._wanted: OrderedDict[tuple[Key, str], Tell] = OrderedDict()
        self._wake = asyncio.Event()
        self._closed = False

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def crowded(self) -> bool:
        """Whether there are so many to be told that it must be done in few words."""
        return len(self._wanted) > CROWD

    def want(self, key: Key, tell: Tell, topic: str = WAITING) -> None:
        """Have the Workload told, some time. `tell` looks up then what there is to say."""
        if not self._closed:
            self._wanted[key, topic] = tell
            self._wake.set()

    def close(self) -> None:
        """Tell nobody any more: there is no time left."""
        self._closed = True
        self._wanted.clear()

    def drop(self, key: Key, topic: str = WAITING) -> None:
        """There is nothing to tell any more."""
        self._wanted.pop((key, topic), None)

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            self._wake.clear()
            while self._wanted:
                await self._moment()
                if self._wanted:
                    (key, _), tell = self._wanted.popitem(last=False)
                    await self._one(key, tell)
            await self._wake.wait()

    async def _moment(self) -> None:
        """Return when the next notice may go."""
        until = self._clock.monotonic() + TRICKLE_S
        await self._clock.sleep(APART_S)
        while self._busy() and self._clock.monotonic() < until:
            await self._clock.sleep(APART_S)

    async def _one(self, key: Key, tell: Tell) -> None:
        try:
            await tell(key)
        except KubeError as error:
            _log.debug("%s was not told why it waits: %s", key, error)
        except Exception:
            _log.exception("telling %s why it waits failed", key)


class Said:
    """Since when Workloads say why they wait, as far as that was lately."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at: OrderedDict[Key, float] = OrderedDict()

    def stale(self, key: Key) -> bool:
        """Whether the words of a Workload are old. Those of unknown age count as new."""
        return self._clock.monotonic() - self._at.setdefault(key, self._now()) >= STALE_S

    def note(self, key: Key) -> None:
        """The Workload is told now."""
        self._at[key] = self._now()

    def _now(self) -> float:
        if len(self._at) >= MOST_REMEMBERED:
            self._at.popitem(last=False)
        return self._clock.monotonic()
