# SPDX-License-Identifier: Apache-2.0
"""The dashboard of a cluster, as a part of the controller or as a process of its own.

Viewers sign in with a token, which the API server reviews, or come through an authenticating proxy.
A proxy proves itself with a client certificate of a configured authority; headers of all other
callers are ignored. The API server decides what each viewer may read.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from aiohttp import web

from kuota import __version__
from kuota.bridge.settings import policy
from kuota.dashboard.access import ADMINS, BearerToken, Credential, ProxiedUser
from kuota.dashboard.assembly import DashboardDependencies, assembled
from kuota.dashboard.http import PREFIX, Dashboard
from kuota.dashboard.responses import plain
from kuota.kube.access import AccessRequest, AccessReviews, UserInfo
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.config import Connection, KubeconfigUser, Secret
from kuota.kube.errors import Forbidden
from kuota.kube.http_client import http_client
from kuota.kube.resources import LOCAL_QUEUES
from kuota.listening import Listeners
from kuota.utilization.exporters import SourceReader
from kuota.view.observed import ObservedState
from kuota.visibility.front_proxy import FrontProxy

from . import certificates
from .cluster_gpus import ClusterGpus
from .flags import ControllerSettings

CERTIFICATE = Path("/etc/kuota/dashboard/certs")
"""The directory of the certificate that browsers see, if the admin provides one."""
REVIEW_S = 30.0
"""How long the API server's answers about viewers are cached."""
MOST_REVIEWS = 8192
RECHECK_S = 10.0
NAMESPACES_S = 30.0
"""How often the namespaces with LocalQueues are listed."""
_NO_TOKEN = (
    "the dashboard knows you only by name, so it cannot read this for you; sign in with a token"
)
_log = logging.getLogger(__name__)


class ClusterAccess:
    """A `kuota.dashboard.access.ViewerAccess` by reviews of the API server."""

    def __init__(self, client: Client, connection: Connection, clock: Clock) -> None:
        self._client = client
        self._connection = connection
        self._clock = clock
        self._reviews = AccessReviews(client, clock, longest_s=REVIEW_S, most=MOST_REVIEWS)
        self._places: list[str] = []
        self._listed_at = -NAMESPACES_S

    async def user(self, credential: Credential) -> UserInfo | None:
        if isinstance(credential, BearerToken):
            return await self._reviews.user(credential.text)
        return credential.user if isinstance(credential, ProxiedUser) else None

    async def allows(self, user: UserInfo, request: AccessRequest) -> bool:
        return ADMINS in user.groups or await self._reviews.allows(user, request)

    @asynccontextmanager
    async def client(self, credential: Credential) -> AsyncIterator[Client]:
        if not isinstance(credential, BearerToken):
            raise Forbidden(403, "Forbidden", _NO_TOKEN)
        own = KubeconfigUser(token=Secret(credential.text))
        # Only the address is ours: nothing of the dashboard's own credentials may be sent.
        connection = msgspec.structs.replace(self._connection, user=own)
        client = http_client(connection, clock=self._clock, agent=f"kuota/{__version__}")
        try:
            yield client
        finally:
            await client.close()

    async def namespaces(self) -> list[str]:
        """Return the namespaces that have a LocalQueue."""
        now = self._clock.monotonic()
        if now - self._listed_at >= NAMESPACES_S:
            self._listed_at = now
            listed = await self._client.list(LOCAL_QUEUES)
            self._places = sorted({each["metadata"]["namespace"] for each in listed.items})
        return self._places


class DashboardPart:
    """Serves until cancelled."""

    def __init__(self, settings: ControllerSettings, client: Client, clock: Clock) -> None:
        self._settings = settings
        self._client = client
        self._clock = clock

    async def run(self, at: socket.socket) -> None:
        """Serve on the socket."""
        settings = self._settings
        access = ClusterAccess(self._client, settings.connection, self._clock)
        scheduling = policy(settings.config, settings.gates)
        proxy = _proxy(settings)
        gpus = self._gpus()
        made = assembled(
            DashboardDependencies(
                access=access,
                client=self._client,
                namespaces=access.namespaces,
                new_state=lambda: ObservedState(scheduling),
                server="cluster",
                recheck_s=RECHECK_S,
                proxy_user=lambda request: proxied_user(proxy, request),
                devices=gpus.rows if gpus is not None else None,
                actions=settings.dashboard.actions,
            )
        )
        tls = certificates.context(settings.config)
        if proxy is not None:
            tls.verify_mode = ssl.CERT_OPTIONAL
            tls.load_verify_locations(cadata=proxy.authority)
        listeners = Listeners(
            _Root(made.dashboard).answer, authenticates=True, handler_cancellation=True
        )
        async with asyncio.TaskGroup() as group:
            await certificates.shown(tls, CERTIFICATE, False, group, self._clock)
            if gpus is not None:
                group.create_task(gpus.run())
            try:
                port = await listeners.open(at, tls)
                _log.info("serving the dashboard on port %d", port)
                await asyncio.Event().wait()
            finally:
                await listeners.close()
                await made.feed.close()

    def _gpus(self) -> ClusterGpus | None:
        """Return the GPUs of exporters, if there are any."""
        devices = self._settings.devices
        if not devices.sources:
            return None
        read = SourceReader(devices.sources).read
        return ClusterGpus(read, devices.policy, self._client, self._clock)


class _Root:
    """Redirects the root of the server to the dashboard."""

    def __init__(self, dashboard: Dashboard) -> None:
        self._dashboard = dashboard

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.rel_url.raw_path in ("/", ""):
            response = plain(b"", "text/plain", 307)
            response.headers["Location"] = f"{PREFIX}/"
            return response
        return await self._dashboard.answer(request)


def proxied_user(proxy: FrontProxy | None, request: web.BaseRequest) -> UserInfo | None:
    """Return the user that a trusted proxy names; None for all other callers."""
    transport = request.transport
    shown = transport.get_extra_info("peercert") if transport is not None else None
    if proxy is None or not proxy.trusts(shown):
        return None
    headers: dict[str, list[str]] = {}
    for name, value in request.headers.items():
        headers.setdefault(name.lower(), []).append(value)
    return proxy.user(headers)


def _proxy(settings: ControllerSettings) -> FrontProxy | None:
    wanted = settings.dashboard
    if not wanted.proxy_authority:
        return None
    return FrontProxy(authority=wanted.proxy_authority, names=wanted.proxy_names)
