# SPDX-License-Identifier: Apache-2.0
"""The embedded API server in this process, and a client that talks to it without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from kuota.api.base import Json, Key
from kuota.kube.client import Client, RestClient
from kuota.kube.errors import NotFound, response_error
from kuota.kube.requests import HttpRequest, HttpResponse
from kuota.kube.resources import NAMESPACES, Resource
from kuota.server.api import ApiServer
from kuota.server.requests import ADMINS, Request, Response, User
from kuota.server.store import Store

LIMIT_S = 30
_ADMIN = User("admin", (ADMINS,))


class InProcess:
    """A transport to a server in this process."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def send(self, request: HttpRequest) -> HttpResponse:
        answer = await self._ask(request)
        body = answer.body
        if not isinstance(body, bytes):
            body = b"".join([each async for each in body])
        return HttpResponse(answer.status, {}, body)

    async def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        answer = await self._ask(request)
        if isinstance(answer.body, bytes):
            if answer.status >= 300:
                raise response_error(answer.status, {}, answer.body)
            yield answer.body
            return
        async for chunk in answer.body:
            yield chunk

    async def close(self) -> None:
        return None

    async def _ask(self, request: HttpRequest) -> Response:
        return await self._server.handle(
            Request(
                method=request.method,
                path=request.path,
                query=request.query,
                headers=request.headers,
                body=request.body,
                user=_ADMIN,
            )
        )


class Cluster:
    """A server with one namespace, and waiting for its objects to be in some state."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def until(
        self, resource: Resource, name: str, claim: Callable[[Json], Any], namespace: str = "team"
    ) -> Json:
        """The object, once the claim about it holds."""
        key = Key(namespace if resource.namespaced else "", name)
        async with asyncio.timeout(LIMIT_S):
            listing = await self.client.list(resource)
            for obj in listing.items:
                if obj["metadata"]["name"] == name and claim({"status": {}, **obj}):
                    return obj
            watch = self.client.watch(resource, since=listing.revision)
            async with aclosing(watch) as events:
                async for event in events:
                    named = event.object["metadata"]["name"] == key.name
                    if named and event.type != "DELETED" and claim({"status": {}, **event.object}):
                        return event.object
        raise AssertionError(f"the watch of {resource} ended")

    async def some(
        self, resource: Resource, claim: Callable[[list[Json]], Any], **which: str
    ) -> list[Json]:
        """All objects of a kind, once the claim about them holds."""
        async with asyncio.timeout(LIMIT_S):
            listing = await self.client.list(resource, "team", **which)
            watch = self.client.watch(resource, since=listing.revision)
            async with aclosing(watch) as events:
                while not claim(listing.items):
                    await anext(events)
                    listing = await self.client.list(resource, "team", **which)
        return listing.items

    async def gone(self, resource: Resource, name: str) -> None:
        """Return once there is no such object."""
        key = Key("team" if resource.namespaced else "", name)
        async with asyncio.timeout(LIMIT_S):
            listing = await self.client.list(resource)
            async with aclosing(self.client.watch(resource, since=listing.revision)) as events:
                while True:
                    try:
                        await self.client.get(resource, key)
                    except NotFound:
                        return
                    await anext(events)


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    store = Store.open(":memory:")
    server = ApiServer(store)
    await server.start()
    client = RestClient(InProcess(server))
    await client.create(NAMESPACES, {"metadata": {"name": "team"}})
    try:
        yield Cluster(client)
    finally:
        await server.close()
        store.close()
