# SPDX-License-Identifier: Apache-2.0
"""The dashboard of a cluster in this process, in front of any API server."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from kuota.api.config.defaults import default_configuration
from kuota.api.gates import Gates
from kuota.controller.dashboard import DashboardPart
from kuota.controller.flags import ControllerSettings, DashboardSettings
from kuota.kube.client import Client
from kuota.kube.clock import SystemClock
from kuota.kube.config import Connection
from kuota.kube.http_client import HttpTransport
from kuota.listening import bound

TRUSTING = ssl.create_default_context()
TRUSTING.check_hostname = False
TRUSTING.verify_mode = ssl.CERT_NONE


class ClusterDashboard:
    """A dashboard that serves at `base`."""

    def __init__(self, port: int) -> None:
        self.base = f"https://127.0.0.1:{port}"

    def url(self, path: str) -> str:
        return f"{self.base}/dashboard/{path}"

    @asynccontextmanager
    async def browser(
        self, token: str = "", tls: ssl.SSLContext = TRUSTING
    ) -> AsyncIterator[aiohttp.ClientSession]:
        """A browser, signed in if a token is given."""
        jar = aiohttp.CookieJar(unsafe=True)
        connector = aiohttp.TCPConnector(ssl=tls)
        async with aiohttp.ClientSession(cookie_jar=jar, connector=connector) as session:
            if token:
                body = {"token": token}
                async with session.post(self.url("api/sign-in"), json=body) as response:
                    assert 204 == response.status, await response.text()
                    assert "Secure" in response.headers["Set-Cookie"]
            yield session

    async def session(self, browser: aiohttp.ClientSession, **headers: str) -> Any:
        """The session of the browser; None if it is not signed in."""
        async with browser.get(self.url("api/session"), headers=headers) as response:
            return await response.json() if response.status == 200 else None

    async def first_event(self, browser: aiohttp.ClientSession, query: str, **more: str) -> str:
        """The first event of a stream, as text."""
        url, headers = self.url(f"api/stream?{query}"), {"Accept": "text/event-stream", **more}
        async with browser.get(url, headers=headers) as response:
            assert 200 == response.status
            return (await response.content.readuntil(b"\n\n")).decode()


@asynccontextmanager
async def cluster_dashboard(
    connection: Connection, wanted: DashboardSettings | None = None
) -> AsyncIterator[ClusterDashboard]:
    """Serve the dashboard of the API server at this connection."""
    settings = ControllerSettings(
        config=default_configuration("kueue-system"),
        gates=Gates(),
        connection=connection,
        dashboard=wanted or DashboardSettings(),
    )
    clock, at = SystemClock(), bound("127.0.0.1", 0)
    client = Client(HttpTransport(connection, clock), clock=clock)
    port = int(at.getsockname()[1])
    serving = asyncio.create_task(DashboardPart(settings, client, clock).run(at))
    try:
        yield ClusterDashboard(port)
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)
        await client.close()
