# SPDX-License-Identifier: Apache-2.0
"""How long connections stay open."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kuota.listening import FIRST_REQUEST_S, Listeners, bound


@pytest.mark.parametrize("authenticates", [False, True])
def test_only_users_may_stay_where_users_sign_in(
    authenticates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A webhook server, which knows no users, must not close the API server's connections."""
    deadlines: list[asyncio.TimerHandle] = []
    pending: list[bool] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        pending.extend(not each.cancelled() for each in deadlines)
        return web.Response()

    async def story() -> None:
        loop = asyncio.get_running_loop()
        call_later = loop.call_later

        def recorded(delay: float, *args: Any, **options: Any) -> asyncio.TimerHandle:
            handle = call_later(delay, *args, **options)
            if delay == FIRST_REQUEST_S:
                deadlines.append(handle)
            return handle

        monkeypatch.setattr(loop, "call_later", recorded)
        listeners = Listeners(answer, authenticates=authenticates)
        port = await listeners.open(bound("127.0.0.1", 0))
        try:
            async with aiohttp.request("POST", f"http://127.0.0.1:{port}/"):
                pass
        finally:
            await listeners.close()

    asyncio.run(story())
    assert [authenticates] == pending
