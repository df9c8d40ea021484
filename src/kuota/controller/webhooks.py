# SPDX-License-Identifier: Apache-2.0
"""The webhooks of the controller: certificate, lookups, readiness.

Every replica serves them from its start. Until the caches of the controllers are filled, they fetch
objects from the API server.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from kuota.api.base import Json, Key
from kuota.api.config.shapes import InternalCertManagement
from kuota.kube.clock import Clock
from kuota.kube.resources import Resource
from kuota.loopback import is_loopback

from . import certificates
from .flags import ControllerSettings

if TYPE_CHECKING:
    import ssl

    from kuota.control.system import System
    from kuota.kube.client import Client
    from kuota.webhook.certificates import CertificateDirectory, ManagedCertificate

_log = logging.getLogger(__name__)


class WebhookPart:
    """Serves on a socket until cancelled.

    `system` returns the controllers of this process, once they exist.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        at: socket.socket,
        client: Client,
        clock: Clock,
        system: Callable[[], System | None] | None = None,
    ) -> None:
        self._settings = settings
        self._socket = at
        self._client = client
        self._clock = clock
        self._system = system
        self._fault = "certificates are not ready"

    def ready(self) -> str:
        """Why the webhooks do not respond; "" if they do."""
        return self._fault

    async def run(self) -> None:
        from kuota.kube.access import AccessReviews
        from kuota.webhook.lookup import CacheLookup, InformerLookup
        from kuota.webhook.server import Webhooks

        config, gates = self._settings.config, self._settings.gates
        context = certificates.context(config)
        certificate = self._certificate(context)
        async with asyncio.TaskGroup() as group:
            group.create_task(certificate.run())
            lookup: CacheLookup | InformerLookup
            if self._system is not None:
                lookup = CacheLookup(self._client, self._cached, self._full)
            else:
                lookup = InformerLookup(self._client, self._clock)
                group.create_task(lookup.run())
            await certificate.ready.wait()
            authors = AccessReviews(self._client, self._clock)
            server = Webhooks(
                lookup,
                config,
                gates,
                self._topology_levels,
                self._node_labels,
                authors if self._settings.record_authors else None,
            )
            try:
                port = await server.serve(self._socket, context)
                self._fault = ""
                _log.info("serving webhooks on port %d", port)
                await asyncio.Event().wait()
            finally:
                await server.close()

    def _certificate(self, context: ssl.SSLContext) -> ManagedCertificate | CertificateDirectory:
        config = self._settings.config
        if not certificates.managed(config):
            from kuota.webhook.certificates import CertificateDirectory

            return CertificateDirectory(
                certificates.webhook_directory(config), context, self._clock
            )
        from kuota.webhook.certificates import SECRET, ManagedCertificate
        from kuota.webhook.certificates import CertificateSettings as Wanted
        from kuota.webhook.manifests import SERVICE

        certs = config.internal_cert_management or InternalCertManagement()
        wanted = Wanted(
            namespace=self._settings.namespace,
            secret=certs.webhook_secret_name or SECRET,
            service=certs.webhook_service_name or SERVICE,
            # Replicas share the certificate, so it must not name the address of one of them.
            hosts=(config.webhook.host,) if is_loopback(config.webhook.host) else (),
        )
        return ManagedCertificate(self._client, context, wanted, self._clock)

    def _topology_levels(self) -> frozenset[str] | None:
        """The levels of all Topologies; None if this process does not watch them."""
        system = self._system() if self._system is not None else None
        if system is None or not system.cache.topologies.synced.is_set():
            return None
        return frozenset(
            level.node_label
            for each in system.cache.topologies.values()
            if each.value is not None
            for level in each.value.spec.levels or ()
        )

    def _node_labels(self) -> frozenset[str] | None:
        """The label keys of all nodes; None if this process does not watch them."""
        system = self._system() if self._system is not None else None
        return system.node_labels() if system is not None else None

    def _cached(self, resource: Resource, key: Key) -> Json | None:
        system = self._system() if self._system is not None else None
        return system.cache.json(resource, key) if system is not None else None

    def _full(self, resource: Resource) -> bool:
        system = self._system() if self._system is not None else None
        if system is None:
            return False
        found = (each for each in system.cache.informers() if each.resource == resource)
        return any(each.synced.is_set() for each in found)
