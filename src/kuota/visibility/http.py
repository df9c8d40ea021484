# SPDX-License-Identifier: Apache-2.0
"""Serves the visibility API beside a cluster's API server, which passes requests on to it.

Who asks is told by the API server in headers, or by a token that is shown to it; what they may do
is decided by the API server. Without either the caller is nobody, and may do what nobody may.
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
from kuota.kube.access import Access, AccessReviews, UserInfo
from kuota.kube.client import Client
from kuota.kube.clock import Clock, SystemClock
from kuota.kube.errors import KubeError
from kuota.kube.resources import CONFIG_MAPS
from kuota.listening import Listeners

from .api import ApiResponse, VisibilityApi, failure, parse_path
from .documents import SUBRESOURCE
from .front_proxy import CONFIG_MAP, UNKNOWN, FrontProxy, Headers, front_proxy
from .pending import GROUP

ALIVE = frozenset({"/healthz", "/livez", "/readyz"})
MASTERS = "system:masters"
ANONYMOUS = UserInfo("system:anonymous", groups=(UNKNOWN,))
REREAD_S = 60.0
"""Between two looks at whom the API server shows itself as."""
UNKNOWN_S = 5.0
"""The same while that is not known."""

_BEARER = "bearer "
_log = logging.getLogger(__name__)


class VisibilityServer:
    """Answers until it is closed. `run` keeps up with the certificates of the API server."""

    def __init__(self, api: VisibilityApi, client: Client, clock: Clock | None = None) -> None:
        self._api = api
        self._client = client
        self._clock = clock or SystemClock()
        self._reviews = AccessReviews(client, self._clock)
        self._proxy: FrontProxy | None = None
        self._contexts: list[ssl.SSLContext] = []
        self._listeners = Listeners(self._answer)

    async def serve(self, at: socket.socket, tls: ssl.SSLContext) -> int:
        """Answer at a listening socket until closed; returns its port.

        The context is changed: it asks callers for a certificate, without insisting on one.
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
        """End all connections; requests under way get a moment to finish."""
        await self._listeners.close()

    async def _read_proxy(self) -> None:
        """Find out whom to believe; on failure go on as before."""
        try:
            self._proxy = front_proxy(await self._client.get(CONFIG_MAPS, CONFIG_MAP))
        except KubeError as error:
            _log.warning("cannot read how the API server shows itself: %s", error)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.rel_url.raw_path
        if path in ALIVE:
            return web.Response(text="ok")
        try:
            refusal = await self._refusal(request)
        except KubeError as error:
            _log.warning("cannot find out who may see queues: %s", error)
            refusal = failure(500, "InternalError", "the API server does not say who may ask")
        return _sent(
            refusal
            or self._api.answer(
                request.method, path, request.query, request.headers.get("Accept", "")
            )
        )

    async def _refusal(self, request: web.BaseRequest) -> ApiResponse | None:
        """What keeps the caller out; None lets them in."""
        user = await self._person(request)
        if user is None:
            return failure(401, "Unauthorized", "Unauthorized")
        access = _access(request)
        if MASTERS in user.groups or await self._reviews.allows(user, access):
            return None
        what = access.path or f"{access.resource}/{access.subresource} {access.name}"
        return failure(403, "Forbidden", f'User "{user.name}" cannot {access.verb} {what}')

    async def _person(self, request: web.BaseRequest) -> UserInfo | None:
        """Who asks; None for someone who claims to be somebody and is not."""
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
    """Believe certificates of that authority too. One that is withdrawn is believed until then."""
    try:
        context.load_verify_locations(cadata=proxy.authority)
    except (ssl.SSLError, ValueError) as error:
        _log.warning("the authority of the API server is unusable: %s", error)


def _access(request: web.BaseRequest) -> Access:
    path = request.rel_url.raw_path
    wanted = parse_path(path)
    verb = request.method.lower() if request.method != "HEAD" else "get"
    if wanted is None:
        return Access(verb=verb, path=path)
    return Access(
        verb=verb,
        group=GROUP,
        version=wanted.version,
        resource=wanted.resource,
        subresource=SUBRESOURCE,
        namespace=wanted.namespace,
        name=wanted.name,
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
    """`own` certificates are made by ourselves; others are read from files."""

    host: str = EVERYWHERE
    port: int = PORT
    own: bool = True


def serving(cfg: Configuration) -> ServingConfig:
    """What a configuration asks for, whether its defaults are filled in or not."""
    server = cfg.visibility_server or VisibilityServerConfig()
    certificates = cfg.internal_cert_management or InternalCertManagement()
    return ServingConfig(
        host=server.bind_address or EVERYWHERE,
        port=PORT if server.bind_port is None else server.bind_port,
        own=certificates.enable is not False,
    )
