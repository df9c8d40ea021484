# SPDX-License-Identifier: Apache-2.0
"""API groups that the embedded server serves from the engine's state instead of its store."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from time import time

import msgspec

from kuota.api.kueue import GROUP as KUEUE
from kuota.kube.errors import ApiError
from kuota.server.auth import AccessAttributes, Roles
from kuota.server.requests import Interrupted, Request, Response
from kuota.visibility import explanation, remote_paths
from kuota.visibility.api import PREFIX, VisibilityApi, document, parse_path
from kuota.visibility.explanation import ExplanationApi
from kuota.visibility.pending import GROUP, SUBRESOURCE
from kuota.visibility.remote_paths import RemotePath
from kuota.visibility.remote_pods import TEXT, LogStream, RemotePodsApi
from kuota.visibility.responses import ApiResponse


class VisibilityExtension:
    """A `kuota.server.api.Extension` for Kueue's visibility API."""

    prefix = PREFIX

    def __init__(self, api: VisibilityApi) -> None:
        self._api = api

    def access(self, request: Request) -> AccessAttributes:
        wanted = parse_path(request.path)
        if wanted is None:
            return AccessAttributes(verb=_verb(request), path=request.path)
        return AccessAttributes(
            verb=_verb(request),
            group=GROUP,
            resource=wanted.resource,
            subresource=SUBRESOURCE,
            namespace=wanted.namespace,
            name=wanted.name,
        )

    def answer(self, request: Request) -> Response:
        answer = self._api.answer(request.method, request.path, request.query, _accept(request))
        return _response(answer)


class ExplanationExtension:
    """A `kuota.server.api.Extension` that explains workloads to users who may read them."""

    prefix = explanation.PREFIX

    def __init__(
        self,
        api: ExplanationApi,
        roles: Roles,
        clock: Callable[[], float] = time,
        remote: RemotePodsApi | None = None,
    ) -> None:
        self._api = api
        self._roles = roles
        self._clock = clock
        self._remote = remote

    def access(self, request: Request) -> AccessAttributes:
        wanted = remote_paths.parse_path(request.path)
        if wanted is not None:
            return _reading_pods(_verb(request), wanted)
        key = explanation.parse_path(request.path)
        if key is None:
            return AccessAttributes(verb=_verb(request), path=request.path)
        return _reading(_verb(request), key.namespace)

    def answer(self, request: Request) -> Response | Awaitable[Response]:
        wanted = remote_paths.parse_path(request.path)
        if wanted is not None and self._remote is not None:
            return self._remote_answer(self._remote, wanted, request)
        return self._explained(request)

    async def _remote_answer(
        self, api: RemotePodsApi, wanted: RemotePath, request: Request
    ) -> Response:
        found = await api.answer(request.method, wanted, request.query)
        if isinstance(found, ApiResponse):
            return _response(found)
        access = self.access(request)
        return Response(
            200,
            _Interruptible(found),
            TEXT,
            long_running=True,
            allowed=lambda: self._roles.allows(request.user, access),
        )

    def _explained(self, request: Request) -> Response:
        def may_read(namespace: str) -> bool:
            return self._roles.allows(request.user, _reading("get", namespace))

        key = explanation.parse_path(request.path)
        if key is None:
            return _response(document(request.method, request.path, _accept(request)))
        found = self._api.find(request.method, key, self._clock())
        if not isinstance(found, ApiResponse):
            found = self._api.response(found, may_read)
        return _response(found)


class _Interruptible(AsyncIterator[bytes]):
    """A log. An error in the middle is no end: the client has to repeat the request.

    Unlike a generator, it can be closed before its first piece was requested.
    """

    def __init__(self, log: LogStream) -> None:
        self._log = log
        self._chunks = log.chunks()

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._chunks)
        except ApiError as error:
            raise Interrupted(error.message) from None

    async def aclose(self) -> None:
        await self._chunks.aclose()
        await self._log.close()


def _reading_pods(verb: str, wanted: RemotePath) -> AccessAttributes:
    """Reading pods in another cluster requires permission to read them in the namespace here."""
    place = wanted.key.namespace
    if wanted.subresource == remote_paths.LOG:
        return AccessAttributes(verb=verb, resource="pods", subresource="log", namespace=place)
    return AccessAttributes(
        verb="list" if verb == "get" else verb, resource="pods", namespace=place
    )


def _reading(verb: str, namespace: str) -> AccessAttributes:
    """Reading an explanation requires permission to read Workloads in the namespace."""
    return AccessAttributes(verb=verb, group=KUEUE, resource="workloads", namespace=namespace)


def _verb(request: Request) -> str:
    return "get" if request.method in ("GET", "HEAD") else request.method.lower()


def _accept(request: Request) -> str:
    return request.headers.get("accept", "")


def _response(found: ApiResponse) -> Response:
    return Response(found.status, msgspec.json.encode(found.body), found.content_type)
