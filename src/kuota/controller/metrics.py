# SPDX-License-Identifier: Apache-2.0
"""Collects and serves the metrics of the controller."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from kuota.failures import retried
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.metrics.runtime import Runtime

from . import certificates
from .flags import ControllerSettings, address
from .leadership import Leadership

if TYPE_CHECKING:
    from kuota.control.system import System
    from kuota.metrics.metrics import Metrics

_log = logging.getLogger(__name__)


def counts(settings: ControllerSettings) -> bool:
    """Whether metrics are served, or the readings of devices are reported as Events."""
    served = address(settings.config.metrics.bind_address) is not None
    return served or bool(settings.devices.sources)


class MetricsPart:
    """Collects the metrics of a system and serves them. Without a runtime it does nothing."""

    def __init__(
        self, settings: ControllerSettings, client: Client, clock: Clock, runtime: Runtime | None
    ) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock
        self._runtime = runtime
        self._watching: asyncio.Future[Metrics] = asyncio.get_running_loop().create_future()

    def watch(self, system: System, leadership: Leadership | None) -> None:
        """Observe the system. It must not have started yet."""
        if self._runtime is None:
            return
        from kuota.control.observer import (
            CacheReader,
            attach_dispatch_observer,
            attach_observer,
        )
        from kuota.metrics.config import metrics_config
        from kuota.metrics.metrics import Metrics

        wanted = metrics_config(self._settings.config, self._settings.gates)
        metrics = Metrics(system.engine, wanted, CacheReader(system.cache), self._clock)
        lease = leadership.lease if leadership is not None else ""
        metrics.show_process(self._runtime, lease=lease, depths=system.depths)
        attach_observer(metrics, system.driver, system.cache, self._clock)
        if system.checks.multikueue is not None:
            attach_dispatch_observer(metrics, system.checks.multikueue.dispatcher)
            system.checks.multikueue.count_requests = self._runtime.transport
        self._watching.set_result(metrics)

    async def metrics(self) -> Metrics:
        """Return the metrics once a system is observed."""
        return await asyncio.shield(self._watching)

    async def run(self, leadership: Leadership | None, at: socket.socket | None) -> None:
        """Serve on the socket, if there is one, until cancelled."""
        if self._runtime is None:
            return
        metrics = await self._watching
        async with asyncio.TaskGroup() as group:
            group.create_task(_tell_role(metrics, leadership))
            group.create_task(retried("sampling metrics", metrics.keep_sampling))
            if at is not None:
                group.create_task(self._serve(at, metrics))

    async def _serve(self, at: socket.socket, metrics: Metrics) -> None:
        from kuota.metrics.http import MetricsServer

        config = self._settings.config
        server = MetricsServer(metrics, self._client, self._clock)
        async with asyncio.TaskGroup() as group:
            context = None
            if not self._settings.plain_metrics:
                context = certificates.context(config)
                own = certificates.managed(config)
                await certificates.shown(context, certificates.METRICS, own, group, self._clock)
            try:
                port = await server.serve(at, context)
                _log.info("serving metrics on port %d", port)
                await asyncio.Event().wait()
            finally:
                await server.close()


async def _tell_role(metrics: Metrics, leadership: Leadership | None) -> None:
    from kuota.metrics.metrics import FOLLOWER, LEADER

    if leadership is None or not leadership.lease:
        return
    metrics.role = FOLLOWER
    await leadership.leading()
    metrics.role = LEADER


def load_metrics() -> None:
    """Import the modules that `watch` needs, which takes a while."""
    import kuota.control.observer
    import kuota.metrics.metrics  # noqa: F401
