# SPDX-License-Identifier: Apache-2.0
"""A server with the dashboard's files and given models, for what no real server would send."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from aiohttp import web

from hang import HANG_S
from kuota.dashboard.responses import SECURITY_HEADERS
from kuota.dashboard.static_files import INDEX, StaticFiles

from .samples import Models

SESSION = {
    "user": "ann",
    "groups": ["vision"],
    "role": "admin",
    "namespaces": None,
    "csrf": "csrf-token",
    "server": "machine",
    "version": "0",
    "actions": True,
    "changes": {"Workload": None, "LocalQueue": ["vision"], "ClusterQueue": None},
}
WHOLE = ("teams", "usage", "waste", "history")


class Canned:
    """What the server answers. Tests change it from their own thread."""

    def __init__(self, models: Models) -> None:
        self.models = models
        self.session: dict[str, Any] | None = dict(SESSION)
        self.log = "first line\nsecond line\n"
        self.posted: list[dict[str, Any]] = []
        self.refusal = ""
        self.broken = False
        self.base = ""
        self._files = StaticFiles()
        self._streams: set[asyncio.Queue[bytes | None]] = set()
        self._loop = asyncio.new_event_loop()

    def send(self, event: str, data: object) -> None:
        """Send an event to all open streams."""
        self._each(_event(event, data))

    def break_streams(self) -> None:
        """Close the connections of all open streams."""
        self._each(None)

    def _each(self, given: bytes | None) -> None:
        for queue in list(self._streams):
            self._loop.call_soon_threadsafe(queue.put_nowait, given)

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path.removeprefix("/dashboard/")
        if path.startswith("static/"):
            return self._files.response(path.removeprefix("static/"), request)
        if not path.startswith("api/"):
            return self._files.response(INDEX, request)
        name = path.removeprefix("api/")
        if name == "sign-in":
            return await self._sign_in(request)
        if self.session is None:
            return _status(401, "sign in first")
        if name == "stream":
            return await self._stream(request)
        return await self._document(name, request)

    async def _document(self, name: str, request: web.BaseRequest) -> web.StreamResponse:
        if name == "session":
            return _json(self.session)
        if name == "logs":
            return web.Response(text=self.log, headers=SECURITY_HEADERS)
        if name in WHOLE and self.broken:
            return _status(503, "the server stops")
        if name in WHOLE:
            return _json(self.models[name])
        self.posted.append(await request.json())
        if self.refusal:
            return _status(403, self.refusal)
        return _json({"message": f"done by {request.headers['X-Kuota-CSRF']}"})

    async def _sign_in(self, request: web.BaseRequest) -> web.StreamResponse:
        given = await request.json()
        if "right" not in given.values():
            return _status(401, "the code is not valid: it was used, or is older than 5 minutes")
        self.session = dict(SESSION)
        return web.Response(status=204, headers=SECURITY_HEADERS)

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        view = request.query["view"]
        response = web.StreamResponse(
            headers={**SECURITY_HEADERS, "Content-Type": "text/event-stream"}
        )
        await response.prepare(request)
        queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._streams.add(queue)
        try:
            await response.write(_event("snapshot", {"view": view, "model": self.models[view]}))
            while (data := await queue.get()) is not None:
                await response.write(data)
        except ConnectionError:
            pass
        finally:
            self._streams.discard(queue)
        return response

    async def run(self, ready: threading.Event, stop: asyncio.Event) -> None:
        runner = web.ServerRunner(web.Server(self.answer), shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.base = f"http://127.0.0.1:{runner.addresses[0][1]}/dashboard/"
        ready.set()
        await stop.wait()
        self.break_streams()
        await runner.cleanup()

    @contextmanager
    def served(self) -> Iterator[Canned]:
        """Serve it from a thread of its own."""
        ready, stop = threading.Event(), asyncio.Event()
        thread = threading.Thread(
            target=self._loop.run_until_complete, args=(self.run(ready, stop),), daemon=True
        )
        thread.start()
        assert ready.wait(HANG_S), "the server does not start"
        yield self
        self._loop.call_soon_threadsafe(stop.set)
        thread.join(HANG_S)
        self._loop.close()


def _event(name: str, data: object) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))


def _json(document: object) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(document),
        headers={**SECURITY_HEADERS, "Content-Type": "application/json"},
    )


def _status(code: int, message: str) -> web.Response:
    response = _json({"kind": "Status", "code": code, "message": message})
    response.set_status(code)
    return response
