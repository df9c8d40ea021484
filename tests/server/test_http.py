# SPDX-License-Identifier: Apache-2.0
"""HTTP: authentication over TCP, TLS and the Unix socket; streams; limits; shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from kuota.connections import ConnectionLimits, Connections
from kuota.loopback import InsecureAddress
from kuota.pki.certificate import self_signed
from kuota.server.api import LARGEST_BODY, ApiServer
from kuota.server.auth import AccessAttributes
from kuota.server.fairness import RequestLimits
from kuota.server.http import LOOPBACK, HttpServer, server_context
from kuota.server.requests import Request, Response
from kuota.server.store import Store
from kuota.server.tokens import Tokens
from server.served import ADMIN, ANN

Work = Callable[[HttpServer, aiohttp.ClientSession], Awaitable[None]]


def serving(work: Work) -> None:
    """Run the work against a server on an empty store."""

    async def main() -> None:
        store = Store.open(":memory:")
        api = ApiServer(store, tokens=Tokens([("admin", ADMIN), ("ann", ANN)]))
        await api.start()
        server = HttpServer(api)
        async with aiohttp.ClientSession() as session:
            await asyncio.wait_for(work(server, session), 20)
        await server.close()
        await api.close()
        store.close()

    asyncio.run(main())


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_a_token_says_who_asks() -> None:
    async def work(server: HttpServer, session: aiohttp.ClientSession) -> None:
        url = f"http://127.0.0.1:{await server.listen()}/api/v1/namespaces"
        expected = {"admin": 200, "ann": 200, "nobodys": 401}
        for token, status in expected.items():
            async with session.get(url, headers=bearer(token)) as response:
                assert status == response.status
                assert "application/json" == response.content_type
        async with session.get(url) as response:
            assert (401, "Unauthorized") == (response.status, (await response.json())["reason"])
        basic = {"Authorization": "Basic YWRtaW46YWRtaW4="}
        async with session.get(url, headers=basic) as response:
            assert 401 == response.status

    serving(work)


def test_the_server_uses_the_limits_of_connections_that_it_is_given() -> None:
    async def work(server: HttpServer, _: aiohttp.ClientSession) -> None:
        connections = Connections(ConnectionLimits(total=40, per_user=2, per_peer=30))
        other = HttpServer(server._api, connections=connections)
        assert connections is other.connections
        assert connections is other._listeners.connections

    serving(work)


class Log(AsyncIterator[bytes]):
    """A log without output."""

    prefix = "/apis/log.example"
    closed = False

    def access(self, request: Request) -> AccessAttributes:
        return AccessAttributes(verb="get", path=request.path)

    def answer(self, request: Request) -> Response:
        return Response(200, self, long_running=True)

    async def __anext__(self) -> bytes:
        raise AssertionError("a rejected log is not read")

    async def aclose(self) -> None:
        self.closed = True


def test_a_log_that_is_rejected_after_it_was_opened_is_closed() -> None:
    async def work(server: HttpServer, session: aiohttp.ClientSession) -> None:
        log = Log()
        server._api.extensions.append(log)
        server.slots.limits = RequestLimits(streams=0)
        url = f"http://127.0.0.1:{await server.listen()}{log.prefix}/v1"
        async with session.get(url, headers=bearer("admin")) as response:
            assert 429 == response.status
        assert log.closed

    serving(work)


def test_the_socket_trusts_the_uid_at_its_other_end(tmp_path: Path) -> None:
    async def work(server: HttpServer, session: aiohttp.ClientSession) -> None:
        path = tmp_path / "api.sock"
        await server.listen_unix(path)
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(path))) as local:
            body = {"metadata": {"name": "by-uid"}}
            async with local.post("http://kuota/api/v1/namespaces", json=body) as response:
                assert 201 == response.status
        with pytest.raises(OSError, match="another server listens there"):
            await server.listen_unix(path)

    serving(work)
    assert not (tmp_path / "api.sock").exists()


def test_a_socket_left_behind_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "api.sock"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()

    async def work(server: HttpServer, session: aiohttp.ClientSession) -> None:
        await server.listen_unix(path)

    serving(work)


def test_other_addresses_need_tls(tmp_path: Path) -> None:
    async def work(server: HttpServer, session: aiohttp.ClientSession) -> None:
        with pytest.raises(InsecureAddress, match="is reachable from outside"):
            await server.listen("0.0.0.0")
        tls = server_context(tmp_path, datetime.now(UTC))
        port = await server.listen("0.0.0.0", tls=tls)
        trust = ssl.create_default_context(cafile=str(tmp_path / "server.crt"))
        url = f"https://localhost:{port}/version"
        async with session.get(url, ssl=trust) as response:
            assert "kuota" in (await response.json())["gitVersion"]

    serving(work)


def test_the_certificate_is_kept_and_its_key_is_private(tmp_path: Path) -> None:
    server_context(tmp_path, datetime.now(UTC))
    before = (tmp_path / "server.crt").read_bytes()
    server_context(tmp_path, datetime.now(UTC))
    assert before == (tmp_path / "server.crt").read_bytes()
    assert 0o600 == (tmp_path / "server.key").stat().st_mode & 0o777


def test_the_key_and_certificate_of_version_0_1_0_stay_in_use(tmp_path: Path) -> None:
    earlier = Path(__file__).parents[1] / "pki" / "made_by_0_1_0"
    files = {name: (earlier / name).read_bytes() for name in ("server.crt", "server.key")}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    server = server_context(tmp_path, datetime.now(UTC))
    assert files == {name: (tmp_path / name).read_bytes() for name in files}
    client = ssl.create_default_context(cadata=files["server.crt"].decode())
    # X509_V_FLAG_NO_CHECK_TIME of OpenSSL: this test outlives the certificate, which ends in 2036.
    client.verify_flags |= 0x200000
    for host in LOOPBACK:
        assert shaken(client, server, host)


def test_a_certificate_is_for_its_hosts_and_passes_strict_checks(tmp_path: Path) -> None:
    made = self_signed(LOOPBACK, datetime.now(UTC))
    (tmp_path / "c").write_bytes(made.certificate)
    (tmp_path / "k").write_bytes(made.key)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "c", tmp_path / "k")
    for host, good in (("localhost", True), ("127.0.0.1", True), ("example.com", False)):
        client = ssl.create_default_context(cafile=str(tmp_path / "c"))
        client.verify_flags |= ssl.VERIFY_X509_STRICT
        if good:
            assert shaken(client, server, host)
        else:
            with pytest.raises(ssl.SSLCertVerificationError):
                shaken(client, server, host)


def shaken(client: ssl.SSLContext, server: ssl.SSLContext, host: str) -> bool:
    """Whether the two come to a connection, in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    done: set[ssl.SSLObject] = set()
    for _ in range(10):
        for side in (ours, theirs):
            try:
                side.do_handshake()
                done.add(side)
            except ssl.SSLWantReadError:
                continue
    return len(done) == 2


