# SPDX-License-Identifier: Apache-2.0
"""Limits the size of the store: compacts the log, and deletes Events after an hour.

Kubernetes also keeps Events for one hour after their last update.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Never

import msgspec

from kuota.api.base import Key
from kuota.steady_time import SHARED

from .metadata import timestamp
from .store import Store

EVENTS = "events"
AGE_S = 3600.0
EVERY_S = 300.0
SLICE = 100
"""The number of Events that are checked before other tasks may run."""
CHANGES_SLICE = 200
"""The number of log entries that are removed before other tasks may run."""


class _Write(msgspec.Struct, gc=False):
    time: str = ""


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str
    namespace: str = ""
    creation_timestamp: str = ""
    managed_fields: list[_Write] = []


class _Event(msgspec.Struct, gc=False):
    """The times of an Event. Nothing else is decoded, because there may be many."""

    metadata: _Metadata

    @property
    def written(self) -> str:
        times = [each.time for each in self.metadata.managed_fields]
        return max([self.metadata.creation_timestamp, *times])


_DECODER = msgspec.json.Decoder(_Event)


async def keep_compacted(store: Store, keep: int = 20_000, every_s: float = 5.0) -> Never:
    """Compact the log periodically by number and age of entries. Never returns.

    A client that reconnects later must list again. Compaction runs often, so that the cost of a
    burst of writes is not deferred to an idle time.
    """
    while True:
        before = -1
        while before != (before := store.compact(keep, SHARED.now() - AGE_S, CHANGES_SLICE)):
            await asyncio.sleep(0)
        await asyncio.sleep(every_s)


async def keep_expiring(store: Store, clock: Callable[[], float] = SHARED.now) -> Never:
    """Periodically delete Events that have not been updated for this time. Never returns."""
    while True:
        await remove_expired(store, datetime.fromtimestamp(clock() - AGE_S, UTC))
        await asyncio.sleep(EVERY_S)


async def remove_expired(store: Store, limit: datetime) -> None:
    """Delete the Events that were last updated before the limit."""
    oldest = timestamp(limit)
    after: Key | None = None
    while page := store.list(EVENTS, after=after, limit=SLICE).bodies:
        for event in map(_DECODER.decode, page):
            after = Key(event.metadata.namespace, event.metadata.name)
            if event.written < oldest:
                store.delete(EVENTS, after)
        await asyncio.sleep(0)
