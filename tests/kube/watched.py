# SPDX-License-Identifier: Apache-2.0
"""An informer of pods, and the changes that it reported."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from kube.scripted import Scripted
from kube.tiny_server import TinyServer
from kube.virtual_time import VirtualClock, run, settled
from kuota.api.base import Json
from kuota.kube.client import Client
from kuota.kube.informer import Informer
from kuota.kube.resources import PODS

PATH = "/api/v1/namespaces/team/pods"


class Watched:
    """An informer of pods on a tiny server, and what it told."""

    def __init__(self, server: TinyServer | Scripted, **options: Any) -> None:
        self.clock = VirtualClock()
        self.server = server
        client = Client(server, clock=self.clock)
        self.informer: Informer[Json] = Informer(client, PODS, "team", clock=self.clock, **options)
        self.observed: list[tuple[str, Any, Any]] = []
        self.informer.observe(self._note)

    def _note(self, old: Json | None, new: Json | None) -> None:
        either = new or old
        assert either is not None
        self.observed.append((either["metadata"]["name"], size_of(old), size_of(new)))

    def during(self, story: Callable[[], Awaitable[None]]) -> None:
        async def main() -> None:
            task = asyncio.create_task(self.informer.run())
            await settled()
            try:
                await story()
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        run(self.clock, main())

    async def moments_later(self) -> None:
        await self.clock.sleep(30)


def size_of(obj: Json | None) -> Any:
    return None if obj is None else obj.get("size")
