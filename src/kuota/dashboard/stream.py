# SPDX-License-Identifier: Apache-2.0
"""Sends views to browsers as server-sent events, as long as their viewers may see them.

A viewer gets at most one event per tick. A viewer who reads slowly gets fewer, larger ones, and one
who reads nothing is disconnected. Permissions are checked while a stream is open: when they change,
the viewer gets a new snapshot, and when the credentials become invalid, the stream ends.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from kuota.api.status import StatusError, too_many, unauthorized, unavailable
from kuota.connections import decrement
from kuota.failures import report
from kuota.kube.access import UserInfo
from kuota.kube.errors import KubeError
from kuota.listening import HttpServerConnection

from .access import flow_of, lasting_s
from .feed import Feed
from .responses import SECURITY_HEADERS, from_kube
from .scopes import Scope, Scopes
from .viewers import Viewer, Viewers
from .views import TIME, Sent, View

HEARTBEAT_S = 15.0
STALL_S = 30.0
"""How long a client may read nothing of what is sent to it."""
READY_S = 30.0
"""How long a new viewer waits for the objects of the server."""
PIECE_BYTES = 64 << 10
STREAMS_PER_USER = 64
MOST_STREAMS = 512
_TYPE = "text/event-stream"
_HEARTBEAT = b":\n\n"

Find = Callable[[web.BaseRequest, Viewer], View]
"""Returns the view that a request names. Raises StatusError if there is none."""


class StreamLimits:
    """Counts open streams, and limits them."""

    def __init__(self) -> None:
        self._open: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._open.total()

    @asynccontextmanager
    async def one_more(self, user: UserInfo) -> AsyncIterator[None]:
        """Count a stream of the user. Raises StatusError if there are too many."""
        flow = flow_of(user)
        if self._open[flow] >= STREAMS_PER_USER or len(self) >= MOST_STREAMS:
            raise too_many("too many pages are open; close some of them")
        self._open[flow] += 1
        try:
            yield
        finally:
            decrement(self._open, flow)


class Streams:
    """Serves streams of views."""

    def __init__(
        self, feed: Feed, scopes: Scopes, viewers: Viewers, find: Find, open_streams: StreamLimits
    ) -> None:
        self._feed = feed
        self._scopes = scopes
        self._viewers = viewers
        self._find = find
        self._open = open_streams

    async def answer(self, request: web.BaseRequest, viewer: Viewer) -> web.StreamResponse:
        """Send the view until it ends. Raises StatusError if it cannot begin."""
        try:
            async with self._open.one_more(viewer.user), self._viewing():
                view = self._find(request, viewer)
                await self._scopes.check(viewer.user, view.name)
                events = EventStreamWriter(request)
                return await self._served(events, viewer, view)
        except StatusError as refusal:
            if _TYPE not in request.headers.get("Accept", ""):
                raise
            # A browser shows the page nothing of a response with an error status.
            return await EventStreamWriter(request).ended(refusal)

    @asynccontextmanager
    async def _viewing(self) -> AsyncIterator[None]:
        following = self._feed.viewing()
        try:
            async with asyncio.timeout(READY_S):
                await following.__aenter__()
        except TimeoutError:
            message = "the objects of the server cannot be read yet; see the log of the dashboard"
            raise unavailable(message) from None
        try:
            yield
        finally:
            await following.__aexit__(None, None, None)

    async def _served(
        self, events: EventStreamWriter, viewer: Viewer, view: View
    ) -> web.StreamResponse:
        try:
            await self._follow(events, viewer, view)
        except StatusError as refusal:
            return await events.ended(refusal)
        except KubeError as error:
            return await events.ended(from_kube(error))
        except ConnectionError:
            events.response.force_close()
        except Stalled:
            events.abort()
        except Exception as error:
            report("dashboard", error, f"the view {view.name} cannot be shown")
            message = "an error on the server; its log has the details"
            return await events.ended(StatusError(500, "InternalError", message))
        return events.response

    async def _follow(self, events: EventStreamWriter, viewer: Viewer, view: View) -> None:
        """Send events until the viewer leaves, or may not see the view any more.

        A stream that ends without an error is opened again by the browser.
        """
        clock, sent = time.monotonic, Sent()
        scope = await self._scopes.of(viewer.user)
        seen = await self._send_snapshot(events, view, scope, sent)
        check_at = clock() + self._scopes.ttl_s
        refresh_at = clock() + (view.refresh_s or math.inf)
        end_at = clock() + lasting_s(viewer.credential)
        while clock() < end_at:
            await asyncio.sleep(-clock() % view.pace_s)
            await self._feed.wait(seen, max(0.0, min(check_at, refresh_at) - clock()))
            await events.beat()
            if clock() >= check_at:
                before, scope = scope, await self._checked(viewer, view)
                check_at = clock() + self._scopes.ttl_s
                if scope != before:
                    seen = await self._send_snapshot(events, view, scope, sent)
            changes, tick = self._feed.changes(seen), self._feed.tick
            if changes is None:
                seen = await self._send_snapshot(events, view, scope, sent)
                continue
            if clock() >= refresh_at:
                refresh_at = clock() + (view.refresh_s or math.inf)
                changes = changes[0], changes[1] | {TIME}
            body = await view.change(scope, changes, sent)
            if body is not None:
                await events.send("change", (body,))
            seen = tick

    async def _send_snapshot(
        self, events: EventStreamWriter, view: View, scope: Scope, sent: Sent
    ) -> int:
        """Send everything, and return the tick whose changes it contains."""
        tick = self._feed.tick
        await events.send("snapshot", await view.snapshot(scope, sent))
        return tick

    async def _checked(self, viewer: Viewer, view: View) -> Scope:
        """Return the present permissions. Raises StatusError if the viewer may not see the view."""
        user = await self._viewers.current(viewer)
        if user is None:
            raise unauthorized("you were signed out: the session or its token has ended")
        await self._scopes.check(user, view.name)
        return await self._scopes.of(user)


class Stalled(Exception):
    """The client reads nothing."""


class EventStreamWriter:
    """Writes events to one client. Raises ConnectionError, and Stalled."""

    def __init__(self, request: web.BaseRequest) -> None:
        self._request = request
        headers = {
            **SECURITY_HEADERS,
            "Cache-Control": "no-store",
            "Content-Type": _TYPE,
            "X-Accel-Buffering": "no",
        }
        self.response = web.StreamResponse(headers=headers)
        self._written_at = time.monotonic()

    async def send(self, event: str, pieces: Iterable[bytes]) -> None:
        """Send an event whose data consists of these pieces, which contain no line break."""
        buffer = bytearray(f"event: {event}\ndata: ".encode())
        for piece in pieces:
            buffer += piece
            if len(buffer) >= PIECE_BYTES:
                await self._write(bytes(buffer))
                buffer.clear()
        await self._write(bytes(buffer) + b"\n\n")

    async def beat(self) -> None:
        """Send a comment if nothing was sent for some time."""
        if time.monotonic() - self._written_at >= HEARTBEAT_S:
            await self._write(_HEARTBEAT)

    async def ended(self, refusal: StatusError) -> web.StreamResponse:
        """Send the reason, and end the stream."""
        try:
            await self.send("error", (msgspec.json.encode(refusal.status()),))
            await self.response.write_eof()
        except ConnectionError:
            self.response.force_close()
        except Stalled:
            self.abort()
        return self.response

    def abort(self) -> None:
        """Close the connection without sending what is buffered."""
        connection = self._request.protocol
        if isinstance(connection, HttpServerConnection):
            connection.abort()

    async def _write(self, piece: bytes) -> None:
        try:
            async with asyncio.timeout(STALL_S):
                if not self.response.prepared:
                    await self.response.prepare(self._request)
                await self.response.write(piece)
        except TimeoutError:
            raise Stalled from None
        self._written_at = time.monotonic()
