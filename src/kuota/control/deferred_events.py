# SPDX-License-Identifier: Apache-2.0
"""Events of other controllers in this process, recorded while no decision is being written.

An event costs the API server as much as an admission. Under load only some events are kept.
Warnings are recorded at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import partial

from kuota.api.base import Json
from kuota.kube.clock import Clock
from kuota.kube.events import Recorder
from kuota.kube.resources import key_of

from .deferred_writes import DeferredWrites

MAX_PENDING = 100
"""The maximum number of deferred events; further ones are dropped."""


class DeferredEvents:
    """A `kuota.kube.events.Recorder` that wraps another one.

    `busy` returns whether more urgent writes are in flight.
    """

    def __init__(self, recorder: Recorder, clock: Clock, busy: Callable[[], bool]) -> None:
        self._recorder = recorder
        self._clock = clock
        self._busy = busy
        self._writes = DeferredWrites(clock)

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
        """Record a warning at once unless it `can_wait`; defer everything else."""
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
        elif len(self._writes) < MAX_PENDING:
            self._writes.defer((key_of(regarding), controller, reason), _write(record))

    async def run(self) -> None:
        """Record deferred events until cancelled."""
        await self._writes.run(self._busy)


def _write(record: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def write() -> None:
        record()

    return write
