# SPDX-License-Identifier: Apache-2.0
"""The history of the controller: the leader records, and every replica serves."""

from __future__ import annotations

import asyncio
import socket

from kuota.failures import retried
from kuota.history.address import Address
from kuota.kube.client import Client
from kuota.kube.clock import Clock

from .aggregation import Aggregation, serve
from .flags import ControllerSettings
from .leadership import Leadership

SERVICE = "kueue-history-server"
SECRET = "kueue-history-server-cert"
"""The Secret with the certificate. The key of the webhooks is not for this process to read."""
LEASE_SUFFIX = "-history"
"""What distinguishes the Lease of recorders from that of the controllers."""


class HistoryPart:
    """Records and serves until cancelled."""

    def __init__(
        self, settings: ControllerSettings, address: Address, client: Client, clock: Clock
    ) -> None:
        self._settings = settings
        self._address = address
        self._client = client
        self._clock = clock

    async def record(self, leadership: Leadership) -> None:
        """Record as soon as this process leads."""
        from kuota.history.calls import InThread
        from kuota.history.quota_recorder import QuotaRecorder, quota_informers
        from kuota.history.recorder import HistoryRecorder

        await leadership.leading()
        # Neither a slow volume nor a remote database may delay the Lease.
        jobs = HistoryRecorder(
            self._client,
            self._address,
            self._clock,
            calls=InThread(),
            authors=self._settings.record_authors,
        )
        informers = quota_informers(self._client, self._clock)
        quotas = QuotaRecorder(
            informers, lambda obj: obj, self._address, self._clock, calls=InThread()
        )
        async with asyncio.TaskGroup() as group:
            for each in informers.values():
                group.create_task(each.run())
            group.create_task(retried("recording the history", jobs.run))
            group.create_task(retried("recording quotas", quotas.run))
            if self._settings.devices.sources:
                group.create_task(self._record_idle_devices())

    async def _record_idle_devices(self) -> None:
        from kuota.history.idle_recorder import IdleRecorder

        from .idle_history import record_idle_devices

        record = IdleRecorder(self._address).record
        await record_idle_devices(self._settings.devices, record, self._client, self._clock)

    async def serve(self, at: socket.socket) -> None:
        """Serve on the socket."""
        from kuota.history.api import GROUP, VERSION

        from .history_server import HistoryServer

        server = HistoryServer(self._address, self._client, self._clock)
        of = Aggregation("the history", SERVICE, (f"{VERSION}.{GROUP}",), secret=SECRET)
        await serve(server, of, at, self._settings, self._client, self._clock)
