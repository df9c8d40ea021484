# SPDX-License-Identifier: Apache-2.0
"""HTTP over TCP and over a Unix socket. Authenticates clients; everything else is in `api`.

TCP clients present a bearer token. An address other than loopback requires TLS, because tokens must
not be sent in the clear. Clients of the Unix socket are identified by uid: root and the user who
runs the server are admins; others have their Unix groups.
"""

from __future__ import annotations

import asyncio
import grp
import os
import pwd
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from datetime import datetime
from functools import lru_cache
from pathlib import Path

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from kuota.listening import Listeners, bound
from kuota.loopback import InsecureAddress, is_loopback

from .api import LARGEST_BODY, ApiServer
from .requests import ADMINS, ANONYMOUS, Request, Response, User, refused
from .status import Refused, too_large, unauthorized
from .streaming.sessions import SessionLimits
from .streaming.upgrade import upgraded
from .tokens import EVERYBODY, TokenFile, Tokens

LOOPBACK = ("localhost", "127.0.0.1", "::1")
LONGEST_LINE = 64 << 10
"""The longest line of a request in bytes. The path of an exec contains the whole command."""
_PEER = struct.Struct("3i")


class HttpServer:
    """Serves an ApiServer until it is closed."""

    def __init__(
        self, api: ApiServer, tokens: Tokens | TokenFile, sessions: SessionLimits | None = None
    ) -> None:
        self._api = api
        self._tokens = tokens
        self._owner = os.getuid()
        self._listeners = Listeners(
            self._answer,
            request_factory=_request,
            handler_cancellation=True,
            max_line_size=LONGEST_LINE,
        )
        self._socket: Path | None = None
        self._sessions = sessions or SessionLimits()

    async def listen(
        self, host: str = "127.0.0.1", port: int = 0, tls: ssl.SSLContext | None = None
    ) -> int:
        """Listen on TCP; returns the port. Raises CannotListen, and InsecureAddress for another
        host without TLS.
        """
        if tls is None and not is_loopback(host):
            raise InsecureAddress(
                f"{host} is reachable from outside: provide a certificate, or use 127.0.0.1"
            )
        return await self._listeners.open(bound(host, port), tls)

    async def listen_unix(self, path: str | os.PathLike[str]) -> None:
        """Listen on a Unix socket. Replaces a socket that no server uses any more."""
        place = Path(path)
        _clear(place)
        await self._listeners.open_unix(place)
        # Everyone may connect. The uid of the peer determines its permissions.
        place.chmod(0o666)
        self._socket = place

    async def close(self) -> None:
        """Close all connections. Requests in progress get a short time to finish."""
        await self._listeners.close()
        if self._socket is not None:
            self._socket.unlink(missing_ok=True)

    async def _answer(self, incoming: web.BaseRequest) -> web.StreamResponse:
        try:
            body = await incoming.read() if incoming.body_exists else b""
        except web.HTTPRequestEntityTooLarge:
            return await _sent(incoming, refused(too_large(LARGEST_BODY)))
        user = self._user(incoming)
        if user is None:
            return await _sent(incoming, refused(unauthorized()))
        request = Request(
            method=incoming.method,
            path=incoming.raw_path.partition("?")[0],
            query=dict(incoming.query),
            query_string=incoming.raw_path.partition("?")[2],
            headers=_headers(incoming),
            body=body,
            user=user,
        )
        response = await self._api.handle(request)
        if response.session is not None:
            try:
                return await upgraded(
                    incoming, response.session, self._sessions, lambda: self._user(incoming) == user
                )
            except Refused as error:
                response = refused(error)
        return await _sent(incoming, response)

    def _user(self, incoming: web.BaseRequest) -> User | None:
        """The user; None for invalid credentials. Without credentials, it is anonymous."""
        header = incoming.headers.get("Authorization", "")
        if header:
            scheme, _, token = header.partition(" ")
            return self._tokens.user(token.strip()) if scheme.lower() == "bearer" else None
        uid = _peer_uid(incoming)
        return ANONYMOUS if uid is None else unix_user(uid, self._owner)


