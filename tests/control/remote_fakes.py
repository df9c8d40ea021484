# SPDX-License-Identifier: Apache-2.0
"""Worker clusters in memory, which keep the contract of `RemoteClusters`."""

from __future__ import annotations

import asyncio

from control.fake_api import FakeApi
from kuota.control.checks.multikueue.remote import (
    RemoteCluster,
    RemoteClusters,
    Resources,
    remote_caches,
    synced,
)
from kuota.kube.clock import Clock


class FakeWorkers:
    """Connects `clusters` to one fake API server per name, in `apis`.

    Use `async with`: the caches of all connected clusters are followed until the block ends.
    """

    def __init__(self, clock: Clock, kinds: Resources, origin: str = "multikueue") -> None:
        self.clusters = RemoteClusters()
        self.apis: dict[str, FakeApi] = {}
        self._clock, self._kinds, self._origin = clock, kinds, origin
        self._tasks: dict[str, list[asyncio.Task[None]]] = {}

    async def __aenter__(self) -> FakeWorkers:
        return self

    async def __aexit__(self, *_: object) -> None:
        for name in list(self._tasks):
            await self._stop(name)

    def add(self, name: str) -> FakeApi:
        """Create a worker that is not connected yet."""
        self.clusters.add(name, self._now())
        return self.apis.setdefault(name, FakeApi(self._clock))

    async def connect(self, name: str) -> RemoteCluster:
        """Connect a worker: its caches are complete when this returns."""
        api = self.add(name)
        cluster = self.clusters.add(name, self._now())
        caches = remote_caches(self.clusters, name, api, self._kinds, self._origin, self._clock)
        cluster.attach(api, caches)
        self._tasks[name] = [asyncio.ensure_future(each.run()) for each in caches.values()]
        await synced(caches)
        self.clusters.mark_connected(name)
        return cluster

    async def disconnect(self, name: str) -> None:
        """Lose a worker. It keeps its objects and continues on its own."""
        await self._stop(name)
        self.clusters.mark_lost(name, self._now())

    async def remove(self, name: str) -> None:
        """Delete the MultiKueueCluster. The worker keeps its objects."""
        await self._stop(name)
        self.clusters.remove(name)

    async def _stop(self, name: str) -> None:
        tasks = self._tasks.pop(name, [])
        for each in tasks:
            each.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _now(self) -> float:
        return self._clock.now().timestamp()
