# SPDX-License-Identifier: Apache-2.0
"""An informer over HTTP survives a restart of its server."""

from __future__ import annotations

import asyncio

from aiohttp import web

from hang import HANG_S
from kube.scripted import line
from kube.web_server import InstantClock, Respond, serving
from kuota.api.base import Json
from kuota.kube.config import Connection
from kuota.kube.http_client import http_client
from kuota.kube.informer import Informer
from kuota.kube.resources import PODS

UNSUPPORTED = {"kind": "Status", "code": 422, "reason": "Invalid"}
FORGOTTEN = {"kind": "Status", "code": 410, "reason": "Expired"}


def one_pod(name: str, revision: str) -> Respond:
    """A server with one pod, which knows of nothing before that revision."""
    metadata = {"namespace": "team", "name": name, "resourceVersion": revision}
    page = {"metadata": {"resourceVersion": revision}, "items": [{"metadata": metadata}]}

    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        if "watch" not in request.query:
            return web.json_response(page)
        if "sendInitialEvents" in request.query:
            return web.json_response(UNSUPPORTED, status=422)
        response = web.StreamResponse()
        await response.prepare(request)
        if request.query["resourceVersion"] == revision:
            await asyncio.Event().wait()
        await response.write(line("ERROR", FORGOTTEN))
        return response

    return respond


class ObservedChanges:
    """What an informer told, and a way to wait for more of it."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._grown = asyncio.Event()

    def note(self, old: Json | None, new: Json | None) -> None:
        name = (new or old or {})["metadata"]["name"]
        self.names.append(f"+{name}" if new else f"-{name}")
        self._grown.set()

    async def reaches(self, length: int) -> None:
        while len(self.names) < length:
            await self._grown.wait()
            self._grown.clear()


def test_a_server_that_comes_back_with_another_past_is_listed_anew() -> None:
    async def main() -> list[str]:
        changes = ObservedChanges()
        async with serving(one_pod("a", "1")) as server:
            client = http_client(Connection(server=server))
            informer: Informer[Json] = Informer(client, PODS, clock=InstantClock())
            informer.observe(changes.note)
            task = asyncio.create_task(informer.run())
            await informer.synced.wait()
        async with (
            serving(one_pod("b", "2"), port=int(server.rsplit(":", 1)[1])),
            asyncio.timeout(HANG_S),
        ):
            await changes.reaches(3)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await client.close()
        return changes.names

    assert ["+a", "+b", "-a"] == asyncio.run(main())
