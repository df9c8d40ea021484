# SPDX-License-Identifier: Apache-2.0
"""The visibility API without a transport: a path in, a response out. Callers are authorized.

It is served as an aggregated API beside a cluster's API server, and within the embedded one.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from kuota.api.base import Json, Key, failure_status
from kuota.engine.engine import Engine
from kuota.engine.model import Struct

from . import documents
from .pending import (
    GROUP,
    VERSIONS,
    Objects,
    PageRequest,
    in_cluster_queue,
    in_local_queue,
    summary,
)

PREFIX = f"/apis/{GROUP}"


class ApiResponse(Struct):
    """A response, and its content type if that is not plain JSON."""

    status: int
    body: Json
    content_type: str = "application/json"


class PendingPath(Struct):
    """The queue that a path names; a ClusterQueue without a namespace."""

    version: str
    resource: str
    name: str
    namespace: str = ""


class VisibilityApi:
    """Responds with the engine's current state."""

    def __init__(self, engine: Engine, objects: Objects) -> None:
        self._engine = engine
        self._objects = objects

    def answer(
        self, method: str, path: str, query: Mapping[str, str], accept: str = ""
    ) -> ApiResponse:
        """Return the response to any request under `PREFIX`, to /apis or to /openapi."""
        wanted = parse_path(path)
        if method not in ("GET", "HEAD"):
            return failure(405, "MethodNotAllowed", f"{method[:20]} is not served here")
        if wanted is not None:
            return self._line(wanted, query)
        found = _document(path, accept)
        return found or failure(404, "NotFound", "the server could not find the requested resource")

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
            singular = wanted.resource.removesuffix("s")
            message = f'{singular}.{GROUP} "{wanted.name}" not found'
            return failure(404, "NotFound", message, wanted)
        return ApiResponse(status=200, body=summary(line, self._objects, wanted.version))


def parse_path(path: str) -> PendingPath | None:
    """Return the queue that a path names; None for all other paths."""
    parts = [unquote(each) for each in path.strip("/").split("/")]
    if len(parts) < 4 or parts[:2] != ["apis", GROUP] or parts[2] not in VERSIONS:
        return None
    version, rest = parts[2], parts[3:]
    namespaced = rest[0] == "namespaces" and len(rest) == 5
    namespace, rest = (rest[1], rest[2:]) if namespaced else ("", rest)
    resource = "localqueues" if namespaced else "clusterqueues"
    if len(rest) != 3 or rest[0] != resource or rest[2] != documents.SUBRESOURCE or "" in rest:
        return None
    return PendingPath(version=version, resource=resource, name=rest[1], namespace=namespace)


def failure(code: int, reason: str, message: str, about: PendingPath | None = None) -> ApiResponse:
    """Return an error as a Status object."""
    details: Json = {}
    if about is not None:
        kind = about.resource.removesuffix("s")
        details = {"name": about.name, "group": GROUP, "kind": kind}
    return ApiResponse(status=code, body=failure_status(code, reason, message, details))


def _document(path: str, accept: str) -> ApiResponse | None:
    parts = path.strip("/").split("/")
    match parts:
        case ["apis"] if "as=APIGroupDiscoveryList" in accept and "v=v2" in accept:
            kind = documents.AGGREGATED
            return ApiResponse(status=200, body=documents.aggregated(), content_type=kind)
        case ["apis"]:
            return ApiResponse(status=200, body=documents.groups())
        case ["apis", group] if group == GROUP:
            return ApiResponse(status=200, body=documents.group())
        case ["apis", group, version] if group == GROUP and version in VERSIONS:
            return ApiResponse(status=200, body=documents.resources(version))
        case ["openapi", "v2"]:
            return ApiResponse(status=200, body=documents.openapi_v2())
        case ["openapi", "v3"]:
            return ApiResponse(status=200, body=documents.openapi_index())
        case ["openapi", "v3", "apis", group, version] if group == GROUP and version in VERSIONS:
            return ApiResponse(status=200, body=documents.openapi_v3(version))
        case _:
            return None


def _number(query: Mapping[str, str], name: str, default: int) -> int:
    """Parse a 64-bit integer. Raises ValueError."""
    text = query.get(name, "")
    if not text:
        return default
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise ValueError(f"{name}={text[:60]!r} is not an integer")
    return int(text)
