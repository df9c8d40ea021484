# SPDX-License-Identifier: Apache-2.0
"""Everything that one controller process runs, from start to stop.

Start order: open all ports, serve probes and webhooks, load the rest. Stop order: begin nothing
new, finish what was begun, block further writes, release the Lease, and close the servers last,
because clients may still be directed to them.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from kuota import __version__
from kuota.api.config.shapes import ClientConnection, LeaderElection
from kuota.control.parts import WRITING, Part
from kuota.kube.client import Client
from kuota.kube.clock import Clock, SystemClock, within
from kuota.kube.config import Connection
from kuota.kube.errors import KubeError
from kuota.kube.http_client import HttpTransport
from kuota.kube.requests import Transport
from kuota.kube.retry import Rates
from kuota.memory import calm_collector
from kuota.metrics.runtime import Runtime, host_of

from .devices import watch_devices
from .flags import ControllerSettings
from .history import LEASE_SUFFIX, HistoryPart
from .leadership import Leadership, leadership
from .metrics import MetricsPart, counts, load_metrics
from .ports import Ports, opened
from .visibility import VisibilityPart
from .webhooks import WebhookPart

if TYPE_CHECKING:
    from kuota.control.system import System

    from .probes import Check


QPS, BURST = 5.0, 10
"""The values that client-go uses if the configuration contains zero."""


class Clients:
    """The clients of one process, which share one connection pool.

    The elector must never wait for other requests, so it has no rate limit. Controllers write only
    while this process leads. Tasks of every replica (certificates, authentication) need no Lease.
    Create clients inside a running event loop.
    """

    def __init__(
        self,
        connection: Connection,
        limits: ClientConnection,
        may_write: Callable[[], bool],
        runtime: Runtime | None = None,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or SystemClock()
        self._transport: Transport = HttpTransport(connection, clock, agent=f"kuota/{__version__}")
        if runtime is not None:
            self._transport = runtime.transport(self._transport, host_of(connection.server))
        rates = allowed(limits, clock)
        self.electing = Client(self._transport, clock=clock)
        self.every_replica = Client(self._transport, clock=clock, rates=rates)
        self.leading = Client(
            self._transport, clock=clock, rates=rates, may_write=may_write, managed_fields=False
        )

    async def close(self) -> None:
        await self._transport.close()


def allowed(limits: ClientConnection, clock: Clock) -> Rates | None:
    """Return the rate limit for each resource; None for no limit, which a negative value means."""
    qps = limits.qps or QPS
    if qps < 0:
        return None
    return Rates(clock, qps, max(1, limits.burst or BURST))


FINISH_S = 0.3
"""How long a stop waits for work in progress."""
QUIET_S = 0.1
"""How long it then waits for writes that were already sent."""

_log = logging.getLogger(__name__)


class Controller:
    """One process. `run` returns after a stop, and raises `leadership.Lost` if leadership is lost.

    `on_lost` is called as soon as this is known.
    """

    def __init__(
        self, settings: ControllerSettings, on_lost: Callable[[], None] | None = None
    ) -> None:
        self._settings = settings
        self._on_lost = on_lost
        self._clock = SystemClock()
        self._leadership: Leadership | None = None
        # Nobody can read what is counted if metrics are not served.
        self._runtime = Runtime(self._clock) if counts(settings) else None
        self._clients = Clients(
            settings.connection,
            settings.config.client_connection or ClientConnection(),
            self._may_write,
            self._runtime,
            self._clock,
        )
        self._metrics = MetricsPart(
            settings, self._clients.every_replica, self._clock, self._runtime
        )
        self._history: HistoryPart | None = None
        if settings.history is not None:
            self._history = HistoryPart(
                settings, settings.history, self._clients.every_replica, self._clock
            )
        self._system: System | None = None
        self._made: asyncio.Future[System] = asyncio.get_running_loop().create_future()
        self._stopping = False
        self.ready: dict[str, Check] = {"running": self._running}

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set."""
        _log.info(
            "starting %s of %s in namespace %s",
            ", ".join(sorted(self._settings.parts)),
            self._settings.connection.server,
            self._settings.namespace,
        )
        for each in self._settings.without_effect:
            _log.info("%s has no effect", each)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._clients.close)
            ports = opened(self._settings)
            stack.callback(ports.close)
            await self._probe(ports.probes, stack)
            async with asyncio.TaskGroup() as group:
                if self._settings.parts & (WRITING | {Part.HISTORY}):
                    self._leadership = self._elected()
                serving = [group.create_task(each) for each in self._serving(ports)]
                writing = [group.create_task(each) for each in self._writing()]
                await stop.wait()
                await self._finish()
                await _cancelled(writing)
                if self._leadership is not None:
                    await self._leadership.release()
                await _cancelled(serving)
        _log.info("stopped")

    def _serving(self, ports: Ports) -> list[Coroutine[Any, Any, None]]:
        """The tasks that every replica runs from start to stop."""
        if self._history is not None:
            return [] if ports.visibility is None else [self._history.serve(ports.visibility)]
        found: list[Coroutine[Any, Any, None]] = []
        if ports.webhooks is not None:
            found.append(self._webhooks(ports.webhooks).run())
        found.append(self._metrics.run(self._leadership, ports.metrics))
        if ports.visibility is not None:
            found.append(self._visibility(ports.visibility))
        if ports.dashboard is not None:
            found.append(self._dashboard(ports.dashboard))
        return found

    def _writing(self) -> list[Coroutine[Any, Any, None]]:
        """The tasks that watch objects, and write while this process leads."""
        found: list[Coroutine[Any, Any, None]] = []
        if self._leadership is not None:
            found.append(self._leadership.run())
        if self._history is not None and self._leadership is not None:
            return [*found, self._history.record(self._leadership)]
        if self._settings.devices.sources and self._leadership is not None:
            found.append(self._watch_devices(self._leadership))
        found.append(self._control())
        return found

    async def _visibility(self, at: socket.socket) -> None:
        part = VisibilityPart(self._settings, self._clients.every_replica, self._clock)
        await part.run(await self._made, at)

    async def _watch_devices(self, leadership: Leadership) -> None:
        system, metrics = await asyncio.shield(self._made), await self._metrics.metrics()
        await leadership.leading()
        client = self._clients.leading
        await watch_devices(self._settings.devices, system, metrics, client, self._clock)

    async def _dashboard(self, at: socket.socket) -> None:
        from .dashboard import DashboardPart

        part = DashboardPart(self._settings, self._clients.every_replica, self._clock)
        await part.run(at)

    def _webhooks(self, at: socket.socket) -> WebhookPart:
        system = None if self._follows_nothing else lambda: self._system
        made = WebhookPart(self._settings, at, self._clients.every_replica, self._clock, system)
        self.ready["webhooks"] = made.ready
        return made

    @property
    def _follows_nothing(self) -> bool:
        """Whether all parts of this process look up objects themselves."""
        return self._settings.parts <= {Part.WEBHOOKS, Part.DASHBOARD}

    def _elected(self) -> Leadership:
        wanted = self._settings.config.leader_election or LeaderElection()
        if self._history is not None:
            name = f"{wanted.resource_name}{LEASE_SUFFIX}"
            wanted = msgspec.structs.replace(wanted, resource_name=name)
        return leadership(
            self._clients.electing,
            wanted,
            self._settings.namespace,
            on_lost=self._on_lost,
            clock=self._clock,
        )

    async def _control(self) -> None:
        # Loading modules takes as long as a webhook may take to respond, so a thread does it.
        made = await asyncio.to_thread(_imported)
        self._system = system = made(
            self._clients.leading,
            config=self._settings.config,
            gates=self._settings.gates,
            clock=self._clock,
            parts=self._settings.parts,
        )
        if self._runtime is not None:
            system.instrument = self._runtime.instrument
        self._metrics.watch(system, self._leadership)
        # Loaded modules are never freed, so the garbage collector need not visit them.
        calm_collector()
        self._made.set_result(system)
        if not self._follows_nothing:
            election = self._leadership
            await system.run(election.leading if election is not None and election.lease else None)

    async def _probe(self, at: socket.socket | None, stack: AsyncExitStack) -> None:
        if at is None:
            return
        from .probes import Probes

        probes = Probes(self._settings.config.health, self.ready)
        stack.push_async_callback(probes.close)
        port = await probes.serve(at)
        _log.info("serving probes on port %d", port)

    def _running(self) -> str:
        return "stopping" if self._stopping else ""

    def _may_write(self) -> bool:
        return self._leadership is not None and self._leadership.may_write()

    async def _finish(self) -> None:
        """Start no new work, and wait briefly for work in progress."""
        self._stopping = True
        _log.info("stopping")
        if self._system is not None:
            await self._for_a_moment(FINISH_S, self._system.finish)
        if self._leadership is not None:
            self._leadership.close()
        await self._for_a_moment(QUIET_S, self._clients.leading.quiet)

    async def _for_a_moment(self, seconds: float, work: Callable[[], Awaitable[None]]) -> None:
        async def done() -> None:
            await work()

        try:
            await within(self._clock, seconds, done())
        except TimeoutError:
            _log.warning("some work did not finish in time; the next leader continues it")
        except KubeError as error:
            _log.warning("some work could not be finished: %s", error)


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _imported() -> type[System]:
    from kuota.control.system import System

    load_metrics()
    return System
