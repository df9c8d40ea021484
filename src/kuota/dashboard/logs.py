# SPDX-License-Identifier: Apache-2.0
"""Sends the log of a pod to those who may read it.

The API server serves the log to the token of the viewer. A viewer whom an authenticating proxy
named has no token here: the API server is asked whether this viewer may read the log, and then
serves it to the dashboard itself, whose role has this permission only if a proxy is configured.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

from aiohttp import web

from kuota.api.base import Key
from kuota.api.status import bad_request
from kuota.kube.access import AccessRequest as AccessRequest
from kuota.kube.client import Client
from kuota.kube.errors import Forbidden, KubeError, NotFound
from kuota.kube.requests import LogOptions
from kuota.kube.resources import ARCHIVED_PODS

from .access import ProxiedUser, ViewerAccess, lasting_s
from .responses import SECURITY_HEADERS
from .stream import STALL_S, StreamLimits
from .viewers import Viewer, Viewers

CHECK_S = 2.0
"""How often the credentials of the viewer of a log are checked again."""
MOST_LINES = 100_000
"""The most lines of the past that are sent."""
_TEXT = "text/plain; charset=utf-8"
_CONTINUES = (
    b"\n[The dashboard follows a log for a limited time for users behind a proxy. "
    b"Open the log again to continue.]\n"
)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


class Logs:
    """Serves logs of pods, also of deleted ones where the server keeps those."""

    def __init__(
        self, access: ViewerAccess, client: Client, viewers: Viewers, open_streams: StreamLimits
    ) -> None:
        self._access = access
        self._client = client
        self._viewers = viewers
        self._open = open_streams

    async def answer(self, request: web.BaseRequest, viewer: Viewer) -> web.StreamResponse:
        """Send the log. Raises StatusError, and KubeError if the API server rejects the request."""
        key, options = _parsed(request)
        async with (
            self._open.one_more(viewer.user),
            self._reader(viewer, key) as client,
            aclosing(await _opened(client, key, options)) as pieces,
        ):
            headers = {**SECURITY_HEADERS, "Cache-Control": "no-store", "Content-Type": _TEXT}
            response = web.StreamResponse(headers=headers)
            await response.prepare(request)
            sending = asyncio.create_task(_sent(response, pieces))
            last = b""
            try:
                last = await self._until_revoked(sending, viewer, key)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
            await _write(response, last)
            response.force_close()
            return response

    @asynccontextmanager
    async def _reader(self, viewer: Viewer, key: Key) -> AsyncIterator[Client]:
        """Return a client that may read this log for the viewer. Raises Forbidden."""
        if not isinstance(viewer.credential, ProxiedUser):
            async with self._access.client(viewer.credential) as client:
                yield client
        elif await self._may_read(viewer, key):
            yield self._client
        else:
            words = f"you may not read the log of pod {key.name} in namespace {key.namespace}"
            raise Forbidden(403, "Forbidden", words)

    async def _until_revoked(self, sending: asyncio.Task[None], viewer: Viewer, key: Key) -> bytes:
        """Wait until the log is sent, or may not be sent any longer. Returns a last line."""
        end_at = time.monotonic() + lasting_s(viewer.credential)
        while not sending.done():
            await asyncio.wait((sending,), timeout=CHECK_S)
            if not sending.done() and time.monotonic() >= end_at:
                return _CONTINUES
            if not sending.done() and not await self._may_read(viewer, key):
                return b""
        return b""

    async def _may_read(self, viewer: Viewer, key: Key) -> bool:
        user = await self._viewers.current(viewer)
        wanted = AccessRequest(
            verb="get",
            version="v1",
            resource="pods",
            subresource="log",
            namespace=key.namespace,
            name=key.name,
        )
        return user is not None and await self._access.allows(user, wanted)


async def _opened(client: Client, key: Key, options: LogOptions) -> AsyncGenerator[bytes, None]:
    """Return the log with its first piece read, so that a rejection is known before the headers."""
    try:
        return await _begun(client.log(key, options))
    except NotFound as error:
        try:
            return await _begun(client.log(key, options, pods=ARCHIVED_PODS))
        except (NotFound, Forbidden):
            # A cluster does not have the kind, and may say so to those only who may read it.
            raise error from None


async def _begun(pieces: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    waiting = asyncio.ensure_future(anext(pieces, b""))
    # The log of a silent process has no first piece; then there was no rejection either.
    await asyncio.wait((waiting,), timeout=1.0)
    if waiting.done():
        waiting.result()
    return _joined(waiting, pieces)


async def _joined(
    first: asyncio.Future[bytes], rest: AsyncGenerator[bytes, None]
) -> AsyncGenerator[bytes, None]:
    try:
        yield await first
        async for piece in rest:
            yield piece
    finally:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await rest.aclose()


async def _sent(response: web.StreamResponse, pieces: AsyncIterator[bytes]) -> None:
    try:
        async for piece in pieces:
            if not await _write(response, piece):
                return
    except KubeError:
        return  # The rest of the log cannot be read.


async def _write(response: web.StreamResponse, piece: bytes) -> bool:
    """Send a piece. Returns False if the client left or reads nothing."""
    try:
        if piece:
            async with asyncio.timeout(STALL_S):
                await response.write(piece)
    except (ConnectionError, TimeoutError):
        return False
    return True


def _parsed(request: web.BaseRequest) -> tuple[Key, LogOptions]:
    """Return the pod and the options. Raises StatusError with all faults."""
    query = request.rel_url.query
    faults = [
        f"{name} must be the name of a {name}"
        for name in ("namespace", "pod")
        if not _NAME.fullmatch(query.get(name, ""))
    ]
    tail = query.get("tail", "1000")
    if not (tail.isascii() and tail.isdigit() and len(tail) <= 9 and int(tail) <= MOST_LINES):
        faults.append(f"tail must be a number up to {MOST_LINES}")
    if faults:
        raise bad_request("; ".join(faults))
    key = Key(query["namespace"], query["pod"])
    options = LogOptions(
        container=query.get("container", ""),
        follow=_flag(query.get("follow")),
        previous=_flag(query.get("previous")),
        tail=int(tail),
    )
    return key, options


def _flag(text: str | None) -> bool:
    return (text or "").lower() in ("true", "1")
