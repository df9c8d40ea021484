# SPDX-License-Identifier: Apache-2.0
"""The clients of one process: one line to the server, and who may say what on it how fast.

The elector must never wait behind others, so it has no rate. Controllers write only while this
process leads. Whatever every replica does (certificates, asking who somebody is) needs no lease.
"""

from __future__ import annotations

from collections.abc import Callable

from kuota import __version__
from kuota.api.config.shapes import ClientConnection
from kuota.kube.client import Client
from kuota.kube.clock import Clock, SystemClock
from kuota.kube.config import Connection
from kuota.kube.http_client import HttpTransport
from kuota.kube.retry import Rate
from kuota.metrics.runtime import Runtime

QPS, BURST = 5.0, 10
"""What client-go does where a configuration says zero."""


class Clients:
    """Make them inside a running event loop; `close` lets go of the line."""

    def __init__(
        self,
        connection: Connection,
        limits: ClientConnection,
        may_write: Callable[[], bool],
        runtime: Runtime,
        clock: Clock | None = None,
    ) -> None:
        clock = clock or SystemClock()
        line = HttpTransport(connection, clock, agent=f"kuota/{__version__}")
        self._transport = runtime.transport(line, connection.server)
        rate = allowed(limits, clock)
        self.electing = Client(self._transport, clock=clock)
        self.every_replica = Client(self._transport, clock=clock, rate=rate)
        self.leading = Client(self._transport, clock=clock, rate=rate, may_write=may_write)

    async def close(self) -> None:
        await self._transport.close()


def allowed(limits: ClientConnection, clock: Clock) -> Rate | None:
    """How fast requests may leave; None for no limit, which a negative rate asks for."""
    qps = limits.qps or QPS
    if qps < 0:
        return None
    return Rate(clock, qps, max(1, limits.burst or BURST))
