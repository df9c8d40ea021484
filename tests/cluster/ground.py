# SPDX-License-Identifier: Apache-2.0
"""The servers that tests of this folder run on: an API server and a Job controller.

Both kinds implement one contract, so that every test passes on both: the embedded server with our
own Job controller in this process, and a real API server with Kubernetes' controllers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Protocol

from cluster.kube_server import KubeServer
from hang import HANG_S
from kuota.api.base import Json
from kuota.kube.client import Client
from kuota.kube.http_client import HttpTransport
from kuota.kube.informer import Informer
from kuota.kube.requests import Transport
from kuota.kube.resources import JOBS
from kuota.runner.job_controller import JobController
from kuota.runner.job_rules import ReplacementBackoff
from kuota.server.api import ApiServer
from kuota.server.store import Store
from kuota.up.local import SYSTEM, LocalTransport
from runner.pods import runner_pods

Wrap = Callable[[Transport], Transport]


class Ground(Protocol):
    """A server that answers. `client` makes a new client, whose requests may go through `wrap`."""

    def client(self, wrap: Wrap | None = None) -> Client:
        """A client that may do everything."""


Grounds = Callable[[], AbstractAsyncContextManager[Ground]]
"""Makes ground to tell one story on, inside a running loop."""


class Embedded:
    """The embedded server, as `kuota up` runs it."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api

    def client(self, wrap: Wrap | None = None) -> Client:
        return _client(LocalTransport(self._api, SYSTEM), wrap)


class Real:
    """A real API server; the sockets to it are closed at the end."""

    def __init__(self, server: KubeServer) -> None:
        self._server = server
        self._transports: list[HttpTransport] = []

    def client(self, wrap: Wrap | None = None) -> Client:
        transport = HttpTransport(self._server.connection())
        self._transports.append(transport)
        return _client(transport, wrap)

    async def close(self) -> None:
        for each in self._transports:
            await each.close()
        await _goodbyes()


async def _goodbyes() -> None:
    """A request that was cut off still says goodbye in TLS, and needs the loop to do so."""
    known = getattr(asyncio.get_running_loop(), "_transports", {})
    async with asyncio.timeout(HANG_S):
        while any(getattr(each, "_sock", None) is not None for each in list(known.values())):
            await asyncio.sleep(0.01)


def _client(transport: Transport, wrap: Wrap | None) -> Client:
    return Client(wrap(transport) if wrap is not None else transport)


@asynccontextmanager
async def embedded() -> AsyncIterator[Ground]:
    """A new server with nothing on it, and a Job controller."""
    store = Store.open(":memory:")
    api = ApiServer(store)
    await api.start()
    ground = Embedded(api)
    jobs_at_work = asyncio.create_task(_job_controller(ground.client()))
    try:
        yield ground
    finally:
        jobs_at_work.cancel()
        await asyncio.gather(jobs_at_work, return_exceptions=True)
        await api.close()
        store.close()


async def _job_controller(client: Client) -> None:
    jobs = Informer[Json](client, JOBS)
    pods = runner_pods(client)
    controller = JobController(client, jobs, pods, backoff=ReplacementBackoff(first_s=0.05))
    async with asyncio.TaskGroup() as group:
        for each in (jobs, pods, controller):
            group.create_task(each.run())


def real(server: KubeServer) -> Grounds:
    """Ground on a server that runs already, and which others have used before."""

    @asynccontextmanager
    async def made() -> AsyncIterator[Ground]:
        ground = Real(server)
        try:
            yield ground
        finally:
            await ground.close()

    return made
