# SPDX-License-Identifier: Apache-2.0
"""API groups that the embedded server serves from the engine's state instead of its store."""

from __future__ import annotations

from collections.abc import Callable
from time import time

import msgspec

from kuota.api.kueue import GROUP as KUEUE
from kuota.server.auth import Access, Roles
from kuota.server.requests import Request, Response
from kuota.visibility import explanation
from kuota.visibility.api import PREFIX, VisibilityApi, document, parse_path
from kuota.visibility.explanation import ExplanationApi
from kuota.visibility.pending import GROUP, SUBRESOURCE
from kuota.visibility.responses import ApiResponse


class VisibilityExtension:
    """A `kuota.server.api.Extension` for Kueue's visibility API."""

    prefix = PREFIX

    def __init__(self, api: VisibilityApi) -> None:
        self._api = api

    def access(self, request: Request) -> Access:
        wanted = parse_path(request.path)
        if wanted is None:
            return Access(verb=_verb(request), path=request.path)
        return Access(
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
        self, api: ExplanationApi, roles: Roles, clock: Callable[[], float] = time
    ) -> None:
        self._api = api
        self._roles = roles
        self._clock = clock

    def access(self, request: Request) -> Access:
        key = explanation.parse_path(request.path)
        if key is None:
            return Access(verb=_verb(request), path=request.path)
        return _reading(_verb(request), key.namespace)

    def answer(self, request: Request) -> Response:
        def may_read(namespace: str) -> bool:
            return self._roles.allows(request.user, _reading("get", namespace))

        key = explanation.parse_path(request.path)
        if key is None:
            return _response(document(request.method, request.path, _accept(request)))
        found = self._api.find(request.method, key, self._clock())
        if not isinstance(found, ApiResponse):
            found = self._api.response(found, may_read)
        return _response(found)


def _reading(verb: str, namespace: str) -> Access:
    """Reading an explanation requires permission to read Workloads in the namespace."""
    return Access(verb=verb, group=KUEUE, resource="workloads", namespace=namespace)


def _verb(request: Request) -> str:
    return "get" if request.method in ("GET", "HEAD") else request.method.lower()


def _accept(request: Request) -> str:
    return request.headers.get("accept", "")


def _response(found: ApiResponse) -> Response:
    return Response(found.status, msgspec.json.encode(found.body), found.content_type)
