# SPDX-License-Identifier: Apache-2.0
"""Failures of background tasks."""

from __future__ import annotations

import asyncio

import pytest

from control.virtual import played
from kuota.failures import COUNTS, Fatal, alongside, retried, tolerated


def test_work_that_fails_is_counted_and_started_again_after_ever_longer_pauses() -> None:
    begun: list[float] = []

    async def work() -> None:
        begun.append(asyncio.get_running_loop().time())
        if len(begun) < 4:
            raise RuntimeError("a bug")

    before = COUNTS["here"]
    played(retried("here", work))
    assert [0, 1, 3, 7] == begun
    assert COUNTS["here"] == before + 3


def test_work_that_failed_after_a_long_time_is_started_again_soon() -> None:
    begun: list[float] = []

    async def work() -> None:
        begun.append(asyncio.get_running_loop().time())
        if len(begun) < 4:
            await asyncio.sleep(100)
            raise RuntimeError("a bug")

    played(retried("here", work))
    assert [0, 101, 202, 303] == begun


def test_what_is_fatal_is_neither_retried_nor_tolerated() -> None:
    def call() -> None:
        raise Fatal("the end")

    async def work() -> None:
        call()

    with pytest.raises(Fatal):
        played(retried("here", work))
    with pytest.raises(Fatal):
        tolerated("here", call)()


def test_work_alongside_ends_with_the_body() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(1000)
        finally:
            ended.append("work")

    async def story() -> None:
        async with alongside(work()):
            await asyncio.sleep(1)
        assert ["work"] == ended

    played(story())


def test_a_failure_of_the_body_or_of_work_alongside_ends_both_and_is_raised_as_it_is() -> None:
    async def wait() -> None:
        await asyncio.sleep(1000)

    async def fail() -> None:
        raise ValueError("a bug")

    async def story(work: bool) -> None:
        async with alongside(fail() if work else wait()):
            await (wait() if work else fail())

    for at_work in (True, False):
        with pytest.raises(ValueError, match="a bug"):
            played(story(at_work))
