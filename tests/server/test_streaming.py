# SPDX-License-Identifier: Apache-2.0
"""Exec, attach and port-forward over HTTP, to pods whose processes are fakes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import aiohttp
import msgspec
import pytest

from kuota.api.base import Json
from kuota.server.api import ApiServer
from kuota.server.http import HttpServer
from kuota.server.requests import User
from kuota.server.store import Store
from kuota.server.streaming import spdy_frames as frames
from kuota.server.streaming.channels import ChannelStreams
from kuota.server.streaming.port_forward import Connection
from kuota.server.streaming.protocols import Disconnected
from kuota.server.streaming.remote_command import (
    STDERR,
    STDOUT,
    CommandFailed,
    CommandOptions,
    RemoteProcess,
    SizeDecoder,
    TerminalSize,
)
from kuota.server.streaming.sessions import SessionLimits
from kuota.server.tokens import Tokens
from server.served import ADMIN, ANN, BOB, MERGE, namespace, pod

V5 = "v5.channel.k8s.io"
EXEC = "/api/v1/namespaces/vision/pods/p/exec"


class Echo:
    """A process that repeats its input, then exits with the number in its command."""

    def __init__(self, options: CommandOptions) -> None:
        self.options = options
        self.closed = False
        self.sizes: list[TerminalSize] = []
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        if not options.stdin:
            self._input.put_nowait(b"")

    async def output(self, channel: int) -> AsyncIterator[bytes]:
        if channel == STDERR:
            yield b"err"
        while channel == STDOUT and (piece := await self._input.get()):
            yield piece

    async def write_stdin(self, content: bytes) -> None:
        self._input.put_nowait(content)

    def close_stdin(self) -> None:
        self._input.put_nowait(b"")

    def resize(self, size: TerminalSize) -> None:
        self.sizes.append(size)
        self.close_stdin()

    async def wait(self) -> int:
        return int(self.options.command[-1])

    def close(self) -> None:
        self.closed = True


class Fakes:
    """Processes that exist only here."""

    def __init__(self) -> None:
        self.started: list[Echo] = []

    async def exec(self, pod: Json, options: CommandOptions) -> RemoteProcess:
        if options.command[0] == "nosuch":
            raise CommandFailed("command 'nosuch' not found")
        self.started.append(Echo(options))
        return self.started[-1]

    attach = exec

    async def connect(self, pod: Json, port: int) -> Connection:
        raise ConnectionRefusedError(f"nothing listens on {port}")


class Revocable(Tokens):
    """Tokens that can all be revoked at once."""

    revoked = False

    def user(self, token: str) -> User | None:
        return None if self.revoked else super().user(token)


class Client:
    """An HTTP client of the server, as one user."""

    def __init__(
        self, session: aiohttp.ClientSession, url: str, fakes: Fakes, tokens: Revocable
    ) -> None:
        self.tokens = tokens
        self.session = session
        self.url = url
        self.fakes = fakes

    def exec(self, *command: str, token: str = "ann", **options: str) -> Any:
        query = [*(("command", word) for word in command), *options.items()]
        headers = {"Authorization": f"Bearer {token}"}
        return self.session.ws_connect(
            self.url + EXEC, params=query, protocols=(V5,), headers=headers
        )

    async def status(self, path: str = EXEC, token: str = "ann", **headers: str) -> Json:
        """The rejection of a request to upgrade."""
        upgrade = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"} | headers
        sent = upgrade | {"Authorization": f"Bearer {token}"}
        async with self.session.post(self.url + path, headers=sent) as response:
            found: Json = await response.json()
            return found


def serving(work: Callable[[Client], Awaitable[None]], limits: SessionLimits | None = None) -> None:
    async def main() -> None:
        store, fakes = Store.open(":memory:"), Fakes()
        tokens = Revocable([("admin", ADMIN), ("ann", ANN), ("bob", BOB)])
        api = ApiServer(store, tokens=tokens, processes=fakes)
        await api.start()
        store.create("namespaces", namespace("vision", "team-a"))
        for name, phase in (("p", "Running"), ("waits", "Pending"), ("done", "Succeeded")):
            store.create("pods", _pod(name, phase))
        server = HttpServer(api, limits)
        url = f"http://127.0.0.1:{await server.listen()}"
        async with aiohttp.ClientSession() as session:
            await asyncio.wait_for(work(Client(session, url, fakes, tokens)), 30)
        await server.close()
        await api.close()
        store.close()

    asyncio.run(main())


def _pod(name: str, phase: str) -> Json:
    made = pod(name)
    state: Json = {"running": {}} if phase == "Running" else {"terminated": {}}
    made["metadata"] |= {"namespace": "vision", "uid": name}
    return made | {
        "status": {"phase": phase, "containerStatuses": [{"name": "main", "state": state}]}
    }


async def _messages(socket: Any) -> dict[int, bytes]:
    """Everything that arrives, by channel."""
    found: dict[int, bytes] = {}
    async for message in socket:
        found[message.data[0]] = found.get(message.data[0], b"") + message.data[1:]
    return found


def test_a_command_gets_its_input_and_returns_its_output_and_exit_code() -> None:
    async def work(client: Client) -> None:
        async with client.exec("run", "3", stdin="true", stdout="true", stderr="true") as socket:
            await socket.send_bytes(b"\x00hello ")
            await socket.send_bytes(b"\x00world")
            await socket.send_bytes(b"\xff\x00")
            found = await _messages(socket)
        assert (b"hello world", b"err") == (found[1], found[2])
        status = msgspec.json.decode(found[3])
        assert ("NonZeroExitCode", "3") == (
            status["reason"],
            status["details"]["causes"][0]["message"],
        )
        assert client.fakes.started[0].closed

    serving(work)


def test_a_terminal_is_resized_and_has_one_output() -> None:
    async def work(client: Client) -> None:
        options = {"stdin": "true", "stdout": "true", "stderr": "true", "tty": "true"}
        async with client.exec("run", "0", **options) as socket:
            await socket.send_bytes(b'\x04{"Width":80,"Height":24}')
            found = await _messages(socket)
        assert "Success" == msgspec.json.decode(found[3])["status"]
        process = client.fakes.started[0]
        assert ([TerminalSize(80, 24)], False) == (process.sizes, process.options.stderr)

    serving(work)


def test_the_process_ends_with_its_client() -> None:
    async def work(client: Client) -> None:
        async with client.exec("run", "0", stdin="true", stdout="true") as socket:
            await socket.send_bytes(b"\x00x")
            await socket.receive()
        while not client.fakes.started[0].closed:
            await asyncio.sleep(0.01)

    serving(work)


def test_a_command_that_cannot_start_says_why() -> None:
    async def work(client: Client) -> None:
        async with client.exec("nosuch", stdout="true") as socket:
            found = await _messages(socket)
        assert "command 'nosuch' not found" == msgspec.json.decode(found[3])["message"]

    serving(work)


@pytest.mark.parametrize(
    ("path", "token", "code", "message"),
    [
        (f"{EXEC}?command=sh&stdout=true", "bob", 403, "pods/exec"),
        (EXEC.replace("exec", "attach") + "?stdout=true", "bob", 403, "pods/attach"),
        (EXEC.replace("exec", "portforward"), "bob", 403, "pods/portforward"),
        (f"{EXEC}?command=sh&stdout=true", "nobodys", 401, "Unauthorized"),
        (EXEC.replace("/p/", "/none/"), "ann", 404, "not found"),
        (EXEC.replace("/p/", "/waits/") + "?command=sh&stdout=true", "ann", 409, "Pending"),
        (EXEC.replace("/p/", "/done/") + "?command=sh&stdout=true", "ann", 409, "Succeeded"),
        (EXEC.replace("/p/exec", "/done/portforward"), "ann", 409, "Succeeded"),
        (f"{EXEC}?stdout=true", "ann", 400, "specify a command"),
        (f"{EXEC}?command=sh", "ann", 400, "at least 1 of stdin"),
        (f"{EXEC}?command=sh&stdout=true&container=x", "ann", 400, "container x is not valid"),
        (f"{EXEC}?command=a%00b&stdout=true", "ann", 400, "NUL"),
        (f"{EXEC}?command=sh&stdout=true", "ann", 400, "unsupported protocol none"),
        (EXEC.replace("exec", "portforward") + "?ports=0", "ann", 400, "not a port"),
    ],
)
def test_what_is_wrong_is_said_before_the_connection_is_upgraded(
    path: str, token: str, code: int, message: str
) -> None:
    async def work(client: Client) -> None:
        status = await client.status(path, token)
        assert code == status["code"]
        assert message in status["message"]
        assert not client.fakes.started

    serving(work)


def test_a_request_without_an_upgrade_is_rejected() -> None:
    async def work(client: Client) -> None:
        url, headers = client.url + EXEC, {"Authorization": "Bearer ann"}
        for method, code in (("GET", 400), ("POST", 400), ("PUT", 405), ("DELETE", 405)):
            async with client.session.request(method, url, headers=headers) as response:
                assert code == response.status, method

    serving(work)


def test_an_unknown_protocol_is_rejected_with_those_that_are_known() -> None:
    async def work(client: Client) -> None:
        path = f"{EXEC}?command=sh&stdout=true"
        for headers in (
            {"X-Stream-Protocol-Version": "v1.channel.k8s.io"},
            {"Upgrade": "h2c"},
            {"Upgrade": "websocket", "Sec-WebSocket-Protocol": V5, "Sec-WebSocket-Key": "x"},
            {"Upgrade": "websocket", "Sec-WebSocket-Protocol": V5, "Sec-WebSocket-Version": "1"},
        ):
            status = await client.status(path, **headers)
            assert (400, True) == (status["code"], "unable to upgrade" in status["message"])

    serving(work)


async def rejected(client: Client, **options: str) -> int:
    with pytest.raises(aiohttp.WSServerHandshakeError) as error:
        await client.exec("run", "0", **options)
    return error.value.status


def test_sessions_are_limited_per_user_and_in_total() -> None:
    async def work(client: Client) -> None:
        options = {"stdin": "true", "stdout": "true"}
        async with client.exec("run", "0", **options), client.exec("run", "0", **options):
            assert 429 == await rejected(client, token="ann", **options)
            async with client.exec("run", "0", token="admin", **options):
                assert 429 == await rejected(client, token="admin", **options)
        while not all(each.closed for each in client.fakes.started):
            await asyncio.sleep(0.01)
        async with client.exec("run", "0", **options):
            pass

    serving(work, SessionLimits(most=3, most_per_user=2))


def test_a_session_without_traffic_ends() -> None:
    async def work(client: Client) -> None:
        async with client.exec("run", "0", stdin="true", stdout="true") as socket:
            assert {} == await _messages(socket)
        assert client.fakes.started[0].closed

    serving(work, SessionLimits(idle_s=0.05))


async def revoke_token(client: Client) -> None:
    client.tokens.revoked = True


async def take_namespace(client: Client) -> None:
    url, patch = f"{client.url}/api/v1/namespaces/vision", {"metadata": {"labels": None}}
    headers = {"Authorization": "Bearer admin", "Content-Type": MERGE}
    async with client.session.patch(url, json=patch, headers=headers) as response:
        assert 200 == response.status


@pytest.mark.parametrize("lose_access", [revoke_token, take_namespace])
def test_a_session_ends_when_its_user_loses_access(
    lose_access: Callable[[Client], Awaitable[None]],
) -> None:
    async def work(client: Client) -> None:
        async with client.exec("run", "0", stdin="true", stdout="true") as socket:
            await socket.send_bytes(b"\x00x")
            assert b"\x01x" == (await socket.receive()).data
            await lose_access(client)
            assert {} == await _messages(socket)
        assert client.fakes.started[0].closed

    serving(work, SessionLimits(recheck_s=0.01))


def test_a_peer_that_speaks_no_spdy_is_disconnected() -> None:
    async def work(client: Client) -> None:
        port = int(client.url.rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"POST {EXEC}?command=sh&stdout=true HTTP/1.1\r\nHost: x\r\n"
            "Authorization: Bearer ann\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            "X-Stream-Protocol-Version: v4.channel.k8s.io\r\nContent-Length: 0\r\n\r\n".encode()
        )
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101")
        writer.write(frames.data(1, b"")[:5] + b"\xff\xff\xff")
        assert b"" == await reader.read()
        writer.close()

    serving(work)


def test_a_port_that_cannot_be_reached_is_reported_on_the_error_channel() -> None:
    async def work(client: Client) -> None:
        url = client.url + EXEC.replace("exec", "portforward")
        async with client.session.ws_connect(
            url,
            params={"ports": "8080"},
            protocols=("v4.channel.k8s.io",),
            headers={"Authorization": "Bearer ann"},
        ) as socket:
            found = await _messages(socket)
        assert {0: b"\x90\x1f", 1: b"\x90\x1fnothing listens on 8080"} == found

    serving(work)


def test_terminal_sizes_without_a_reader_are_dropped() -> None:
    async def main() -> None:
        link = Sizes(1000)
        for tty, kept in ((False, 0), (True, 8)):
            link.left = 1000
            streams = ChannelStreams(link, V5, CommandOptions(container="main", tty=tty))
            with pytest.raises(Disconnected):
                await streams.run()
            for _ in range(kept):
                await streams.read_size()
            further = asyncio.ensure_future(streams.read_size())
            await asyncio.sleep(0)
            assert not further.done()
            further.cancel()

    asyncio.run(main())


class Sizes:
    """A link on which a client sends nothing but sizes of its terminal."""

    def __init__(self, left: int) -> None:
        self.left = left

    async def receive(self) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise Disconnected
        return b'\x04{"Width":80,"Height":24}'

    async def send(self, content: bytes) -> None:
        raise AssertionError("there is nothing to answer")


def test_malformed_sizes_of_a_terminal_are_ignored() -> None:
    decoder = SizeDecoder()
    assert [] == decoder.feed(b'{"Width":"x"}{"Width":0,"Height":0}{"Width":99999,"Height":1}{')
    assert [TerminalSize(80, 24)] == decoder.feed(b'"Width":80,"Height":24}\n')
