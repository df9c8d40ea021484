# SPDX-License-Identifier: Apache-2.0
"""Sends open logs to clients, and ends those whose client does not read or may no longer read."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from aiohttp import web

from kuota.kube.errors import KubeError

from .remote_pods import TEXT, LogStream

MOST = 200
"""How many logs are open at a time."""
STALL_S = 30.0
"""How long a client may read nothing of what is sent to it."""
CHECK_S = 30.0
"""How often open logs are authorized again."""

Allowed = Callable[[web.BaseRequest], Awaitable[bool]]
_log = logging.getLogger(__name__)


class LogStreams:
    """The open logs. `allowed` tells whether the caller of a request may still read its log."""

    def __init__(self, allowed: Allowed) -> None:
        self._allowed = allowed
        self._open = 0

    async def send(self, request: web.BaseRequest, log: LogStream) -> web.StreamResponse:
        """Send a log until it ends, its client stalls, or it is no longer allowed."""
        if request.method == "HEAD":
            # What follows the headers would count as the response to the next request.
            await log.close()
            return web.Response(headers={"Content-Type": TEXT})
        if self._open >= MOST:
            await log.close()
            return web.Response(status=429, headers={"Retry-After": "5"}, text="too many open logs")
        self._open += 1
        stream = web.StreamResponse(headers={"Content-Type": TEXT})
        pump = asyncio.create_task(_pumped(request, stream, log))
        revoked = asyncio.create_task(self._revoked(request))
        try:
            await asyncio.wait((pump, revoked), return_when=asyncio.FIRST_COMPLETED)
            complete = pump.done() and pump.result()
        finally:
            self._open -= 1
            pump.cancel()
            revoked.cancel()
            await asyncio.gather(pump, revoked, return_exceptions=True)
        if not complete and request.transport is not None:
            # Without the last chunk, the client knows that this is not the end of the log.
            request.transport.abort()
        return stream

    async def _revoked(self, request: web.BaseRequest) -> None:
        """Return when the caller may no longer read the log."""
        while True:
            await asyncio.sleep(CHECK_S)
            try:
                if not await self._allowed(request):
                    return
            except KubeError as error:
                _log.warning("an open log could not be authorized again: %s", error)


async def _pumped(request: web.BaseRequest, stream: web.StreamResponse, log: LogStream) -> bool:
    """Send a log. Returns whether the client got all of it."""
    try:
        await stream.prepare(request)
        async with aclosing(log.chunks()) as chunks:
            async for chunk in chunks:
                async with asyncio.timeout(STALL_S):
                    await stream.write(chunk)
        await stream.write_eof()
    except (KubeError, ConnectionError, TimeoutError):
        return False
    return True
