# SPDX-License-Identifier: Apache-2.0
"""A cancellation is never lost, even if something fails at the same moment."""

from __future__ import annotations

import asyncio

import pytest

from kuota.failures import alongside


def test_a_cancellation_takes_precedence_over_a_failure() -> None:
    async def story() -> None:
        failing = asyncio.Event()

        async def work() -> None:
            await failing.wait()
            raise ValueError

        async def serve() -> None:
            async with alongside(work()):
                await asyncio.Event().wait()

        task = asyncio.create_task(serve())
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        failing.set()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
