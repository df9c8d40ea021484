# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import asyncio

import pytest

from kuota.api.base import Key
from kuota.control.keyed_locks import KeyedLocks

A, B = Key("ns", "a"), Key("ns", "b")


def test_one_after_the_other_writes_about_the_same_workload() -> None:
    async def story() -> list[str]:
        locks, log = KeyedLocks(), list[str]()

        async def write(name: str, *keys: Key) -> None:
            async with locks.hold(*keys):
                log.append(f"{name} begins")
                await asyncio.sleep(0)
                log.append(f"{name} ends")

        await asyncio.gather(write("first", A), write("second", A, B))
        return log

    expected = ["first begins", "first ends", "second begins", "second ends"]
    assert expected == asyncio.run(story())


def test_locks_cause_no_deadlock_whatever_the_order_of_names() -> None:
    async def story() -> int:
        locks, done = KeyedLocks(), 0

        async def write(*keys: Key) -> None:
            nonlocal done
            async with locks.hold(*keys):
                await asyncio.sleep(0)
                done += 1

        await asyncio.gather(*(write(A, B) if n % 2 else write(B, A, B) for n in range(20)))
        return done

    assert 20 == asyncio.run(asyncio.wait_for(story(), 5))


def test_who_gives_up_waiting_leaves_the_turn_to_others() -> None:
    async def story() -> None:
        locks = KeyedLocks()
        async with locks.hold(A):
            waiting = asyncio.create_task(_enter(locks, B, A))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            async with locks.hold(B):
                pass
        async with locks.hold(A, B):
            pass

    asyncio.run(asyncio.wait_for(story(), 5))


async def _enter(locks: KeyedLocks, *keys: Key) -> None:
    async with locks.hold(*keys):
        pass


def test_a_turn_ends_with_a_failure_too() -> None:
    async def story() -> None:
        locks = KeyedLocks()
        with pytest.raises(ValueError, match="no"):
            async with locks.hold(A):
                raise ValueError("no")
        async with locks.hold(A):
            pass

    asyncio.run(asyncio.wait_for(story(), 5))
