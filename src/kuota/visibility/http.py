# SPDX-License-Identifier: Apache-2.0
"""Serves the visibility API beside a cluster's API server, which forwards requests to it.

The API server names the user in headers, or a token is reviewed by it; the API server also
authorizes the request. Without either the caller is anonymous.
"""

from __future__ import annotations

import logging
import socket
import ssl

import msgspec
from aiohttp import web

from kuota.api.base import Key
from kuota.api.config.shapes import Configuration, InternalCertManagement
from kuota.api.config.shapes import VisibilityServer as VisibilityServerConfig
from kuota.engine.model import Struct
from kuota.kube.access import Access, AccessReviews, UserInfo
from kuota.kube.client import Client
from kuota.kube.clock import Clock, SystemClock
from kuota.kube.errors import KubeError
from kuota.kube.resources import CONFIG_MAPS, PODS, WORKLOADS
from kuota.listening import Listeners

from . import explanation, remote_paths
from .api import VisibilityApi, parse_path
from .explanation import ExplanationApi
from .front_proxy import CONFIG_MAP, UNKNOWN, FrontProxy, Headers, front_proxy
from .log_streams import LogStreams
from .pending import GROUP, SUBRESOURCE
from .remote_paths import RemotePath
from .remote_pods import LogStream, RemotePodsApi
from .responses import ApiResponse, failure

ALIVE = frozenset({"/healthz", "/livez", "/readyz"})
MASTERS = "system:masters"
ANONYMOUS = UserInfo("system:anonymous", groups=(UNKNOWN,))
REREAD_S = 60.0
"""The interval between two reads of the front proxy settings."""
UNKNOWN_S = 5.0
"""The same while the settings are unknown."""
MOST_REVIEWS = 20
"""How many namespaces are reviewed for one explanation. Workloads of others are not named."""

_BEARER = "bearer "
_log = logging.getLogger(__name__)


class VisibilityServer:
    """Serves until it is closed. `run` follows the certificates of the API server."""

    def __init__(
        self,
        api: VisibilityApi,
        explanations: ExplanationApi,
        client: Client,
        clock: Clock | None = None,
        remote: RemotePodsApi | None = None,
    ) -> None:
        self._api = api
        self._explanations = explanations
        self._remote = remote
        self._streams = LogStreams(self._may_still_read)
        self._client = client
        self._clock = clock or SystemClock()
        self._reviews = AccessReviews(client, self._clock)
        self._proxy: FrontProxy | None = None
        self._contexts: list[ssl.SSLContext] = []
        self._listeners = Listeners(self._answer)

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
            found = await self._authorized(request, path)
            if isinstance(found, ApiResponse):
                return _sent(found)
            return await self._streams.send(request, found)
        except KubeError as error:
            _log.warning("cannot authorize a client of the visibility API: %s", error)
            message = "the API server could not authorize the request"
            return _sent(failure(500, "InternalError", message))

    async def _authorized(self, request: web.BaseRequest, path: str) -> ApiResponse | LogStream:
        """Return the response that the caller is authorized for, or the log to stream."""
        user = await self._user(request)
        if user is None:
            return failure(401, "Unauthorized", "Unauthorized")
        access = _access(request)
        if not await self._allows(user, access):
            return _forbidden(user, access)
        wanted = remote_paths.parse_path(path)
        if wanted is not None and self._remote is not None:
            return await self._remote_answer(self._remote, wanted, user, request)
        key = explanation.parse_path(path)
        if key is not None:
            return await self._explained(request.method, key, user)
        accept = request.headers.get("Accept", "")
        return self._api.answer(request.method, path, request.query, accept)

    async def _remote_answer(
        self, api: RemotePodsApi, wanted: RemotePath, user: UserInfo, request: web.BaseRequest
    ) -> ApiResponse | LogStream:
        """Respond to those who may read pods in the namespace as well, here as in any cluster."""
        access = _reading_pods(wanted)
        if not await self._allows(user, access):
            return _forbidden(user, access)
        return await api.answer(request.method, wanted, request.query)

    async def _may_still_read(self, request: web.BaseRequest) -> bool:
        """Whether the caller of an open log may still read it."""
        user, wanted = await self._user(request), remote_paths.parse_path(request.rel_url.raw_path)
        if user is None or wanted is None:
            return False
        needed = (_access(request), _reading_pods(wanted))
        return all([await self._allows(user, each) for each in needed])

    async def _explained(self, method: str, key: Key, user: UserInfo) -> ApiResponse:
        found = self._explanations.find(method, key, self._clock.now().timestamp())
        if isinstance(found, ApiResponse):
            return found
        readable = await self._readable(user, explanation.mentioned_namespaces(found))
        return self._explanations.response(found, readable.__contains__)

    async def _readable(self, user: UserInfo, namespaces: frozenset[str]) -> frozenset[str]:
        """Return the namespaces whose Workloads the user may read, out of a limited number."""
        if not namespaces or await self._allows(user, _reading_workloads("")):
            return namespaces
        reviewed = sorted(namespaces)[:MOST_REVIEWS]
        allowed = [await self._allows(user, _reading_workloads(each)) for each in reviewed]
        return frozenset(name for name, may in zip(reviewed, allowed, strict=True) if may)

    async def _allows(self, user: UserInfo, access: Access) -> bool:
        return MASTERS in user.groups or await self._reviews.allows(user, access)

    async def _user(self, request: web.BaseRequest) -> UserInfo | None:
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


def _access(request: web.BaseRequest) -> Access:
    path = request.rel_url.raw_path
    verb = request.method.lower() if request.method != "HEAD" else "get"
    key, subresource = explanation.parse_path(path), explanation.SUBRESOURCE
    remote = remote_paths.parse_path(path)
    if remote is not None:
        key, subresource = remote.key, remote.subresource
    if key is not None:
        return Access(
            verb=verb,
            group=explanation.GROUP,
            version=explanation.VERSION,
            resource=explanation.RESOURCE,
            subresource=subresource,
            namespace=key.namespace,
            name=key.name,
        )
    wanted = parse_path(path)
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


def _reading_pods(wanted: RemotePath) -> Access:
    """Reading pods of a namespace, or their logs."""
    of_log = wanted.subresource == remote_paths.LOG
    return Access(
        verb="get" if of_log else "list",
        version=PODS.version,
        resource=PODS.plural,
        subresource="log" if of_log else "",
        namespace=wanted.key.namespace,
    )


def _forbidden(user: UserInfo, access: Access) -> ApiResponse:
    what = access.path or "/".join(filter(None, (access.resource, access.subresource)))
    return failure(
        403, "Forbidden", f'User "{user.name}" cannot {access.verb} {what} {access.name}'.rstrip()
    )


def _reading_workloads(namespace: str) -> Access:
    """Reading the Workloads of a namespace, or of all namespaces without one."""
    return Access(
        verb="get",
        group=WORKLOADS.group,
        version=WORKLOADS.version,
        resource=WORKLOADS.plural,
        namespace=namespace,
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
