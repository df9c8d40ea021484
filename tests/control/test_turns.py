# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

import pytest

from kuota.api.base import Key
from kuota.control.turns import Turns

A, B = Key("ns", "a"), Key("ns", "b")


def test_one_after_the_other_writes_about_the_same_workload() -> None:
    async def story() -> list[str]:
        turns, told = Turns(), list[str]()

        async def write(name: str, *keys: Key) -> None:
            async with turns.of(*keys):
                told.append(f"{name} begins")
                await asyncio.sleep(0)
                told.append(f"{name} ends")

        await asyncio.gather(write("first", A), write("second", A, B))
        return told

    expected = ["first begins", "first ends", "second begins", "second ends"]
    assert expected == asyncio.run(story())


def test_nobody_waits_for_ever_whatever_the_order_of_names() -> None:
    async def story() -> int:
        turns, done = Turns(), 0

        async def write(*keys: Key) -> None:
            nonlocal done
            async with turns.of(*keys):
                await asyncio.sleep(0)
                done += 1

        await asyncio.gather(*(write(A, B) if n % 2 else write(B, A, B) for n in range(20)))
        return done

    assert 20 == asyncio.run(asyncio.wait_for(story(), 5))


def test_who_gives_up_waiting_leaves_the_turn_to_others() -> None:
    async def story() -> None:
        turns = Turns()
        async with turns.of(A):
            waiting = asyncio.create_task(_enter(turns, B, A))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            async with turns.of(B):
                pass
        async with turns.of(A, B):
            pass

    asyncio.run(asyncio.wait_for(story(), 5))


async def _enter(turns: Turns, *keys: Key) -> None:
    async with turns.of(*keys):
        pass


def test_a_turn_ends_with_a_failure_too() -> None:
    async def story() -> None:
        turns = Turns()
        with pytest.raises(ValueError, match="no"):
            async with turns.of(A):
                raise ValueError("no")
        async with turns.of(A):
            pass

    asyncio.run(asyncio.wait_for(story(), 5))
