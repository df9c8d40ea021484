# SPDX-License-Identifier: Apache-2.0
"""HTTP over TCP and over a Unix socket. Authenticates clients; everything else is in `api`.

TCP clients present a bearer token. An address other than loopback requires TLS, because tokens must
not be sent in the clear. Clients of the Unix socket are identified by uid: root and the user who
runs the server are admins; others have their Unix groups. Credentials are checked before the body
is read, and again while a watch or a log is open.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from datetime import datetime
from pathlib import Path

from aiohttp import web

from kuota.api.status import StatusError, unauthorized
from kuota.connections import Connections
from kuota.listening import Answer, HttpServerConnection, Listeners, bound, peer_uid
from kuota.loopback import InsecureAddress, is_loopback

from .api import LARGEST_BODY, ApiServer
from .auth import known
from .fairness import Slots, too_many
from .http_bodies import body_of, header_texts, path_of, query_of, text_of
from .http_streams import OpenStreams, close_body, send
from .requests import ANONYMOUS, Request, Response, User, refused
from .streaming.sessions import SessionLimits
from .streaming.upgrade import upgraded
from .unix_users import unix_user

LOOPBACK = ("localhost", "127.0.0.1", "::1")
LONGEST_LINE = 64 << 10
"""The longest line of a request in bytes. The path of an exec contains the whole command."""


class TlsError(Exception):
    """A certificate or key that cannot be used. The message names the files and the reason."""


_TLS_FAULTS = {
    "KEY_VALUES_MISMATCH": "the key does not belong to the certificate",
    "NO_START_LINE": "one of them is empty, damaged or not PEM",
    "BAD_DECRYPT": "the key is encrypted or damaged",
    "BAD_PASSWORD_READ": "the key is encrypted",
}


class HttpServer:
    """Serves an ApiServer until it is closed."""

    def __init__(
        self,
        api: ApiServer,
        sessions: SessionLimits | None = None,
        connections: Connections | None = None,
        slots: Slots | None = None,
    ) -> None:
        # Without open connections, it is false.
        self.connections = connections if connections is not None else Connections()
        self.slots = slots or Slots()
        self.streams = OpenStreams()
        self._mounted: dict[str, Answer] = {}
        self._api = api
        self._owner = os.getuid()
        self._listeners = Listeners(
            self._answer,
            self.connections,
            authenticates=True,
            request_factory=_request,
            handler_cancellation=True,
            auto_decompress=False,
            max_line_size=LONGEST_LINE,
        )
        self._socket: Path | None = None
        self._checking: asyncio.Task[None] | None = None
        self._sessions = sessions or SessionLimits()

    def mount(self, prefix: str, answer: Answer) -> None:
        """Let `answer` respond to all requests below the path. It authenticates them itself."""
        self._mounted[prefix] = answer

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
        self._check_streams()
        return await self._listeners.open(bound(host, port), tls)

    async def listen_unix(self, path: str | os.PathLike[str]) -> None:
        """Listen on a Unix socket. Replaces a socket that no server uses any more."""
        place = Path(path)
        _clear(place)
        self._check_streams()
        await self._listeners.open_unix(place)
        # Everyone may connect. The uid of the peer determines its permissions.
        place.chmod(0o666)
        self._socket = place

    async def close(self) -> None:
        """Close all connections. Requests in progress get a short time to finish."""
        if self._checking is not None:
            self._checking.cancel()
        await self._listeners.close()
        if self._socket is not None:
            self._socket.unlink(missing_ok=True)

    def _check_streams(self) -> None:
        if self._checking is None:
            self._checking = asyncio.create_task(self.streams.keep_checking())

    async def _answer(self, incoming: web.BaseRequest) -> web.StreamResponse:
        for prefix, answer in self._mounted.items():
            if f"{incoming.rel_url.raw_path}/".startswith(f"{prefix}/"):
                return await answer(incoming)
        user = self._user(incoming)
        if user is None:
            return await _closing(incoming, unauthorized())
        connection = incoming.protocol
        assert isinstance(connection, HttpServerConnection)
        if known(user) and not connection.authenticated(user.flow):
            return await _closing(incoming, too_many("this user has too many open connections"))
        try:
            return await self._handled(incoming, user)
        except StatusError as refusal:
            return await _closing(incoming, refusal)

    async def _handled(self, incoming: web.BaseRequest, user: User) -> web.StreamResponse:
        """Handle the request of a user. Raises StatusError if the rest of it is not read."""
        async with self.slots.request(user.flow):
            request = Request(
                method=incoming.method,
                path=path_of(incoming),
                query=query_of(incoming),
                query_string=text_of(incoming.raw_path).partition("?")[2],
                headers=header_texts(incoming),
                # Nothing that anonymous users may do needs a body.
                body=await body_of(incoming, LARGEST_BODY) if known(user) else b"",
                user=user,
            )
            response = await self._api.handle(request)
            if response.session is None and not response.long_running:
                # Without credentials, a connection is used for one request.
                return await send(incoming, response, close=not known(user))
        try:
            async with self.slots.stream(user.flow):
                return await self._follow(incoming, user, response)
        finally:
            await close_body(response.body)

    async def _follow(
        self, incoming: web.BaseRequest, user: User, response: Response
    ) -> web.StreamResponse:
        """Serve a watch, a log or a session until it ends, or until the user may not have it."""
        allowed = response.allowed

        def still_allowed() -> bool:
            return self._user(incoming) == user and (allowed is None or allowed())

        if response.session is not None:
            return await upgraded(incoming, response.session, self._sessions, still_allowed)
        return await self.streams.send(incoming, response, still_allowed)

    def _user(self, incoming: web.BaseRequest) -> User | None:
        """The user; None for invalid credentials. Without credentials, it is anonymous."""
        header = incoming.headers.get("Authorization", "")
        if header:
            scheme, _, token = header.partition(" ")
            return self._api.credentials.user(token.strip()) if scheme.lower() == "bearer" else None
        transport = incoming.transport
        connection = transport.get_extra_info("socket") if transport is not None else None
        uid = peer_uid(connection) if connection is not None else None
        return ANONYMOUS if uid is None else unix_user(uid, self._owner)


async def _closing(incoming: web.BaseRequest, refusal: StatusError) -> web.StreamResponse:
    """Reject a request whose body may be unread, and close the connection."""
    return await send(incoming, refused(refusal), close=True)


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
    try:
        return loaded_context(certificate, key)
    except TlsError as error:
        raise TlsError(
            f"{error}. Restore both files from a copy, or delete both: then a new certificate is "
            "created, and the kubeconfigs of other users must be created again"
        ) from None


def loaded_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """The TLS context with an existing certificate and key. Raises TlsError, which names them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except ssl.SSLError as error:
        why = _TLS_FAULTS.get(error.reason or "", "one of them is damaged")
        raise TlsError(
            f"{certificate} and {key} cannot be used as TLS certificate and key: {why}"
        ) from None
    except OSError as error:
        raise TlsError(f"cannot read {certificate} or {key}: {error.strerror}") from None
    return context


def _no_password() -> str:
    """Reject an encrypted key, for which OpenSSL would otherwise ask on the terminal."""
    return ""
