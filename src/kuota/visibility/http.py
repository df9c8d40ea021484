# SPDX-License-Identifier: Apache-2.0
"""Serves the visibility API beside a cluster's API server: positions, explanations, remote pods."""

from __future__ import annotations

from aiohttp import web

from kuota.api.base import Key
from kuota.kube.access import AccessRequest, UserInfo
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.resources import PODS, WORKLOADS

from . import explanation, remote_paths
from .aggregated import AggregatedServer, forbidden
from .api import VisibilityApi, parse_path
from .explanation import ExplanationApi
from .log_streams import LogStreams
from .pending import GROUP, SUBRESOURCE
from .remote_paths import RemotePath
from .remote_pods import LogStream, RemotePodsApi
from .responses import ApiResponse

MOST_REVIEWS = 20
"""How many namespaces are reviewed for one explanation. Workloads of others are not named."""


class VisibilityServer(AggregatedServer):
    """Serves until it is closed. `run` follows the certificates of the API server."""

    def __init__(
        self,
        api: VisibilityApi,
        explanations: ExplanationApi,
        client: Client,
        clock: Clock | None = None,
        remote: RemotePodsApi | None = None,
    ) -> None:
        super().__init__(client, clock)
        self._api = api
        self._explanations = explanations
        self._remote = remote
        self._streams = LogStreams(self._may_still_read)

    async def respond(
        self, user: UserInfo, request: web.BaseRequest, path: str
    ) -> ApiResponse | web.StreamResponse:
        found = await self._authorized(user, request, path)
        if isinstance(found, ApiResponse):
            return found
        return await self._streams.send(request, found)

    async def _authorized(
        self, user: UserInfo, request: web.BaseRequest, path: str
    ) -> ApiResponse | LogStream:
        """Return the response that the caller is authorized for, or the log to stream."""
        access = _access(request)
        if not await self.allows(user, access):
            return forbidden(user, access)
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
        if not await self.allows(user, access):
            return forbidden(user, access)
        return await api.answer(request.method, wanted, request.query)

    async def _may_still_read(self, request: web.BaseRequest) -> bool:
        """Whether the caller of an open log may still read it."""
        user, wanted = (
            await self.user_of(request),
            remote_paths.parse_path(request.rel_url.raw_path),
        )
        if user is None or wanted is None:
            return False
        needed = (_access(request), _reading_pods(wanted))
        return all([await self.allows(user, each) for each in needed])

    async def _explained(self, method: str, key: Key, user: UserInfo) -> ApiResponse:
        found = self._explanations.find(method, key, self._clock.now().timestamp())
        if isinstance(found, ApiResponse):
            return found
        readable = await self._readable(user, explanation.mentioned_namespaces(found))
        return self._explanations.response(found, readable.__contains__)

    async def _readable(self, user: UserInfo, namespaces: frozenset[str]) -> frozenset[str]:
        """Return the namespaces whose Workloads the user may read, out of a limited number."""
        if not namespaces or await self.allows(user, _reading_workloads("")):
            return namespaces
        reviewed = sorted(namespaces)[:MOST_REVIEWS]
        allowed = [await self.allows(user, _reading_workloads(each)) for each in reviewed]
        return frozenset(name for name, may in zip(reviewed, allowed, strict=True) if may)


def _access(request: web.BaseRequest) -> AccessRequest:
    path = request.rel_url.raw_path
    verb = request.method.lower() if request.method != "HEAD" else "get"
    key, subresource = explanation.parse_path(path), explanation.SUBRESOURCE
    remote = remote_paths.parse_path(path)
    if remote is not None:
        key, subresource = remote.key, remote.subresource
    if key is not None:
        return AccessRequest(
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
        return AccessRequest(verb=verb, path=path)
    return AccessRequest(
        verb=verb,
        group=GROUP,
        version=wanted.version,
        resource=wanted.resource,
        subresource=SUBRESOURCE,
        namespace=wanted.namespace,
        name=wanted.name,
    )


def _reading_pods(wanted: RemotePath) -> AccessRequest:
    """Reading pods of a namespace, or their logs."""
    of_log = wanted.subresource == remote_paths.LOG
    return AccessRequest(
        verb="get" if of_log else "list",
        version=PODS.version,
        resource=PODS.plural,
        subresource="log" if of_log else "",
        namespace=wanted.key.namespace,
    )


def _reading_workloads(namespace: str) -> AccessRequest:
    """Reading the Workloads of a namespace, or of all namespaces without one."""
    return AccessRequest(
        verb="get",
        group=WORKLOADS.group,
        version=WORKLOADS.version,
        resource=WORKLOADS.plural,
        namespace=namespace,
    )
