# SPDX-License-Identifier: Apache-2.0
"""Lets Events go an hour after they were last written, a few at a time, as Kubernetes does."""

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
