# SPDX-License-Identifier: Apache-2.0
"""Connections of the HTTP transport: accepted responses, reuse of connections, and proxies.

Most servers here send responses that no well-behaved server sends.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from hang import HANG_S
from kube.certificates import folder
from kube.raw_server import answer, request, talking
from kuota import loop
from kuota.kube import http_client as module
from kuota.kube.config import Connection, KubeconfigUser, Pem, Secret
from kuota.kube.errors import ConfigError, Unreachable
from kuota.kube.http_client import HttpTransport
from kuota.kube.http_connection import MAX_BUFFERED
from kuota.kube.requests import HttpRequest, fetching

CERTS = folder()
AUTHORITY = Pem(text=Secret((CERTS / "ca.crt").read_text()))
POST = HttpRequest(method="POST", path="/", body=b"{}")
GET = fetching("/x")


@asynccontextmanager
async def transport_to(port: int, **options: Any) -> AsyncGenerator[HttpTransport, None]:
    scheme = "https" if "authority" in options else "http"
    transport = HttpTransport(Connection(server=f"{scheme}://127.0.0.1:{port}", **options))
    try:
        async with asyncio.timeout(HANG_S):
            yield transport
    finally:
        await transport.close()


async def _body(port: int) -> bytes:
    async with transport_to(port) as transport:
        return (await transport.send(GET)).body


def answered(*pieces: bytes) -> bytes:
    """The body that the transport makes of an answer in these pieces, on a connection that ends."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        for piece in pieces:
            writer.write(piece)
            await writer.drain()

    async def main() -> bytes:
        async with talking(talk) as port:
            return await _body(port)

    return asyncio.run(main())


def test_a_body_of_given_length_ends_there() -> None:
    assert b"hello" == answered(answer(b"hello"))
    assert b"" == answered(b"HTTP/1.1 204 No Content\r\n\r\n")


def test_an_answer_may_arrive_byte_by_byte() -> None:
    whole = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"
    )
    assert b"abcde" == answered(*(whole[i : i + 1] for i in range(len(whole))))


def test_a_body_of_no_given_length_ends_with_its_connection() -> None:
    assert b"to the end" == answered(b"HTTP/1.1 200 OK\r\n\r\n", b"to the ", b"end")


def test_interim_responses_are_skipped() -> None:
    hint = b"HTTP/1.1 103 Early Hints\r\nRetry-After: 9\r\n\r\n"
    assert b"it" == answered(hint + answer(b"it"))


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nshort",
        b"SSH-2.0-OpenSSH\r\n",
    ],
)
def test_an_answer_that_breaks_off_is_none(broken: bytes) -> None:
    with pytest.raises(Unreachable) as caught:
        answered(broken)
    assert caught.value.sent


def test_headers_sent_twice_are_joined() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(answer(b"", b"Warning: one", b"warning: two"))

    async def main() -> str:
        async with talking(talk) as port, transport_to(port) as transport:
            return (await transport.send(GET)).headers["warning"]

    assert "one, two" == asyncio.run(main())


class CountingServer:
    """A server that answers, and counts its connections; it closes each after some requests."""

    def __init__(self, requests_each: int, *headers: bytes) -> None:
        self.connections = 0
        self.requests: list[bytes] = []
        self._each = requests_each
        self._headers = headers

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        for _ in range(self._each):
            self.requests.append(await request(reader))
            writer.write(answer(b"{}", *self._headers))
        # The next request arrives, and gets no answer.
        await reader.read(1)


def test_an_idempotent_request_survives_that_the_server_closed_its_connection() -> None:
    async def main() -> int:
        server = CountingServer(1)
        async with talking(server.talk) as port, transport_to(port) as transport:
            for _ in range(3):
                await transport.send(GET)
        return server.connections

    assert 3 == asyncio.run(main())


def test_a_request_that_must_not_be_repeated_fails_when_its_connection_was_closed() -> None:
    async def main() -> list[bytes]:
        server = CountingServer(1)
        async with talking(server.talk) as port, transport_to(port) as transport:
            await transport.send(POST)
            with pytest.raises(Unreachable) as caught:
                await transport.send(POST)
            assert caught.value.sent
        return server.requests

    assert 1 == len(asyncio.run(main()))


def test_a_connection_that_the_server_wants_closed_is_not_used_again() -> None:
    async def main() -> int:
        server = CountingServer(2, b"Connection: close")
        async with talking(server.talk) as port, transport_to(port) as transport:
            for _ in range(2):
                await transport.send(POST)
        return server.connections

    assert 2 == asyncio.run(main())


def test_a_connection_that_was_idle_for_long_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "IDLE_S", 0.0)

    async def main() -> int:
        server = CountingServer(2)
        async with talking(server.talk) as port, transport_to(port) as transport:
            for _ in range(2):
                await transport.send(POST)
        return server.connections

    assert 2 == asyncio.run(main())


def test_an_unsolicited_response_is_not_used_for_the_next_request() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(answer(b"mine"))
        await writer.drain()
        await asyncio.sleep(0)
        writer.write(answer(b"somebody else's"))

    async def main() -> list[bytes]:
        async with talking(talk) as port, transport_to(port) as transport:
            return [(await transport.send(GET)).body for _ in range(3)]

    assert [b"mine"] * 3 == asyncio.run(main())


