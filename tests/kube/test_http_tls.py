# SPDX-License-Identifier: Apache-2.0
"""TLS of the HTTP client: trusted authorities and client certificates."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web

from kube.certificates import folder
from kube.web_server import InstantClock, serving
from kuota.kube.auth import FRESH_S
from kuota.kube.config import Connection, KubeconfigUser, Pem, Secret
from kuota.kube.errors import Unreachable
from kuota.kube.http_client import http_client
from kuota.kube.http_route import proxy_for
from kuota.kube.resources import PODS

CERTS = folder()
AUTHORITY = Pem(text=Secret((CERTS / "ca.crt").read_text()))
ALICE = KubeconfigUser(
    certificate=Pem(file=str(CERTS / "client.crt")),
    key=Pem(text=Secret((CERTS / "client.key").read_text())),
)


def _server_tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "server.crt", CERTS / "server.key")
    context.load_verify_locations(CERTS / "ca.crt")
    context.verify_mode = ssl.CERT_OPTIONAL
    return context


async def _whoami(request: web.BaseRequest) -> web.Response:
    assert request.transport is not None
    shown = request.transport.get_extra_info("peercert") or {}
    parts = [pair for part in shown.get("subject", ()) for pair in part]
    return web.json_response({"names": [value for name, value in parts if name == "commonName"]})


def seen_by(**options: Any) -> list[str]:
    """The names that a TLS server sees in our certificate."""

    async def main() -> list[str]:
        async with serving(_whoami, tls=_server_tls()) as server:
            client = http_client(Connection(server=server, **options), clock=InstantClock())
            try:
                return list((await client.fetch("/"))["names"])
            finally:
                await client.close()

    return asyncio.run(main())


def test_a_server_known_to_the_given_authority_is_trusted() -> None:
    assert [] == seen_by(authority=AUTHORITY)
    assert [] == seen_by(authority=Pem(file=str(CERTS / "ca.crt")))


def test_a_server_unknown_to_anyone_is_not_trusted_and_nothing_is_sent() -> None:
    with pytest.raises(Unreachable) as caught:
        seen_by()
    assert not caught.value.sent


def test_a_server_may_be_trusted_without_verification() -> None:
    assert [] == seen_by(insecure=True)


def test_the_name_to_expect_may_differ_from_the_address() -> None:
    assert [] == seen_by(authority=AUTHORITY, tls_server_name="kubernetes.default")
    with pytest.raises(Unreachable):
        seen_by(authority=AUTHORITY, tls_server_name="somebody.else")


def test_a_client_certificate_is_shown() -> None:
    assert ["alice"] == seen_by(authority=AUTHORITY, user=ALICE)


def test_a_new_client_certificate_is_shown_without_a_restart(tmp_path: Path) -> None:
    cert, key = tmp_path / "tls.crt", tmp_path / "tls.key"

    def write(name: str) -> None:
        for path in (cert, key):
            fresh = path.with_suffix(".new")
            fresh.write_bytes((CERTS / f"{name}{path.suffix}").read_bytes())
            fresh.replace(path)

    async def main() -> list[str]:
        async with serving(_whoami, tls=_server_tls()) as server:
            user = KubeconfigUser(certificate=Pem(file=str(cert)), key=Pem(file=str(key)))
            client = http_client(Connection(server=server, authority=AUTHORITY, user=user))
            found = []
            for name in ("client", "other"):
                write(name)
                found.append((await client.fetch("/"))["names"][0])
            await client.close()
            return found

    assert ["alice", "bob"] == asyncio.run(main())


def test_a_new_authority_is_trusted_without_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    trustme.CA().cert_pem.write_to_path(str(file))

    async def main() -> None:
        async with serving(_whoami, tls=_server_tls()) as server:
            clock = InstantClock()
            connection = Connection(server=server, authority=Pem(file=str(file)))
            client = http_client(connection, clock=clock)
            with pytest.raises(Unreachable):
                await client.fetch("/")
            fresh = file.with_suffix(".new")
            fresh.write_bytes((CERTS / "ca.crt").read_bytes())
            fresh.replace(file)
            await clock.sleep(FRESH_S)
            assert {"names": []} == await client.fetch("/")
            await client.close()

    asyncio.run(main())


def test_a_proxy_never_stands_between_us_and_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.setenv("NO_PROXY", "near.example")
    assert proxy_for(Connection(server="https://127.0.0.1:6443")) is None
    assert proxy_for(Connection(server="https://near.example")) is None
    assert "http://proxy:3128" == proxy_for(Connection(server="https://far.example"))
    assert "http://own" == proxy_for(Connection(server="https://far.example", proxy="http://own"))


def test_a_watch_that_is_left_hangs_up_without_waiting_for_a_goodbye() -> None:
    async def never_ending(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n')
        await asyncio.Event().wait()
        return response

    async def main() -> list[Any]:
        async with serving(never_ending, tls=_server_tls()) as server:
            client = http_client(Connection(server=server, authority=AUTHORITY))
            async with aclosing(client.watch(PODS, since="0")) as events:
                await anext(events)
            # One turn of the loop: too short for the other side to answer.
            await asyncio.sleep(0)
            port = int(server.rpartition(":")[2])
            known = list(getattr(asyncio.get_running_loop(), "_transports").values())  # noqa: B009
            still_open = [e for e in known if e.get_extra_info("peername", ("", 0))[1] == port]
            await client.close()
            return [each for each in still_open if not each.is_closing()]

    assert [] == asyncio.run(main())
