# SPDX-License-Identifier: Apache-2.0
"""A worker cluster with faults, and a manager that connects to it, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from control.fake_api import FakeApi
from control.virtual import VirtualClock
from kuota.api.base import Json, Key
from kuota.control.checks.controller import Activity
from kuota.control.checks.multikueue.cluster_connection import WatchOptions
from kuota.control.checks.multikueue.cluster_connections import ClusterConnections
from kuota.control.checks.multikueue.remote import RemoteClusters
from kuota.kube.client import Client, Listing
from kuota.kube.config import Connection
from kuota.kube.decoding import WatchEvent
from kuota.kube.errors import ApiError, KubeError, NotFound, Unreachable
from kuota.kube.requests import Selection
from kuota.kube.resources import JOBS, NAMESPACES, Resource

JOB = ("batch", "Job")
HERE = Connection(server="https://here.example.com")


class Worker(FakeApi):
    """A worker cluster that can be made to fail. `refused` are errors by resource."""

    def __init__(self, clock: VirtualClock, uid: str = "worker") -> None:
        super().__init__(clock)
        self.uid = uid
        self.down: KubeError | None = None
        self._cause: KubeError | None = None
        self.refused: dict[Resource, ApiError] = {}
        self.silent = False
        self.closed = 0
        self._fall = asyncio.Event()
        self.answers: Json | None = None
        """What the server returns instead of a namespace."""
        self.listed: list[Json] | None = None
        """What the server returns instead of all objects."""

    def fail(self, error: KubeError) -> None:
        """Break all watches and fail from now on."""
        self.down = error
        self.cut(error)

    def cut(self, error: KubeError) -> None:
        """Break all watches."""
        self._cause = error
        self._fall.set()
        self._fall = asyncio.Event()

    def recover(self) -> None:
        self.down = None

    async def get(self, resource: Resource, key: Key) -> Json:
        if self.down is not None:
            raise self.down
        if resource == NAMESPACES:
            named = {"metadata": {"name": key.name, "uid": self.uid}}
            return named if self.answers is None else self.answers
        return await super().get(resource, key)

    async def fetch(self, path: str, query: dict[str, str] | None = None) -> Any:
        if self.silent:
            raise Unreachable("GET /version: the server did not respond in time")
        if self.down is not None:
            raise self.down
        if any(path == f"/apis/{each.api_version}" for each in self.refused):
            raise NotFound(404, "NotFound", "not found")
        return {}

    async def pages(
        self, resource: Resource, which: Selection, *, limit: int | None = None
    ) -> AsyncGenerator[Listing, None]:
        if self.down is not None:
            raise self.down
        if resource in self.refused:
            raise self.refused[resource]
        async for page in super().pages(resource, which, limit=limit):
            yield page if self.listed is None else Listing(self.listed, page.revision)

    async def watch(
        self, resource: Resource, namespace: str | None = None, **options: Any
    ) -> AsyncGenerator[WatchEvent, None]:
        fallen = asyncio.ensure_future(self._fall.wait())
        inner = super().watch(resource, namespace, **options)
        try:
            while True:
                following = asyncio.ensure_future(anext(inner))
                await asyncio.wait((following, fallen), return_when=asyncio.FIRST_COMPLETED)
                if fallen.done():
                    following.cancel()
                    assert self._cause is not None
                    raise self._cause
                yield following.result()
        finally:
            fallen.cancel()

    async def close(self) -> None:
        self.closed += 1


class Scene:
    """Links to fake workers, by the address of their server."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.workers: dict[str, Worker] = {"https://here.example.com": Worker(self.clock)}
        self.clusters = RemoteClusters()
        self.reports: list[tuple[float, str, Activity]] = []
        self.together: set[str] = set()
        """The clusters that a MultiKueueConfig names."""
        self.winners: set[str] = set()
        """The clusters that Workloads record."""
        self.connections = ClusterConnections(
            self.clusters,
            self._make,
            WatchOptions(kinds={JOB: JOBS}, origin="multikueue"),
            self.clock,
            self._changed,
            lambda: "manager",
            lambda one, other: {one, other} <= self.together,
            lambda name: name in self.winners,
        )

    @property
    def here(self) -> Worker:
        return self.workers["https://here.example.com"]

    def _make(self, name: str, connection: Connection) -> Client:
        return self.workers[connection.server]

    def _changed(self, name: str) -> None:
        state = self.connections.state(name)
        assert state is not None
        self.reports.append((self.clock.monotonic(), name, state))

    async def __aenter__(self) -> Scene:
        self._task = asyncio.ensure_future(self.connections.run())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def ended(self) -> None:
        """Raise the failure that ended all connections."""
        self._task.result()

    def last(self, name: str = "near") -> Activity:
        state = self.connections.state(name)
        assert state is not None
        return state


LOST = Unreachable("GET /x: the connection was refused")
