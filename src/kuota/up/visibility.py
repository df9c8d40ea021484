# SPDX-License-Identifier: Apache-2.0
"""The visibility API within the API server of one machine."""

from __future__ import annotations

import msgspec

from kuota.server.auth import Access
from kuota.server.requests import Request, Response
from kuota.visibility.api import PREFIX, VisibilityApi, asked
from kuota.visibility.documents import SUBRESOURCE
from kuota.visibility.summary import GROUP


class VisibilityExtension:
    """A `kuota.server.extension.Extension`."""

    prefix = PREFIX

    def __init__(self, api: VisibilityApi) -> None:
        self._api = api

    def access(self, request: Request) -> Access:
        wanted = asked(request.path)
        verb = "get" if request.method in ("GET", "HEAD") else request.method.lower()
        if wanted is None:
            return Access(verb=verb, path=request.path)
        return Access(
            verb=verb,
            group=GROUP,
            resource=wanted.resource,
            subresource=SUBRESOURCE,
            namespace=wanted.namespace,
            name=wanted.name,
        )

    def answer(self, request: Request) -> Response:
        accept = request.headers.get("accept", "")
        found = self._api.answer(request.method, request.path, request.query, accept)
        return Response(found.status, msgspec.json.encode(found.body), found.content_type)