def test_bodies_that_are_too_large_are_refused() -> None:
    async def work(server: HttpServer, session: aiohttp.ClientSession) -> None:
        url = f"http://127.0.0.1:{await server.listen()}/api/v1/namespaces"
        body = b"x" * (LARGEST_BODY + 1)
        sent = io.BytesIO(body)
        async with session.post(url, data=sent, headers=bearer("admin")) as response:
            assert (413, "RequestEntityTooLarge") == (
                response.status,
                (await response.json())["reason"],
            )

    serving(work)


async def watch(session: aiohttp.ClientSession, base: str, name: str) -> aiohttp.ClientResponse:
    """A watch of namespaces that has seen the one of that name being made."""
    admin = bearer("admin")
    response = await session.get(base, params={"watch": "true"}, headers=admin)
    assert b'"default"' in await response.content.readline()
    async with session.post(base, json={"metadata": {"name": name}}, headers=admin) as made:
        assert 201 == made.status
    while name.encode() not in await response.content.readline():
        continue
    return response


def test_a_watch_streams_and_ends_with_its_client() -> None:
    async def work(server: HttpServer, session: aiohttp.ClientSession) -> None:
        base = f"http://127.0.0.1:{await server.listen()}/api/v1/namespaces"
        for name in ("one", "two"):
            (await watch(session, base, name)).close()

    serving(work)


def test_a_stream_announces_that_its_connection_will_be_closed() -> None:
    async def work(server: HttpServer, session: aiohttp.ClientSession) -> None:
        base = f"http://127.0.0.1:{await server.listen()}/api/v1/namespaces"
        response = await watch(session, base, "one")
        assert "close" == response.headers["Connection"]
        response.close()

    serving(work)


def test_a_watch_ends_with_the_server() -> None:
    async def work(server: HttpServer, session: aiohttp.ClientSession) -> None:
        base = f"http://127.0.0.1:{await server.listen()}/api/v1/namespaces"
        response = await watch(session, base, "one")
        await server.close()
        with contextlib.suppress(aiohttp.ClientError):
            assert b"" == await response.content.readline()
        response.close()

    serving(work)


def test_warnings_travel_in_headers() -> None:
    async def work(server: HttpServer, session: aiohttp.ClientSession) -> None:
        root = f"http://127.0.0.1:{await server.listen()}"
        url = f"{root}/apis/kueue.x-k8s.io/v1beta1/cohorts"
        async with session.get(url, headers=bearer("admin")) as response:
            assert response.headers["Warning"].startswith('299 - "kueue.x-k8s.io/v1beta1 Cohort')

    serving(work)
