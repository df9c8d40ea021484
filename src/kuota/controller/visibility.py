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
        from kuota.visibility.explanation import ExplanationApi
        from kuota.visibility.http import VisibilityServer, serving
        from kuota.visibility.remote_pods import RemotePodsApi

        own = serving(self._settings.config).own
        context = certificates.context(self._settings.config)
        objects = WorldObjects(system.world)
        api = VisibilityApi(system.engine, objects)
        explanations = ExplanationApi(system.engine, objects)
        remote = system.checks.multikueue
        pods = None if remote is None else RemotePodsApi(remote.pods)
        server = VisibilityServer(api, explanations, self._client, self._clock, pods)
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
        """Use a certificate that the APIServices trust, if they verify certificates."""
        from kuota.visibility import explanation
        from kuota.visibility.pending import GROUP, VERSIONS
        from kuota.webhook.certificates import SECRET, ManagedCertificate
        from kuota.webhook.certificates import Settings as Wanted

        named = [f"{each}.{GROUP}" for each in VERSIONS]
        named.append(f"{explanation.VERSION}.{explanation.GROUP}")
        readable = [each for each in named if await self._may_read_api_service(each)]
        if not readable:
            _log.info("not allowed to read APIServices: they must skip certificate verification")
            return
        certs = self._settings.config.internal_cert_management or InternalCertManagement()
        wanted = Wanted(
            namespace=self._settings.namespace,
            secret=certs.webhook_secret_name or SECRET,
            service=SERVICE,
            api_services=tuple(readable),
            entry=ENTRY,
        )
        await ManagedCertificate(self._client, context, wanted, self._clock).run()

    async def _may_read_api_service(self, name: str) -> bool:
        """Whether the role allows it. Kueue's role does not; its APIServices trust anyone."""
        from kuota.webhook.injection import API_SERVICES

        try:
            await self._client.get(API_SERVICES, Key("", name))
        except Forbidden:
            return False
        except KubeError as error:
            _log.debug("APIService %s: %s", name, error)
        return True
