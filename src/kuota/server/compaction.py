# SPDX-License-Identifier: Apache-2.0
"""Keeps the store's log short, a little at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Never

from .store import Store

SLICE = 200
"""How many entries are forgotten before others on the event loop get their turn."""


async def keep_compacted(
    store: Store,
    keep: int = 20_000,
    age_s: float = 3600.0,
    every_s: float = 60.0,
    clock: Callable[[], float] = time.time,
) -> Never:
    """Every so often forget all but the newest entries, and of these the old ones. For ever.

    A client that comes back after longer than that has to list afresh.
    """
    while True:
        before = -1
        while before != (before := store.compact(keep, clock() - age_s, SLICE)):
            await asyncio.sleep(0)
        await asyncio.sleep(every_s)
