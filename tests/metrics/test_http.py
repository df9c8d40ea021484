# SPDX-License-Identifier: Apache-2.0
"""Authorization of metrics readers, and the formats."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import closing
from typing import Any

import aiohttp
import pytest
import trustme

from kuota.api.base import Json
from kuota.engine.engine import Engine
from kuota.kube.errors import Unreachable
from kuota.kube.resources import Resource
from kuota.listening import bound
from kuota.loopback import InsecureAddress
from kuota.metrics.http import MetricsServer
from kuota.metrics.metrics import Metrics

PEOPLE = {"good": "prometheus", "bad": "mallory"}


class FakeAccessReviews:
    """An API server that knows who has which token, and lets one of them read metrics."""

    def __init__(self) -> None:
        self.asked: list[Json] = []
        self.down = False

    async def create(self, resource: Resource, obj: Json, **options: Any) -> Json:
        if self.down:
            raise Unreachable("no answer")
        self.asked.append(obj)
        spec = obj["spec"]
        if resource.kind == "TokenReview":
            name = PEOPLE.get(spec["token"])
            user = {"username": name, "groups": ["system:authenticated"]} if name else {}
            return obj | {"status": {"authenticated": bool(name), "user": user}}
        return obj | {"status": {"allowed": spec["user"] == "prometheus"}}


class Scraper:
    """A server over TLS, and a client that trusts it."""

    def __init__(self) -> None:
        self.api = FakeAccessReviews()
        self.server = MetricsServer(Metrics(Engine()), self.api)  # type: ignore[arg-type]
        self._authority = trustme.CA()

    async def __aenter__(self) -> Scraper:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._authority.issue_cert("127.0.0.1").configure_cert(tls)
        trusting = ssl.create_default_context()
        self._authority.configure_trust(trusting)
        port = await self.server.serve(bound("127.0.0.1", 0), tls)
        self._session = aiohttp.ClientSession(
            f"https://127.0.0.1:{port}", connector=aiohttp.TCPConnector(ssl=trusting)
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._session.close()
        await self.server.close()

    async def get(self, token: str = "", path: str = "/metrics") -> tuple[int, str]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with self._session.get(path, headers=headers) as answer:
            return answer.status, await answer.text()


def test_only_who_may_get_the_path_reads_metrics() -> None:
    async def story() -> None:
        async with Scraper() as scraper:
            assert 401 == (await scraper.get())[0]
            assert 401 == (await scraper.get("unknown"))[0]
            assert 403 == (await scraper.get("bad"))[0]
            status, text = await scraper.get("good")
            assert 200 == status
            assert "# TYPE kueue_build_info gauge\n" in text
            assert 404 == (await scraper.get("good", "/"))[0]
            access = scraper.api.asked[-1]["spec"]
            assert {"path": "/metrics", "verb": "get"} == access["nonResourceAttributes"]

    asyncio.run(story())


def test_answers_are_believed_for_a_while() -> None:
    async def story() -> None:
        async with Scraper() as scraper:
            for _ in range(3):
                await scraper.get("good")
            assert 2 == len(scraper.api.asked)

    asyncio.run(story())


def test_requests_are_rejected_while_the_api_server_is_unreachable() -> None:
    async def story() -> None:
        async with Scraper() as scraper:
            scraper.api.down = True
            assert (500, "Authorization failed\n") == await scraper.get("good")

    asyncio.run(story())


def test_plain_http_is_loopback_only_and_needs_no_review() -> None:
    async def story() -> None:
        api = FakeAccessReviews()
        server = MetricsServer(Metrics(Engine()), api)  # type: ignore[arg-type]
        for host in ("", "0.0.0.0"):
            with closing(bound(host, 0)) as at, pytest.raises(InsecureAddress):
                await server.serve(at, None)
        port = await server.serve(bound("127.0.0.1", 0), None)
        url = f"http://127.0.0.1:{port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            assert 200 == answer.status
            assert "text/plain; version=0.0.4; charset=utf-8" == answer.headers["Content-Type"]
            assert "gzip" == answer.headers["Content-Encoding"]
        await server.close()
        assert [] == api.asked

    asyncio.run(story())
