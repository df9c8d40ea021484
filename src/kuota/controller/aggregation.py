# SPDX-License-Identifier: Apache-2.0
"""Serves an aggregated API with a certificate that the API server trusts."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from typing import TYPE_CHECKING

import msgspec

from kuota.api.base import Key
from kuota.api.config.shapes import InternalCertManagement
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import Forbidden, KubeError

from . import certificates
from .flags import ControllerSettings

if TYPE_CHECKING:
    from kuota.visibility.aggregated import AggregatedServer

_log = logging.getLogger(__name__)


class Aggregation(msgspec.Struct, frozen=True):
    """The Service and the APIServices of a server, and its name in logs.

    Its certificate is in `secret`, or else in the Secret of the webhooks, under keys with the
    prefix `entry`.
    """

    name: str
    service: str
    api_services: tuple[str, ...]
    secret: str = ""
    entry: str = ""


async def serve(
    server: AggregatedServer,
    of: Aggregation,
    at: socket.socket,
    settings: ControllerSettings,
    client: Client,
    clock: Clock,
) -> None:
    """Serve on the socket until cancelled."""
    from kuota.visibility.aggregated import serving

    own = serving(settings.config).own
    context = certificates.context(settings.config)
    async with asyncio.TaskGroup() as group:
        # Start with a self-signed certificate; the trusted one follows.
        await certificates.shown(context, certificates.VISIBILITY, own, group, clock)
        if own:
            group.create_task(_manage(context, of, settings, client, clock))
        try:
            port = await server.serve(at, context)
            _log.info("serving %s on port %d", of.name, port)
            await server.run()
        finally:
            await server.close()


async def _manage(
    context: ssl.SSLContext,
    of: Aggregation,
    settings: ControllerSettings,
    client: Client,
    clock: Clock,
) -> None:
    """Use a certificate that the APIServices trust, if they verify certificates."""
    from kuota.webhook.certificates import SECRET, ManagedCertificate
    from kuota.webhook.certificates import CertificateSettings as Wanted

    readable = [each for each in of.api_services if await _may_read(client, each)]
    if not readable:
        _log.info("not allowed to read APIServices: they must skip certificate verification")
        return
    certs = settings.config.internal_cert_management or InternalCertManagement()
    wanted = Wanted(
        namespace=settings.namespace,
        secret=of.secret or certs.webhook_secret_name or SECRET,
        service=of.service,
        api_services=tuple(readable),
        entry=of.entry,
    )
    await ManagedCertificate(client, context, wanted, clock).run()


async def _may_read(client: Client, api_service: str) -> bool:
    """Whether the role allows it. Kueue's role does not; its APIServices trust anyone."""
    from kuota.webhook.injection import API_SERVICES

    try:
        await client.get(API_SERVICES, Key("", api_service))
    except Forbidden:
        return False
    except KubeError as error:
        _log.debug("APIService %s: %s", api_service, error)
    return True
