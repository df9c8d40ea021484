# SPDX-License-Identifier: Apache-2.0
"""An event loop in virtual time: when all tasks wait, the clock advances to the next timer."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime
from typing import Any, TypeVar

T = TypeVar("T")

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


class _Jump(selectors.DefaultSelector):
    """A selector that never blocks; it tells the loop how long it would have."""

    passed = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("everybody waits, and nothing will ever happen")
        self.passed += max(0.0, timeout)
        return super().select(0)


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jump = _Jump()
        super().__init__(self._jump)

    def time(self) -> float:
        return self._jump.passed


class VirtualClock:
    """The clock of the running virtual loop. Set `skew_s` to let its wall time jump."""

    skew_s = 0.0

    def now(self) -> datetime:
        at = START.timestamp() + asyncio.get_running_loop().time() + self.skew_s
        return datetime.fromtimestamp(at, UTC)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


def played(story: Coroutine[Any, Any, T]) -> T:
    """Run a story to its end; hours of it take no time."""
    with asyncio.Runner(loop_factory=_Loop) as runner:
        return runner.run(story)
