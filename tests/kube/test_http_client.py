# SPDX-License-Identifier: Apache-2.0
"""The HTTP transport: real connections, long lines, slow and broken streams."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

from kube.scripted import line
from kube.web_server import InstantClock, Respond, serving
from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.config import Connection, KubeconfigUser, Secret
from kuota.kube.errors import Forbidden, Gone, Unauthorized, Unreachable
from kuota.kube.http_client import (
    STREAM_BURST,
    STREAM_INTERVAL_S,
    HttpTransport,
    StreamPace,
    http_client,
)
from kuota.kube.requests import HttpRequest
from kuota.kube.resources import PODS

KEY = Key("team", "it")
POD: Json = {"kind": "Pod", "metadata": {"namespace": "team", "name": "it"}}


@asynccontextmanager
async def client_of(
    respond: Respond, clock: InstantClock | None = None, **user: object
) -> AsyncGenerator[Client, None]:
    async with serving(respond) as server:
        connection = Connection(server=server, user=msgspec.convert(user, KubeconfigUser))
        client = http_client(connection, clock=clock)
        try:
            yield client
        finally:
            await client.close()


def streaming(*pieces: bytes) -> Respond:
    async def respond(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
            await asyncio.sleep(0)
        await response.write_eof()
        return response

    return respond


def test_a_request_arrives_as_it_was_meant() -> None:
    seen: list[tuple[str, ...]] = []

    async def respond(request: web.BaseRequest) -> web.Response:
        body = (await request.read()).decode()
        seen.append((request.method, request.path, request.query.get("labelSelector", ""), body))
        seen.append((request.headers["Accept-Encoding"], request.headers["User-Agent"]))
        return web.json_response({"items": []})

    async def main() -> None:
        async with client_of(respond) as client:
            await client.list(PODS, "team", label_selector="a in (b,ü),c!=d&e")
            await client.patch(PODS, Key("team", "system:it"), {"ä": 1})

    asyncio.run(main())
    pods = "/api/v1/namespaces/team/pods"
    assert [
        ("GET", pods, "a in (b,ü),c!=d&e", ""),
        ("identity", "kuota"),
        ("PATCH", f"{pods}/system:it", "", '{"ä":1}'),
        ("identity", "kuota"),
    ] == seen


def test_a_server_may_live_under_a_path() -> None:
    async def respond(request: web.BaseRequest) -> web.Response:
        return web.json_response({"path": request.path})

    async def main() -> str:
        async with serving(respond) as server:
            client = http_client(Connection(server=f"{server}/k8s/clusters/c-1"))
            try:
                return str((await client.fetch("/version"))["path"])
            finally:
                await client.close()

    assert "/k8s/clusters/c-1/version" == asyncio.run(main())


def test_connections_are_used_again() -> None:
    ports = set()

    async def respond(request: web.BaseRequest) -> web.Response:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        return web.json_response(POD)

    async def main() -> None:
        async with client_of(respond) as client:
            for _ in range(20):
                await client.get(PODS, KEY)

    asyncio.run(main())
    assert 1 == len(ports)


def test_an_event_may_be_longer_than_any_buffer() -> None:
    event = line("ADDED", {"metadata": {"name": "x" * 3_000_000}})

    async def main() -> list[int]:
        async with client_of(streaming(event, event)) as client:
            events = [each async for each in client.watch(PODS, since="1")]
            return [len(each.object["metadata"]["name"]) for each in events]

    assert [3_000_000] * 2 == asyncio.run(main())


def test_a_chunk_may_end_inside_a_character() -> None:
    event = line("ADDED", {"metadata": {"name": "größe-𝄞"}})
    pieces = [event[i : i + 1] for i in range(len(event))]

    async def main() -> list[str]:
        async with client_of(streaming(*pieces)) as client:
            events = [each async for each in client.watch(PODS, since="1")]
            return [each.object["metadata"]["name"] for each in events]

    assert ["größe-𝄞"] == asyncio.run(main())


def test_each_event_of_a_slow_stream_comes_as_soon_as_it_is_sent() -> None:
    async def main() -> list[str]:
        more = asyncio.Event()

        async def respond(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(line("ADDED", {"metadata": {}}))
            await more.wait()
            await response.write(line("DELETED", {"metadata": {}}))
            return response

        found = []
        async with client_of(respond) as client:
            async for event in client.watch(PODS, since="1"):
                found.append(event.type)
                more.set()
        return found

    assert ["ADDED", "DELETED"] == asyncio.run(main())


def test_a_burst_of_changes_is_not_delayed_but_a_busy_stream_is() -> None:
    def delays(count: int, at: float) -> list[float]:
        return [pace.delay_s(at) for _ in range(count)]

    pace, burst = StreamPace(0.0), pytest.approx([0.0] * STREAM_BURST, abs=1e-9)
    assert burst == delays(STREAM_BURST, 0.0)
    now = 0.0
    for _ in range(3):
        (delay_s,) = delays(1, now)
        assert pytest.approx(STREAM_INTERVAL_S) == delay_s
        now += delay_s
    quiet_s = 2 * STREAM_BURST * STREAM_INTERVAL_S
    assert burst == delays(STREAM_BURST, now + quiet_s)
    assert delays(1, now + quiet_s)[0] > 0.01


async def _drained(chunks: AsyncGenerator[bytes, None]) -> None:
    async for _ in chunks:
        pass


def test_silence_beyond_the_limit_is_a_dead_line() -> None:
    async def main() -> None:
        async def respond(request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse()
            await response.prepare(request)
            await response.write(b"hello")
            await asyncio.Event().wait()
            return response

        async with serving(respond) as server:
            transport = HttpTransport(Connection(server=server))
            request = HttpRequest(method="GET", path="/", timeout_s=0.02)
            with pytest.raises(Unreachable):
                await transport.send(request)
            with pytest.raises(Unreachable):
                await _drained(transport.stream(request))
            await transport.close()

    asyncio.run(main())


def test_a_busy_server_is_given_the_time_it_asks_for() -> None:
    clock = InstantClock()
    asked = []

    async def respond(request: web.BaseRequest) -> web.Response:
        asked.append(request.method)
        if len(asked) == 1:
            return web.Response(status=429, headers={"Retry-After": "3"}, text="busy")
        return web.json_response(POD)

    async def main() -> Json:
        async with client_of(respond, clock) as client:
            return await client.create(PODS, POD)

    assert POD == asyncio.run(main())
    assert ([3.0], ["POST", "POST"]) == (clock.slept, asked)


def test_a_refused_watch_is_an_error_with_a_type() -> None:
    async def respond(request: web.BaseRequest) -> web.Response:
        reason = "Expired" if "old" in request.query["resourceVersion"] else "Forbidden"
        body = {"kind": "Status", "reason": reason, "message": "no"}
        return web.json_response(body, status=410 if reason == "Expired" else 403)

    async def main() -> None:
        async with client_of(respond) as client:
            with pytest.raises(Gone):
                await anext(client.watch(PODS, since="old"))
            with pytest.raises(Forbidden):
                await anext(client.watch(PODS, since="1"))

    asyncio.run(main())


def test_a_refused_connection_means_that_nothing_was_sent() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        server = f"http://127.0.0.1:{held.getsockname()[1]}"

        async def main() -> Unreachable:
            transport = HttpTransport(Connection(server=server))
            with pytest.raises(Unreachable) as caught:
                await transport.send(HttpRequest(method="GET", path="/"))
            await transport.close()
            return caught.value

        assert not asyncio.run(main()).sent


async def _reset(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Begin an answer, then break the connection as a crashed machine would."""
    await reader.readuntil(b"\r\n\r\n")
    event = line("ADDED", {"metadata": {}})
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    writer.write(head + f"{len(event):x}\r\n".encode() + event + b"\r\n")
    await writer.drain()
    writer.get_extra_info("socket").setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
    )
    writer.transport.abort()


