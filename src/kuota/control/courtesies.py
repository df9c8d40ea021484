# SPDX-License-Identifier: Apache-2.0
"""Events about what others in this process did: told when no decision is on its way, or not at all.

They help whoever looks at one object, and cost as much as a write that moves work on. So of a flood
only some are kept, and these leave between decisions; what went wrong is told at once.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from kuota.api.base import Json, Key
from kuota.kube.clock import Clock
from kuota.kube.events import Recorder
from kuota.kube.resources import key_of

from .notices import Notices, Tell

MOST = 100
"""How many may wait to be told. It takes five quiet seconds to tell them."""


class Courtesies:
    """A `kuota.kube.events.Recorder` in front of another; `run` tells until cancelled.

    `busy` says whether something more urgent is being written.
    """

    def __init__(self, recorder: Recorder, clock: Clock, busy: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._clock = clock
        self._notices = Notices(clock, busy)

    def record(
        self,
        regarding: Json,
        reason: str,
        note: str,
        *,
        warning: bool = False,
        controller: str = "",
        when: datetime | None = None,
        can_wait: bool = False,
    ) -> None:
        """Have it told when there is time; a warning at once, unless it can wait too."""
        record = partial(
            self._recorder.record,
            regarding,
            reason,
            note,
            warning=warning,
            controller=controller,
            when=when or self._clock.now(),
        )
        if warning and not can_wait:
            record()
        elif len(self._notices) < MOST:
            self._notices.want(key_of(regarding), _telling(record), f"{controller} {reason}")

    async def run(self) -> None:
        """Tell what waits, in moments that nobody else needs."""
        await self._notices.run()


def _telling(record: Callable[[], None]) -> Tell:
    async def tell(key: Key) -> None:
        record()

    return tell
