# SPDX-License-Identifier: Apache-2.0
"""The webhooks over real HTTPS."""

from __future__ import annotations

import asyncio
import io
import ssl
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
import msgspec
import pytest

from kuota.api.base import Json
from kuota.listening import bound
from kuota.pki.certificate import chain
from kuota.pki.serving import Chain, serving_context, show
from kuota.webhook.certificates import CertificateDirectory
from kuota.webhook.server import MOST_BYTES, Webhooks
from webhook.reviews import Objects, cluster_queue, job, review, workload

T = TypeVar("T")
WORKLOAD = "/validate-kueue-x-k8s-io-v1beta2-workload"
HOST = "127.0.0.1"


def made() -> Chain:
    return chain("test-ca", [HOST], datetime.now(UTC), timedelta(days=1))


def trusting(given: Chain) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=given.authority.decode())


class Served:
    def __init__(self, port: int, session: aiohttp.ClientSession) -> None:
        self.url = f"https://{HOST}:{port}"
        self.session = session

    async def post(self, path: str, body: bytes) -> tuple[int, Json]:
        headers = {"Content-Type": "application/json"}
        async with self.session.post(
            self.url + path, data=io.BytesIO(body), headers=headers
        ) as said:
            return said.status, msgspec.json.decode(await said.read())


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    given, webhooks, context = made(), Webhooks(Objects()), serving_context()
    show(context, given.pair)
    port = await webhooks.serve(bound(HOST, 0), context)
    connector = aiohttp.TCPConnector(ssl=trusting(given))
    try:
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Served(port, session)
    finally:
        await webhooks.close()


def run(story: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(story)


def test_a_body_that_does_not_arrive_ends_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kuota.webhook.server.BODY_S", 0.0)

    async def incomplete() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.Event().wait()

    async def story() -> int:
        async with (
            served() as server,
            server.session.post(server.url + WORKLOAD, data=incomplete()) as said,
        ):
            return said.status

    assert 408 == run(story())


def test_a_job_is_patched_and_a_queue_refused() -> None:
    async def story() -> None:
        async with served() as server:
            status, said = await server.post("/mutate-batch-v1-job", review(job(queue="q")))
            assert (200, True) == (status, said["response"]["allowed"])
            assert "JSONPatch" == said["response"]["patchType"]
            bad = cluster_queue(fairSharing={"weight": "-1"})
            path = "/validate-kueue-x-k8s-io-v1beta2-clusterqueue"
            status, said = await server.post(path, review(bad))
            assert (200, False) == (status, said["response"]["allowed"])

    run(story())


def test_conversion_has_its_path() -> None:
    async def story() -> None:
        request = {
            "uid": "u",
            "desiredAPIVersion": "kueue.x-k8s.io/v1beta1",
            "objects": [cluster_queue(cohortName="c")] * 50,
        }
        whole = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"}
        body = msgspec.json.encode(whole | {"request": request})
        async with served() as server:
            status, said = await server.post("/convert", body)
            assert 200 == status
            found = [each["spec"]["cohort"] for each in said["response"]["convertedObjects"]]
            assert ["c"] * 50 == found

    run(story())


def test_what_is_no_question_is_answered_with_a_status() -> None:
    async def story() -> None:
        async with served() as server:
            answers = [
                await server.post("/nothing", b"{}"),
                await server.post(WORKLOAD, b"{"),
                await server.post(WORKLOAD, b""),
                await server.post("/convert", b"\xff"),
                await server.post(WORKLOAD, b"x" * (MOST_BYTES + 1)),
            ]
            async with server.session.get(server.url + WORKLOAD) as said:
                answers.append((said.status, msgspec.json.decode(await said.read())))
            assert [404, 400, 400, 400, 413, 405] == [status for status, _ in answers]
            assert {"Status"} == {said["kind"] for _, said in answers}
            assert (await server.post(WORKLOAD, review(workload())))[1]["response"]["allowed"]

    run(story())


def test_the_largest_objects_are_reviewed() -> None:
    async def story() -> None:
        large = workload()
        container = large["spec"]["podSets"][0]["template"]["spec"]["containers"][0]
        container["env"] = [{"name": f"E{each}", "value": "x" * 50} for each in range(19_000)]
        body = review(large, "UPDATE", large)
        assert len(body) > 2_900_000
        async with served() as server:
            status, said = await server.post(WORKLOAD, body)
            assert (200, True) == (status, said["response"]["allowed"])

    run(story())


def test_many_ask_at_once() -> None:
    async def story() -> None:
        async with served() as server:
            asked = [server.post(WORKLOAD, review(workload(), name=f"w{n}")) for n in range(200)]
            said = await asyncio.gather(*asked)
            assert {200} == {status for status, _ in said}

    run(story())


def test_a_stop_does_not_wait_for_idle_connections() -> None:
    async def story() -> float:
        async with served() as server:
            await server.post(WORKLOAD, review(workload()))
            begin = time.monotonic()
        return time.monotonic() - begin

    # A stop that waits for a peer to end its TLS connection takes 30 s, which is asyncio's limit.
    assert run(story()) < 20


def test_a_directory_is_followed(tmp_path: Path) -> None:
    first, second = made(), made()

    def put(given: Chain) -> None:
        (tmp_path / "tls.crt").write_bytes(given.pair.certificate)
        (tmp_path / "tls.key").write_bytes(given.pair.key)

    async def speaks(port: int, given: Chain) -> bool:
        try:
            _, writer = await asyncio.open_connection(HOST, port, ssl=trusting(given))
        except ssl.SSLError:
            return False
        writer.close()
        return True

    async def story() -> None:
        context = serving_context()
        directory, webhooks = CertificateDirectory(tmp_path, context), Webhooks(Objects())
        directory.look()
        assert not directory.ready.is_set()
        put(first)
        directory.look()
        assert directory.ready.is_set()
        port = await webhooks.serve(bound(HOST, 0), context)
        assert await speaks(port, first)
        # A key that is not that of the certificate is not taken, and nothing is lost.
        (tmp_path / "tls.key").write_bytes(second.pair.key)
        directory.look()
        assert await speaks(port, first)
        put(second)
        directory.look()
        assert not await speaks(port, first)
        assert await speaks(port, second)
        await webhooks.close()

    run(story())
