# SPDX-License-Identifier: Apache-2.0
"""The embedded API server in this process, and a client that talks to it without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from hang import HANG_S
from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.errors import NotFound
from kuota.kube.resources import NAMESPACES, Resource
from kuota.server.api import ApiServer
from kuota.server.store import Store
from kuota.up.local import local_client


class Cluster:
    """A server with one namespace, and waiting for its objects to be in some state."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def until(
        self, resource: Resource, name: str, claim: Callable[[Json], Any], namespace: str = "team"
    ) -> Json:
        """The object, once the claim about it holds."""
        key = Key(namespace if resource.namespaced else "", name)
        async with asyncio.timeout(HANG_S):
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
        async with asyncio.timeout(HANG_S):
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
        async with asyncio.timeout(HANG_S):
            listing = await self.client.list(resource)
            async with aclosing(self.client.watch(resource, since=listing.revision)) as events:
                while True:
                    try:
                        await self.client.get(resource, key)
                    except NotFound:
                        return
                    await anext(events)


class RecordedEvents(list[str]):
    """A recorder that remembers what was said, and nothing else."""

    def __init__(self) -> None:
        self.heard = asyncio.Event()

    def record(self, regarding: Json, reason: str, note: str, **more: Any) -> None:
        self.heard.set()
        self.append(f"{'!' * more.get('warning', False)}{reason}: {note}")


@asynccontextmanager
async def cluster() -> AsyncIterator[Cluster]:
    store = Store.open(":memory:")
    server = ApiServer(store)
    await server.start()
    client = local_client(server)
    await client.create(NAMESPACES, {"metadata": {"name": "team"}})
    try:
        yield Cluster(client)
    finally:
        await server.close()
        store.close()