def test_a_reset_connection_is_unreachable_after_what_had_arrived() -> None:
    async def main() -> None:
        listener = await asyncio.start_server(_reset, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        client = http_client(Connection(server=f"http://127.0.0.1:{port}"), clock=InstantClock())
        found: list[str] = []

        async def follow() -> None:
            async for event in client.watch(PODS, since="1"):
                found.append(event.type)

        with pytest.raises(Unreachable) as caught:
            await follow()
        assert caught.value.sent
        assert found in ([], ["ADDED"])
        with pytest.raises(Unreachable):
            await client.create(PODS, POD)
        await client.close()
        listener.close()
        await listener.wait_closed()

    asyncio.run(main())


def test_watches_do_not_keep_requests_waiting() -> None:
    async def main() -> None:
        opened = asyncio.Semaphore(0)

        async def respond(request: web.BaseRequest) -> web.StreamResponse:
            if "watch" not in request.query:
                return web.json_response(POD)
            response = web.StreamResponse()
            await response.prepare(request)
            opened.release()
            await asyncio.Event().wait()
            return response

        async with client_of(respond) as client:
            watches = [client.watch(PODS, since="1") for _ in range(120)]
            waiting = [asyncio.ensure_future(anext(each)) for each in watches]
            for _ in watches:
                await opened.acquire()
            assert POD == await client.get(PODS, KEY)
            for each in waiting:
                each.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    asyncio.run(main())


def test_a_rotated_token_is_found_when_the_old_one_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old")
    used = []

    async def respond(request: web.BaseRequest) -> web.Response:
        used.append(request.headers["Authorization"])
        if used[-1] == "Bearer old":
            file.write_text("new")
            return web.Response(status=401)
        return web.json_response(POD)

    async def main() -> None:
        async with client_of(respond, token_file=str(file)) as client:
            assert POD == await client.create(PODS, POD)

    asyncio.run(main())
    assert ["Bearer old", "Bearer new"] == used


def test_a_token_that_stays_refused_is_not_tried_for_ever() -> None:
    used = []

    async def respond(request: web.BaseRequest) -> web.Response:
        used.append(request.headers["Authorization"])
        return web.Response(status=401)

    async def main() -> None:
        async with serving(respond) as server:
            user = KubeconfigUser(token=Secret("t"))
            client = http_client(Connection(server=server, user=user))
            with pytest.raises(Unauthorized):
                await client.get(PODS, KEY)
            await client.close()

    asyncio.run(main())
    assert ["Bearer t"] == used


def test_a_unix_socket_is_a_server_too(tmp_path: Path) -> None:
    async def respond(request: web.BaseRequest) -> web.Response:
        return web.json_response({"path": request.path})

    async def main() -> Json:
        async with serving(respond, unix=str(tmp_path / "s")) as server:
            client = http_client(Connection(server=server))
            try:
                return await client.get(PODS, KEY)
            finally:
                await client.close()

    assert {"path": "/api/v1/namespaces/team/pods/it"} == asyncio.run(main())


def test_a_closed_client_stays_closed() -> None:
    async def main() -> None:
        async with client_of(streaming(b"{}")) as client:
            await client.get(PODS, KEY)
        with pytest.raises(RuntimeError, match="closed"):
            await client.get(PODS, KEY)

    asyncio.run(main())
