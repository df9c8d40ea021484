# SPDX-License-Identifier: Apache-2.0
"""A server beside a cluster's API server, which forwards requests to it.

The API server names the user in headers, or a token is reviewed by it; the API server also
authorizes the request. Without either the caller is anonymous.
"""

from __future__ import annotations

import logging
import socket
import ssl

import msgspec
from aiohttp import web

from kuota.api.config.shapes import Configuration, InternalCertManagement
from kuota.api.config.shapes import VisibilityServer as VisibilityServerConfig
from kuota.engine.model import Struct
from kuota.kube.access import AccessRequest, AccessReviews, UserInfo
from kuota.kube.client import Client
from kuota.kube.clock import Clock, SystemClock
from kuota.kube.errors import KubeError
from kuota.kube.resources import CONFIG_MAPS
from kuota.listening import Listeners

from .front_proxy import CONFIG_MAP, UNKNOWN, FrontProxy, Headers, front_proxy
from .responses import ApiResponse, failure

ALIVE = frozenset({"/healthz", "/livez", "/readyz"})
MASTERS = "system:masters"
ANONYMOUS = UserInfo("system:anonymous", groups=(UNKNOWN,))
REREAD_S = 60.0
"""The interval between two reads of the front proxy settings."""
UNKNOWN_S = 5.0
"""The same while the settings are unknown."""

_BEARER = "bearer "
_log = logging.getLogger(__name__)


class AggregatedServer:
    """Serves until it is closed. `run` follows the certificates of the API server.

    A subclass responds to authenticated users and authorizes them.
    """

    def __init__(self, client: Client, clock: Clock | None = None) -> None:
        self._client = client
        self._clock = clock or SystemClock()
        self._reviews = AccessReviews(client, self._clock)
        self._proxy: FrontProxy | None = None
        self._contexts: list[ssl.SSLContext] = []
        self._listeners = Listeners(self._answer)

    async def respond(
        self, user: UserInfo, request: web.BaseRequest, path: str
    ) -> ApiResponse | web.StreamResponse:
        """Return the response, which may be a refusal. Raises KubeError."""
        raise NotImplementedError

    async def serve(self, at: socket.socket, tls: ssl.SSLContext) -> int:
        """Serve on a listening socket until closed; returns the port.

        The context is changed to request a client certificate, which is optional.
        """
        tls.verify_mode = ssl.CERT_OPTIONAL
        self._contexts.append(tls)
        await self._read_proxy()
        if self._proxy is not None:
            _trust(tls, self._proxy)
        return await self._listeners.open(at, tls)

    async def run(self) -> None:
        """Follow the API server's certificates until cancelled."""
        while True:
            await self._clock.sleep(REREAD_S if self._proxy is not None else UNKNOWN_S)
            before = self._proxy
            await self._read_proxy()
            if self._proxy is not None and self._proxy != before:
                for each in self._contexts:
                    _trust(each, self._proxy)

    async def close(self) -> None:
        """Close all connections after a grace period for requests in progress."""
        await self._listeners.close()

    async def _read_proxy(self) -> None:
        """Read the front proxy settings; on failure keep the present ones."""
        try:
            self._proxy = front_proxy(await self._client.get(CONFIG_MAPS, CONFIG_MAP))
        except KubeError as error:
            _log.warning("cannot read the front proxy settings of the API server: %s", error)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if path in ALIVE:
            return web.Response(text="ok")
        try:
            user = await self.user_of(request)
            if user is None:
                return _sent(failure(401, "Unauthorized", "Unauthorized"))
            found = await self.respond(user, request, path)
            return _sent(found) if isinstance(found, ApiResponse) else found
        except KubeError as error:
            _log.warning("cannot authorize a client: %s", error)
            message = "the API server could not authorize the request"
            return _sent(failure(500, "InternalError", message))

    async def allows(self, user: UserInfo, access: AccessRequest) -> bool:
        """Whether the API server grants the access."""
        return MASTERS in user.groups or await self._reviews.allows(user, access)

    async def user_of(self, request: web.BaseRequest) -> UserInfo | None:
        """Return the user; None for invalid credentials."""
        proxy, transport = self._proxy, request.transport
        shown = transport.get_extra_info("peercert") if transport is not None else None
        if proxy is not None and proxy.trusts(shown):
            named = proxy.user(_headers(request))
            if named is not None:
                return named
        said = request.headers.get("Authorization", "")
        if said.lower().startswith(_BEARER):
            return await self._reviews.user(said[len(_BEARER) :].strip())
        return ANONYMOUS


def _trust(context: ssl.SSLContext, proxy: FrontProxy) -> None:
    """Trust this authority as well. A withdrawn authority is trusted until the next restart."""
    try:
        context.load_verify_locations(cadata=proxy.authority)
    except (ssl.SSLError, ValueError) as error:
        _log.warning("the authority of the API server is unusable: %s", error)


def forbidden(user: UserInfo, access: AccessRequest) -> ApiResponse:
    what = access.path or "/".join(filter(None, (access.resource, access.subresource)))
    return failure(
        403, "Forbidden", f'User "{user.name}" cannot {access.verb} {what} {access.name}'.rstrip()
    )


def _headers(request: web.BaseRequest) -> Headers:
    found: dict[str, list[str]] = {}
    for name, value in request.headers.items():
        found.setdefault(name.lower(), []).append(value)
    return found


def _sent(answer: ApiResponse) -> web.Response:
    headers = {"Content-Type": answer.content_type, "Cache-Control": "no-cache, private"}
    return web.Response(
        status=answer.status, body=msgspec.json.encode(answer.body), headers=headers
    )


EVERYWHERE = "0.0.0.0"
PORT = 8082


class ServingConfig(Struct):
    """The listener settings. `own` certificates are self-managed; others are read from files."""

    host: str = EVERYWHERE
    port: int = PORT
    own: bool = True


def serving(cfg: Configuration) -> ServingConfig:
    """Return the settings of a configuration, with or without defaults."""
    server = cfg.visibility_server or VisibilityServerConfig()
    certificates = cfg.internal_cert_management or InternalCertManagement()
    return ServingConfig(
        host=server.bind_address or EVERYWHERE,
        port=PORT if server.bind_port is None else server.bind_port,
        own=certificates.enable is not False,
    )
