# SPDX-License-Identifier: Apache-2.0
"""The complete system with an in-memory API server that rejects some requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from control.fake_api import BY_KIND, FakeApi
from control.stage import CONFIG
from control.virtual import VirtualClock, played
from kuota.api.base import Key
from kuota.api.config.load import load
from kuota.api.gates import Gates
from kuota.control.system import System
from kuota.kube.client import Listing
from kuota.kube.errors import ServerError
from kuota.kube.requests import PatchBody
from kuota.kube.resources import Resource, key_of

from .case import Json

T = TypeVar("T")


class FailingApi(FakeApi):
    """Refuses to list kinds in `unlisted`, and to read and patch objects by name.

    Objects in `unreadable` cannot be read, those in `unwritable` not patched. `refused` counts all.
    """

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(clock)
        self.unlisted: set[str] = set()
        self.unreadable: set[str] = set()
        self.unwritable: set[str] = set()
        self.refused = 0
        self._holding = False

    async def list(
        self, resource: Resource, namespace: str | None = None, **options: Any
    ) -> Listing:
        if resource.kind in self.unlisted:
            raise self._refusal()
        return await super().list(resource, namespace, **options)

    async def get(self, resource: Resource, key: Key) -> Json:
        if key.name in self.unreadable:
            raise self._refusal()
        return await super().get(resource, key)

    async def patch(self, resource: Resource, key: Key, body: PatchBody, **options: Any) -> Json:
        if key.name in self.unwritable:
            raise self._refusal()
        return await super().patch(resource, key, body, **options)

    async def hold(self, objects: Iterable[Json]) -> None:
        """Store objects together with their status, unvalidated, as Go's fake client does."""
        self._holding = True
        for obj in objects:
            resource, key = BY_KIND[obj["kind"]], key_of(obj)
            await self.create(resource, obj)
            if obj.get("status"):
                status = {"status": obj["status"]}
                await super().patch(resource, key, status, subresource="status")
        self._holding = False

    def _check(self, obj: Json, old: Json | None) -> None:
        if not self._holding:
            super()._check(obj, old)

    def _refusal(self) -> ServerError:
        self.refused += 1
        return ServerError(500, "InternalError", "test error")


def after(
    objects: Iterable[Json],
    prepare: Callable[[FailingApi], None],
    look: Callable[[FailingApi, System], T],
    *,
    config: Json | None = None,
    gates: Gates | None = None,
    seconds: float = 5.0,
) -> T:
    """What `look` finds after so many seconds of a system over these objects."""

    async def story() -> T:
        clock = VirtualClock()
        api = FailingApi(clock)
        await api.hold(objects)
        prepare(api)
        cfg = load(json.dumps(CONFIG | config)) if config is not None else None
        system = System(api, config=cfg, gates=gates, clock=clock)
        running = asyncio.create_task(system.run())
        await asyncio.sleep(seconds)
        found = look(api, system)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return found

    return played(story())