def test_a_request_that_is_given_up_leaves_nothing_for_the_next_one() -> None:
    async def main() -> None:
        asked, late = asyncio.Event(), asyncio.Event()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            slow = b"/slow" in await request(reader)
            if slow:
                asked.set()
                await late.wait()
            writer.write(answer(b"slow" if slow else b"fast"))

        async with talking(talk) as port, transport_to(port) as transport:
            slow = asyncio.create_task(transport.send(fetching("/slow")))
            await asked.wait()
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
            late.set()
            assert b"fast" == (await transport.send(fetching("/fast"))).body

    asyncio.run(main())


def test_a_slow_reader_holds_up_the_server_instead_of_filling_memory() -> None:
    piece, pieces = b"x" * 65536, 4 * MAX_BUFFERED // 65536 * 16

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (pieces * len(piece)))
        for _ in range(pieces):
            writer.write(piece)
            await writer.drain()

    async def main() -> tuple[int, int]:
        largest = total = 0
        async with talking(talk) as port, transport_to(port) as transport:
            async for chunk in transport.stream(GET):
                largest, total = max(largest, len(chunk)), total + len(chunk)
                # Long enough for everything to arrive, were it read.
                for _ in range(64):
                    await asyncio.sleep(0)
        return largest, total

    largest, total = asyncio.run(main())
    assert pieces * len(piece) == total
    assert largest < 2 * MAX_BUFFERED


def test_a_closed_transport_ends_what_is_under_way() -> None:
    async def main() -> None:
        asked = asyncio.Event()

        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await request(reader)
            asked.set()
            await reader.read()

        async with talking(talk) as port, transport_to(port) as transport:
            waiting = asyncio.create_task(transport.send(GET))
            await asked.wait()
            await transport.close()
            with pytest.raises(Unreachable):
                await waiting
            with pytest.raises(RuntimeError, match="closed"):
                await transport.send(GET)

    asyncio.run(main())


def test_a_token_cannot_add_headers() -> None:
    async def main() -> None:
        server = CountingServer(1)
        user = KubeconfigUser(token=Secret("t\r\nImpersonate-User: admin"))
        async with talking(server.talk) as port, transport_to(port, user=user) as transport:
            with pytest.raises(ConfigError, match="Authorization"):
                await transport.send(GET)
        assert [] == server.requests

    asyncio.run(main())


class Proxy:
    """Passes on what it is told to CONNECT to, and answers everything else itself."""

    def __init__(self, status: bytes = b"200 Connection established") -> None:
        self.heads: list[bytes] = []
        self._status = status

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await request(reader)
        self.heads.append(head)
        if not head.startswith(b"CONNECT"):
            writer.write(answer(b"by proxy"))
            return
        writer.write(b"HTTP/1.1 " + self._status + b"\r\n\r\n")
        if self._status.startswith(b"200"):
            port = int(head.split()[1].rpartition(b":")[2])
            there_reader, there = await asyncio.open_connection("127.0.0.1", port)
            await asyncio.gather(_copied(reader, there), _copied(there_reader, writer))


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def tls_server() -> AsyncGenerator[int, None]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTS / "server.crt", CERTS / "server.key")

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await request(reader)
            writer.write(answer(b"from afar"))

    async def handled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    server = await asyncio.start_server(handled, "127.0.0.1", 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await server.wait_closed()


@pytest.mark.parametrize("run", [asyncio.run, loop.run])
def test_tls_goes_through_a_proxy_to_the_server_itself(run: Any) -> None:
    async def main() -> tuple[list[bytes], bytes]:
        proxy = Proxy()
        async with talking(proxy.talk) as near, tls_server() as far:
            through = {"proxy": f"http://me:s%40cret@127.0.0.1:{near}", "authority": AUTHORITY}
            async with transport_to(far, **through) as transport:
                bodies = [(await transport.send(GET)).body for _ in range(2)]
        assert 1 == len(proxy.heads)
        assert f"CONNECT 127.0.0.1:{far} HTTP/1.1".encode() in proxy.heads[0]
        return bodies, proxy.heads[0]

    bodies, head = run(main())
    assert [b"from afar"] * 2 == bodies
    assert b"Proxy-Authorization: Basic bWU6c0BjcmV0\r\n" in head


def test_a_proxy_that_refuses_has_sent_nothing() -> None:
    async def main() -> Unreachable:
        async with talking(Proxy(b"407 No").talk) as near:
            through = {"proxy": f"http://127.0.0.1:{near}", "authority": AUTHORITY}
            async with transport_to(1, **through) as transport:
                with pytest.raises(Unreachable, match="407") as caught:
                    await transport.send(GET)
        return caught.value

    assert not asyncio.run(main()).sent


def test_requests_without_tls_tell_a_proxy_where_they_go() -> None:
    async def main() -> bytes:
        proxy = Proxy()
        async with talking(proxy.talk) as near:
            connection = Connection(server="http://far.example/k8s", proxy=f"127.0.0.1:{near}")
            transport = HttpTransport(connection)
            assert b"by proxy" == (await transport.send(GET)).body
            await transport.close()
        return proxy.heads[0]

    head = asyncio.run(main())
    assert head.startswith(b"GET http://far.example/k8s/x HTTP/1.1\r\nHost: far.example\r\n")


def test_the_faster_event_loop_does_as_well() -> None:
    async def main() -> list[bytes]:
        async with tls_server() as port, transport_to(port, authority=AUTHORITY) as transport:
            return [(await transport.send(GET)).body for _ in range(3)]

    assert [b"from afar"] * 3 == loop.run(main())
