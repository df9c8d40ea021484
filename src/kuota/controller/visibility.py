# SPDX-License-Identifier: Apache-2.0
"""The visibility API of the controller, which every replica serves."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from typing import TYPE_CHECKING

from kuota.api.base import Key
from kuota.api.config.shapes import InternalCertManagement
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import Forbidden, KubeError

from . import certificates
from .flags import Settings

if TYPE_CHECKING:
    from kuota.control.system import System

SERVICE = "kueue-visibility-server"
ENTRY = "visibility-"
"""The prefix of this certificate's keys in the Secret of the webhooks."""

_log = logging.getLogger(__name__)


class VisibilityPart:
    """Serves until cancelled, as soon as the queues are known."""

    def __init__(self, settings: Settings, client: Client, clock: Clock) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock

    async def run(self, system: System, at: socket.socket) -> None:
        """Serve on the socket."""
        await system.world.ready()
        from kuota.control.observer import WorldObjects
        from kuota.visibility.api import VisibilityApi
        from kuota.visibility.http import VisibilityServer, serving

        own = serving(self._settings.config).own
        context = certificates.context(self._settings.config)
        api = VisibilityApi(system.engine, WorldObjects(system.world))
        server = VisibilityServer(api, self._client, self._clock)
        async with asyncio.TaskGroup() as group:
            # Start with a self-signed certificate; the trusted one follows.
            await certificates.shown(context, certificates.VISIBILITY, own, group, self._clock)
            if own:
                group.create_task(self._manage(context))
            try:
                port = await server.serve(at, context)
                _log.info("serving the visibility API on port %d", port)
                await server.run()
            finally:
                await server.close()

    async def _manage(self, context: ssl.SSLContext) -> None:
        """Use a certificate that the APIService trusts, if it verifies certificates."""
        from kuota.visibility.pending import GROUP, VERSIONS
        from kuota.webhook.certificates import SECRET, ManagedCertificate
        from kuota.webhook.certificates import Settings as Wanted

        certs = self._settings.config.internal_cert_management or InternalCertManagement()
        wanted = Wanted(
            namespace=self._settings.namespace,
            secret=certs.webhook_secret_name or SECRET,
            service=SERVICE,
            api_services=tuple(f"{each}.{GROUP}" for each in VERSIONS),
            entry=ENTRY,
        )
        if await self._may_say_whom_to_trust(wanted.api_services[0]):
            await ManagedCertificate(self._client, context, wanted, self._clock).run()

    async def _may_say_whom_to_trust(self, api_service: str) -> bool:
        """Whether we may read APIServices. Kueue's role may not; its APIServices trust anyone."""
        from kuota.webhook.injection import API_SERVICES

        try:
            await self._client.get(API_SERVICES, Key("", api_service))
        except Forbidden:
            _log.info("not allowed to read APIServices: they must skip certificate verification")
            return False
        except KubeError as error:
            _log.debug("APIServices: %s", error)
        return True
