# SPDX-License-Identifier: Apache-2.0
"""Runs kubectl on a server that is reached by a Unix socket, through a relay on loopback.

The server authenticates clients of the socket by uid, so clients of the relay act as its user. The
relay therefore serves only paths that begin with a random secret, which kubectl reads from a
private file. (kubectl does not send bearer tokens to a server without TLS.)
"""

from __future__ import annotations

import asyncio
import hmac
import os
import secrets
import signal
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import aiohttp
from aiohttp import web
from yarl import URL

from kuota.kube.config import Connection
from kuota.kube.errors import KubeError
from kuota.up import kubeconfig

from .session import opened

_HOP_BY_HOP = ("connection", "host", "keep-alive", "transfer-encoding")
_LARGEST_BODY = 64 * 1024 * 1024


def relayed(socket: Path, command: Sequence[str]) -> int:
    """Run `command` with a kubeconfig for a relay to `socket`, and return its exit status."""
    return asyncio.run(_run(socket, command))


async def _run(socket: Path, command: Sequence[str]) -> int:
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="kuota-")))
        url = await _serve(stack, socket)
        config = folder / "kubeconfig"
        cluster = kubeconfig.cluster(url, b"")
        kubeconfig.replace(config, kubeconfig.content(cluster, "", await _namespace(socket)))
        environment = os.environ | {"KUBECONFIG": str(config), "KUBECACHEDIR": str(folder)}
        loop = asyncio.get_running_loop()
        # kubectl receives Ctrl-C too, and decides how to handle it.
        loop.add_signal_handler(signal.SIGINT, lambda: None)
        process = await asyncio.create_subprocess_exec(*command, env=environment)
        loop.add_signal_handler(signal.SIGTERM, process.terminate)
        status = await process.wait()
        return status if status >= 0 else 128 - status


async def _namespace(socket: Path) -> str:
    """Return the default namespace of this user; "" if the server does not answer."""
    try:
        async with opened(Connection(server=f"unix://{socket}")) as session:
            return session.namespace
    except KubeError:
        return ""


async def _serve(stack: AsyncExitStack, socket: Path) -> str:
    """Start the relay, which stops when `stack` is closed, and return its URL."""
    secret = secrets.token_urlsafe(32)
    session = await stack.enter_async_context(
        aiohttp.ClientSession(
            connector=aiohttp.UnixConnector(str(socket)),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
    )
    app = web.Application(client_max_size=_LARGEST_BODY)
    app.router.add_route("*", "/{path:.*}", _Relay(session, secret).answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    return f"http://{host}:{port}/{secret}"


class _Relay:
    """Forwards each request unchanged, and returns the response."""

    def __init__(self, session: aiohttp.ClientSession, secret: str) -> None:
        self._session = session
        self._secret = secret.encode()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        secret, _, path = request.raw_path.removeprefix("/").partition("/")
        if not hmac.compare_digest(secret.encode(), self._secret):
            return web.Response(status=404)
        async with self._session.request(
            request.method,
            URL(f"http://localhost/{path}", encoded=True),
            headers=_end_to_end(request.headers.items()),
            data=await request.read() or None,
            allow_redirects=False,
        ) as answer:
            response = web.StreamResponse(status=answer.status)
            response.headers.extend(_end_to_end(answer.headers.items()))
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response


def _end_to_end(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(name, value) for name, value in headers if name.lower() not in _HOP_BY_HOP]