@lru_cache(256)
def unix_user(uid: int, owner: int) -> User:
    """The user with this uid. Root and the user who runs the server are admins."""
    try:
        entry = pwd.getpwuid(uid)
        name = entry.pw_name
        groups = [_group_name(each) for each in os.getgrouplist(name, entry.pw_gid)]
    except (KeyError, OSError):
        name, groups = f"uid:{uid}", []
    if uid in (0, owner):
        groups.append(ADMINS)
    # A Unix group with the name of a system group must not grant its permissions.
    elif ADMINS in groups:
        groups.remove(ADMINS)
    return User(name, (*groups, EVERYBODY), str(uid))


def _group_name(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"gid:{gid}"


def _peer_uid(incoming: web.BaseRequest) -> int | None:
    """The uid of the peer of a Unix socket; None for other connections."""
    transport = incoming.transport
    connection = transport.get_extra_info("socket") if transport is not None else None
    if connection is None or connection.family != socket.AF_UNIX:
        return None
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(peer)[1])


def _clear(path: Path) -> None:
    """Remove a stale socket. Raises OSError if a server still listens on it."""
    if not path.is_socket():
        return
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        probe.connect(str(path))
    except OSError:
        path.unlink()
    else:
        raise OSError(f"{path}: another server listens there")
    finally:
        probe.close()


def _headers(incoming: web.BaseRequest) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in incoming.headers.items():
        key = name.lower()
        headers[key] = f"{headers[key]},{value}" if key in headers else value
    return headers


async def _sent(incoming: web.BaseRequest, response: Response) -> web.StreamResponse:
    headers = {"Content-Type": response.content_type, "Cache-Control": "no-cache, private"}
    answer = (
        web.Response(status=response.status, body=response.body, headers=headers)
        if isinstance(response.body, bytes)
        else web.StreamResponse(status=response.status, headers=headers)
    )
    for text in response.warnings:
        answer.headers.add("Warning", _warning(text))
    if not isinstance(response.body, bytes):
        await _streamed(incoming, answer, response.body)
    return answer


async def _streamed(
    incoming: web.BaseRequest, stream: web.StreamResponse, body: AsyncIterator[bytes]
) -> None:
    try:
        await stream.prepare(incoming)
        async for piece in body:
            if piece:
                await stream.write(piece)
        await stream.write_eof()
    except (ConnectionError, HttpProcessingError):
        # The client has disconnected, which is how most watches end.
        pass
    finally:
        close = getattr(body, "aclose", None)
        if close is not None:
            await close()


def _warning(text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{"".join(filter(str.isprintable, quoted))}"'


def _request(
    message: object, payload: object, protocol: object, writer: object, task: object
) -> web.BaseRequest:
    return web.BaseRequest(
        message,  # type: ignore[arg-type]
        payload,  # type: ignore[arg-type]
        protocol,  # type: ignore[arg-type]
        writer,  # type: ignore[arg-type]
        task,  # type: ignore[arg-type]
        asyncio.get_running_loop(),
        client_max_size=LARGEST_BODY,
    )


def server_context(directory: str | os.PathLike[str], now: datetime) -> ssl.SSLContext:
    """The TLS context of a server with the certificate in the directory, created if absent.

    kubectl sends no token over plain HTTP, even on loopback, so the server needs a certificate. It
    is self-signed and valid for loopback only; for other addresses the admin must provide one. The
    files are `server.crt`, which clients trust, and `server.key`, which only the owner can read.
    """
    place = Path(directory)
    certificate, key = place / "server.crt", place / "server.key"
    if not certificate.exists() or not key.exists():
        from kuota.pki.certificate import self_signed

        place.mkdir(parents=True, exist_ok=True)
        made = self_signed(LOOPBACK, now)
        key.unlink(missing_ok=True)
        descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(made.key)
        certificate.write_bytes(made.certificate)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
