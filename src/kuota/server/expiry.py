# SPDX-License-Identifier: Apache-2.0
"""Keeps the store small, a little at a time: forgets old changes, and Events after an hour.

Kubernetes keeps Events for an hour after they were last written, too.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Never

import msgspec

from kuota.api.base import Key

from .metadata import timestamp
from .store import Store

EVENTS = "events"
AGE_S = 3600.0
EVERY_S = 300.0
SLICE = 100
"""How many Events are looked at before others on the event loop get their turn."""
CHANGES_SLICE = 200
"""How many entries of the log are forgotten before others on the event loop get their turn."""


class _Write(msgspec.Struct, gc=False):
    time: str = ""


class _Metadata(msgspec.Struct, gc=False, rename="camel"):
    name: str
    namespace: str = ""
    creation_timestamp: str = ""
    managed_fields: list[_Write] = []


class _Event(msgspec.Struct, gc=False):
    """When an Event was written: all that is read of it, since there may be very many."""

    metadata: _Metadata

    @property
    def written(self) -> str:
        times = [each.time for each in self.metadata.managed_fields]
        return max([self.metadata.creation_timestamp, *times])


_DECODER = msgspec.json.Decoder(_Event)


async def keep_compacted(store: Store, keep: int = 20_000, every_s: float = 5.0) -> Never:
    """Every so often forget all but the newest changes, and of these the old ones. For ever.

    A client that comes back after longer than that has to list afresh. It is done often, so that a
    flood pays for itself and leaves no work for when all is quiet.
    """
    while True:
        before = -1
        while before != (before := store.compact(keep, time.time() - AGE_S, CHANGES_SLICE)):
            await asyncio.sleep(0)
        await asyncio.sleep(every_s)


async def keep_expiring(store: Store, clock: Callable[[], float] = time.time) -> Never:
    """Every so often remove the Events that nobody has written for so long. For ever."""
    while True:
        await remove_expired(store, datetime.fromtimestamp(clock() - AGE_S, UTC))
        await asyncio.sleep(EVERY_S)


async def remove_expired(store: Store, limit: datetime) -> None:
    """Remove the Events that were last written before the limit."""
    oldest = timestamp(limit)
    after: Key | None = None
    while page := store.list(EVENTS, after=after, limit=SLICE).bodies:
        for event in map(_DECODER.decode, page):
            after = Key(event.metadata.namespace, event.metadata.name)
            if event.written < oldest:
                store.delete(EVENTS, after)
        await asyncio.sleep(0)
