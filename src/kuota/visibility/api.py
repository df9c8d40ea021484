# SPDX-License-Identifier: Apache-2.0
"""The visibility API without a transport: a path in, a response out. Callers are authorized.

It is served as an aggregated API beside a cluster's API server, and within the embedded one.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from kuota.api.base import Key
from kuota.engine.engine import Engine
from kuota.engine.model import Struct

from . import own_api, pending
from .documents import GroupDocuments
from .pending import (
    GROUP,
    SUBRESOURCE,
    VERSIONS,
    MetadataLookup,
    PageRequest,
    in_cluster_queue,
    in_local_queue,
    summary,
)
from .responses import ApiResponse, failure, method_not_allowed, object_not_found

PREFIX = f"/apis/{GROUP}"

_DOCUMENTS = GroupDocuments((pending.API, own_api.API))


class PendingPath(Struct):
    """The queue that a path names; a ClusterQueue without a namespace."""

    version: str
    resource: str
    name: str
    namespace: str = ""


class VisibilityApi:
    """Responds with the engine's current state."""

    def __init__(self, engine: Engine, objects: MetadataLookup) -> None:
        self._engine = engine
        self._objects = objects

    def answer(
        self, method: str, path: str, query: Mapping[str, str], accept: str = ""
    ) -> ApiResponse:
        """Return the response to any request under `PREFIX`, to /apis or to /openapi."""
        wanted = parse_path(path)
        if wanted is None:
            return document(method, path, accept)
        return method_not_allowed(method) or self._line(wanted, query)

    def _line(self, wanted: PendingPath, query: Mapping[str, str]) -> ApiResponse:
        try:
            window = PageRequest(
                offset=_number(query, "offset", 0),
                limit=_number(query, "limit", PageRequest().limit),
            )
        except ValueError as error:
            return failure(400, "BadRequest", str(error))
        if wanted.namespace:
            key = Key(wanted.namespace, wanted.name)
            line = in_local_queue(self._engine, key, window)
        else:
            line = in_cluster_queue(self._engine, wanted.name, window)
        if line is None:
            return object_not_found(GROUP, wanted.resource, wanted.name)
        return ApiResponse(status=200, body=summary(line, self._objects, wanted.version))


def document(method: str, path: str, accept: str) -> ApiResponse:
    """Return the discovery or OpenAPI document at a path, or an error."""
    found = _DOCUMENTS.find(path, accept)
    if method_not_allowed(method) is None and found is not None:
        body, content_type = found
        return ApiResponse(status=200, body=body, content_type=content_type)
    return method_not_allowed(method) or failure(
        404, "NotFound", "the server could not find the requested resource"
    )


def parse_path(path: str) -> PendingPath | None:
    """Return the queue that a path names; None for all other paths."""
    parts = [unquote(each) for each in path.strip("/").split("/")]
    if len(parts) < 4 or parts[:2] != ["apis", GROUP] or parts[2] not in VERSIONS:
        return None
    version, rest = parts[2], parts[3:]
    namespaced = rest[0] == "namespaces" and len(rest) == 5
    namespace, rest = (rest[1], rest[2:]) if namespaced else ("", rest)
    resource = "localqueues" if namespaced else "clusterqueues"
    if len(rest) != 3 or rest[0] != resource or rest[2] != SUBRESOURCE or "" in rest:
        return None
    return PendingPath(version=version, resource=resource, name=rest[1], namespace=namespace)


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    """Parse a 64-bit integer. Raises ValueError."""
    text = query.get(name, "")
    if not text:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise ValueError(f"{name}={text[:60]!r} is not an integer")
    return int(text)
