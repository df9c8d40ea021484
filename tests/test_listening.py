# SPDX-License-Identifier: Apache-2.0
"""How long connections stay open."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
from aiohttp import web

from kuota.listening import HttpConnection, Listeners, bound


@pytest.mark.parametrize("authenticates", [False, True])
def test_only_users_may_stay_where_users_sign_in(authenticates: bool) -> None:
    """A webhook server, which knows no users, must not close the API server's connections."""
    found: list[bool] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        assert isinstance(request.protocol, HttpConnection)
        found.append(request.protocol.has_deadline)
        return web.Response()

    async def story() -> None:
        listeners = Listeners(answer, authenticates=authenticates)
        port = await listeners.open(bound("127.0.0.1", 0))
        try:
            async with aiohttp.request("POST", f"http://127.0.0.1:{port}/"):
                pass
        finally:
            await listeners.close()

    asyncio.run(story())
    assert [authenticates] == found
