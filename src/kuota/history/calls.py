# SPDX-License-Identifier: Apache-2.0
"""How a recorder calls its database: directly, or in a thread where calls may take long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")


class Calls(Protocol):
    """Makes one call after another."""

    async def __call__(self, work: Callable[[], T]) -> T: ...


async def direct(work: Callable[[], T]) -> T:
    """Call in the event loop: for files of this machine."""
    return work()


class InThread:
    """Calls in one thread. A call that was cancelled ends before the next one begins."""

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "history")

    async def __call__(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, work)
