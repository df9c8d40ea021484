# SPDX-License-Identifier: Apache-2.0
"""Addresses in the syntax of Go, and probes that are served at them."""

from __future__ import annotations

import asyncio
from contextlib import closing

import pytest
from aiohttp import ClientSession

from kuota.api.config.shapes import Health
from kuota.controller.flags import Address, address
from kuota.controller.probes import Check, Probes
from kuota.listening import CannotListen, bound


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (":8081", Address("", 8081)),
        ("127.0.0.1:9090", Address("127.0.0.1", 9090)),
        ("[::1]:80", Address("::1", 80)),
        ("0", None),
        ("", None),
    ],
)
def test_an_address_is_a_host_and_a_port(text: str, expected: Address | None) -> None:
    assert expected == address(text)
    if expected is not None:
        assert text == str(expected)


@pytest.mark.parametrize("text", ["8081", "host", ":", ":x", ":65536", "::1:80", ":-1"])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an address"):
        address(text)


def test_no_host_means_all_of_them_over_ipv4_too() -> None:
    async def main() -> None:
        with closing(bound("", 0)) as found:
            port = found.getsockname()[1]
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.close()

    asyncio.run(main())


def test_a_taken_port_is_an_error() -> None:
    with closing(bound("127.0.0.1", 0)) as found:
        port = found.getsockname()[1]
        said = f"cannot listen on 127.0.0.1:{port}: another process listens there"
        with pytest.raises(CannotListen, match=said):
            bound("127.0.0.1", port)


def test_an_address_of_another_machine_is_an_error() -> None:
    with pytest.raises(CannotListen, match=r"192\.0\.2\.1:80: this machine has no such address"):
        bound("192.0.2.1", 80)


def test_a_host_may_be_a_name() -> None:
    with closing(bound("localhost", 0)) as found:
        assert found.getsockname()[0] in ("127.0.0.1", "::1")
    with pytest.raises(CannotListen, match=r"cannot listen on no-such-host\.invalid:80: "):
        bound("no-such-host.invalid", 80)


def test_probes_tell_what_is_missing_and_nothing_more() -> None:
    missing = {"webhooks": "certificates are not ready"}
    ready: dict[str, Check] = {"webhooks": lambda: missing["webhooks"], "running": lambda: ""}

    async def asked(session: ClientSession, path: str) -> tuple[int, str]:
        async with session.get(path) as response:
            return response.status, await response.text()

    async def main() -> None:
        probes = Probes(Health(readiness_endpoint_name="/ready"), ready)
        port = await probes.serve(bound("127.0.0.1", 0))
        async with ClientSession(f"http://127.0.0.1:{port}") as session:
            assert (200, "ok") == await asked(session, "/healthz")
            assert (200, "ok") == await asked(session, "/healthz/ping")
            assert 404 == (await asked(session, "/readyz"))[0]
            status, text = await asked(session, "/ready")
            assert 500 == status
            assert "[-]webhooks failed: certificates are not ready\n[+]running ok\n" in text
            assert 200 == (await asked(session, "/ready/running"))[0]
            missing["webhooks"] = ""
            assert (200, "ok") == await asked(session, "/ready")
            assert "[+]webhooks ok" in (await asked(session, "/ready?verbose"))[1]
        await probes.close()

    asyncio.run(main())
