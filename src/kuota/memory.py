# SPDX-License-Identifier: Apache-2.0
"""How a long-running process manages memory: less garbage collection, and no unused heap.

Facts and decisions are trees without cycles, so reference counting frees them. The cyclic collector
finds nothing to do and would still walk every live object, over and over.

The allocator of glibc keeps what was freed between allocations that are still in use. After many
requests of different sizes, this is more than what is in use, so it is returned periodically.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
from typing import Never

TRIM_S = 30.0
_YOUNG, _MIDDLE, _OLD = 50_000, 20, 100


def calm_collector() -> None:
    """Exempt what is loaded by now from collection, and collect the rest less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)


def trim() -> bool:
    """Return free memory to the system. False if the C library cannot do this."""
    try:
        return bool(ctypes.CDLL(None).malloc_trim(0))
    except AttributeError:
        return False


async def keep_trimmed() -> Never:
    """Return free memory to the system periodically. Never returns."""
    while True:
        await asyncio.sleep(TRIM_S)
        await asyncio.to_thread(trim)
