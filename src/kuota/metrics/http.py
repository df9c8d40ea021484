# SPDX-License-Identifier: Apache-2.0
"""Serves `/metrics`: over HTTPS to authorized callers, or over HTTP on loopback.

Gauges are read on the engine's event loop. A thread encodes them, which is most of the work if
there are many queues.
"""

from __future__ import annotations

import asyncio
import gzip
import logging
import socket
import ssl

from aiohttp import web
from prometheus_client import generate_latest

from kuota.kube.access import AccessRequest, AccessReviews
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import KubeError
from kuota.listening import Listeners
from kuota.loopback import InsecureAddress, is_loopback

from .families import CollectedFamilies
from .metrics import Metrics

PATH = "/metrics"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_SCRAPE = AccessRequest(verb="get", path=PATH)
_BEARER = "bearer "

_log = logging.getLogger(__name__)


class MetricsServer:
    """Serves scrapes until it is closed. `client` authorizes callers."""

    def __init__(self, metrics: Metrics, client: Client, clock: Clock | None = None) -> None:
        self._metrics = metrics
        self._reviews = AccessReviews(client, clock)
        self._turn = asyncio.Lock()
        self._listeners = Listeners(self._answer)

    async def serve(self, at: socket.socket, tls: ssl.SSLContext | None) -> int:
        """Serve on a listening socket until closed; returns the port.

        Without TLS callers are not authenticated, so any address but loopback raises
        InsecureAddress.
        """
        host = at.getsockname()[0]
        if tls is None and not is_loopback(host):
            raise InsecureAddress(
                f"metrics on {host} require TLS: provide a certificate, or listen on 127.0.0.1"
            )
        return await self._listeners.open(at, tls)

    async def close(self) -> None:
        """Close all connections after a grace period for requests in progress."""
        await self._listeners.close()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path != PATH:
            return web.Response(status=404, text="404 page not found\n")
        if request.method not in ("GET", "HEAD"):
            return web.Response(status=405, headers={"Allow": "GET, HEAD"})
        rejection = await self._rejection(request) if request.secure else None
        return rejection or await self._scraped(request)

    async def _rejection(self, request: web.BaseRequest) -> web.Response | None:
        """Return why the caller is rejected; None if it is authorized."""
        said = request.headers.get("Authorization", "")
        if not said.lower().startswith(_BEARER):
            return web.Response(status=401, text="Authentication failed\n")
        try:
            user = await self._reviews.user(said[len(_BEARER) :].strip())
            if user is None:
                return web.Response(status=401, text="Authentication failed\n")
            if await self._reviews.allows(user, _SCRAPE):
                return None
        except KubeError as error:
            _log.warning("cannot authorize a reader of metrics: %s", error)
            return web.Response(status=500, text="Authorization failed\n")
        return web.Response(status=403, text=f"Authorization denied for user {user.name}\n")

    async def _scraped(self, request: web.BaseRequest) -> web.Response:
        zipped = "gzip" in request.headers.get("Accept-Encoding", "")
        async with self._turn:
            body = await asyncio.to_thread(_written, self._metrics.collected(), zipped)
        headers = {"Content-Type": CONTENT_TYPE}
        if zipped:
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=body, headers=headers)


def _written(kept: CollectedFamilies, zipped: bool) -> bytes:
    text = generate_latest(kept)
    return gzip.compress(text, compresslevel=1) if zipped else text
