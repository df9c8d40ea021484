# SPDX-License-Identifier: Apache-2.0
"""A dashboard on the embedded server, in this process, with two teams and an admin."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from kuota.dashboard.assembly import AssembledDashboard
from kuota.history.address import SqliteFile
from kuota.server.api import ApiServer
from kuota.server.http import HttpServer
from kuota.server.pods import LogSource
from kuota.server.requests import ADMINS, User
from kuota.server.store import Store
from kuota.server.tokens import EVERYBODY, TokenFile, Tokens
from kuota.up.dashboard import machine_dashboard
from kuota.up.history_extension import HistoryExtension
from kuota.up.local import local_client

TOKENS = {
    "admin-token": User("admin", (ADMINS, EVERYBODY)),
    "ann-token": User("ann", ("vision", EVERYBODY)),
    "bob-token": User("bob", ("speech", EVERYBODY)),
}
CODES = "/apis/dashboard.kuota.dev/v1alpha1/signincodes"


class Served:
    """A running dashboard and its parts."""

    def __init__(
        self, api: ApiServer, http: HttpServer, port: int, dashboard: AssembledDashboard
    ) -> None:
        self.dashboard = dashboard
        self.api = api
        self.http = http
        self.base = f"http://127.0.0.1:{port}"
        self.client = local_client(api)

    def url(self, path: str) -> str:
        return f"{self.base}/dashboard/{path}"

    async def code(self, token: str) -> str:
        """A one-time code for the holder of a token."""
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.base + CODES, headers=bearer(token), json={}) as response,
        ):
            assert 201 == response.status, await response.text()
            return str((await response.json())["code"])

    @asynccontextmanager
    async def browser(self, token: str = "") -> AsyncIterator[aiohttp.ClientSession]:
        """A browser, signed in if a token is given."""
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            if token:
                body = {"code": await self.code(token)}
                async with session.post(self.url("api/sign-in"), json=body) as response:
                    assert 204 == response.status, await response.text()
            yield session

    async def json(self, session: aiohttp.ClientSession, path: str) -> Any:
        async with session.get(self.url(path)) as response:
            assert 200 == response.status, await response.text()
            return await response.json()


Work = Callable[[Served], Awaitable[None]]


def serving(
    work: Work,
    tokens: Tokens | TokenFile | None = None,
    *,
    logs: LogSource | None = None,
    history: str = "",
    actions: bool = False,
) -> None:
    """Run the work against a dashboard on a new store with the namespaces vision and speech."""

    async def main() -> None:
        store = Store.open(":memory:")
        api = ApiServer(store, tokens=tokens or Tokens(TOKENS.items()), logs=logs)
        await api.start()
        http = HttpServer(api)
        for team in ("vision", "speech"):
            labels = {"kuota.dev/team": team}
            store.create("namespaces", {"metadata": {"name": team, "labels": labels}})
        if history:
            file = SqliteFile(history)
            api.extensions.append(HistoryExtension(file, time.time, api.roles))
        found = machine_dashboard(api, actions=actions)
        http.mount("/dashboard", found.dashboard.answer)
        try:
            port = await http.listen()
            await asyncio.wait_for(work(Served(api, http, port, found)), 20)
        finally:
            await http.close()
            await found.feed.close()
            await api.close()
            store.close()

    asyncio.run(main())


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}
