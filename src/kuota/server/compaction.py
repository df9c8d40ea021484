# SPDX-License-Identifier: Apache-2.0
"""Keeps the store's log short, a little at a time."""

from __future__ import annotations

import asyncio
import time
from typing import Never

from .store import Store

SLICE = 200
"""How many entries are forgotten before others on the event loop get their turn."""
AGE_S = 3600.0


async def keep_compacted(store: Store, keep: int = 20_000, every_s: float = 5.0) -> Never:
    """Every so often forget all but the newest entries, and of these the old ones. For ever.

    A client that comes back after longer than that has to list afresh. It is done often, so that a
    flood pays for itself and leaves no work for when all is quiet.
    """
    while True:
        before = -1
        while before != (before := store.compact(keep, time.time() - AGE_S, SLICE)):
            await asyncio.sleep(0)
        await asyncio.sleep(every_s)
