# SPDX-License-Identifier: Apache-2.0
"""Reports of one user wait for each other, and not those of others for them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from hang import HANG_S
from kuota.history.turns import ReportTurns


class Threads:
    """Work that runs until it may end."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.may_end = threading.Event()

    def work(self, name: str) -> Callable[[], str]:
        def run() -> str:
            self.begun.append(name)
            assert self.may_end.wait(HANG_S)
            return name

        return run

    async def until_begun(self, count: int) -> None:
        async with asyncio.timeout(HANG_S):
            while len(self.begun) < count:
                await asyncio.sleep(0.001)


def test_a_user_has_one_turn_at_a_time_and_all_have_two() -> None:
    async def story() -> None:
        turns, threads = ReportTurns(), Threads()
        users = ("ann", "ann", "ann", "bob", "eve")
        asked = [asyncio.create_task(turns.run(each, threads.work(each))) for each in users]
        await threads.until_begun(2)
        await asyncio.sleep(0.01)
        assert ["ann", "bob"] == sorted(threads.begun)
        threads.may_end.set()
        assert list(users) == await asyncio.gather(*asked)
        assert not turns._own

    asyncio.run(story())


def test_clients_that_leave_start_no_further_threads() -> None:
    async def story() -> None:
        turns, threads = ReportTurns(), Threads()
        first = asyncio.create_task(turns.run("ann", threads.work("first")))
        await threads.until_begun(1)
        second = asyncio.create_task(turns.run("ann", threads.work("second")))
        third = asyncio.create_task(turns.run("ann", threads.work("third")))
        await asyncio.sleep(0)
        for each in (first, second):
            each.cancel()
            with pytest.raises(asyncio.CancelledError):
                await each
        await asyncio.sleep(0.01)
        assert ["first"] == threads.begun
        threads.may_end.set()
        assert "third" == await third
        assert ["first", "third"] == threads.begun

    asyncio.run(story())
