# SPDX-License-Identifier: Apache-2.0
"""A real HTTP server on loopback for tests of the HTTP transport, and a clock that never waits."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime

from aiohttp import web

from kube.virtual_time import NOON

Respond = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class InstantClock:
    """Wakes sleepers at once and remembers how long they meant to sleep."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        return NOON

    def monotonic(self) -> float:
        return sum(self.slept)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)


@asynccontextmanager
async def serving(
    respond: Respond, *, tls: ssl.SSLContext | None = None, port: int = 0, unix: str = ""
) -> AsyncGenerator[str, None]:
    """Serve every path by the function; gives the server's address."""
    # Zero would mean for ever to aiohttp.
    runner = web.ServerRunner(web.Server(respond), shutdown_timeout=0.01)
    await runner.setup()
    site: web.BaseSite
    if unix:
        site = web.UnixSite(runner, unix)
    else:
        site = web.TCPSite(runner, "127.0.0.1", port, ssl_context=tls)
    await site.start()
    bound = runner.addresses[0]
    try:
        yield f"unix://{unix}" if unix else f"http{'s' if tls else ''}://127.0.0.1:{bound[1]}"
    finally:
        await runner.cleanup()
