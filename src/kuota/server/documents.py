# SPDX-License-Identifier: Apache-2.0
"""Serves paths without objects: version, health, discovery, OpenAPI."""

from __future__ import annotations

from kuota import __version__
from kuota.api.base import Json
from kuota.api.status import not_allowed

from . import discovery
from .kinds import Kinds
from .openapi import OpenApi, empty_document
from .requests import JSON, TEXT, Request, Response, answered
from .status import no_such_path

KUBERNETES = ("1", "34", "0")
_HEALTH = ("/healthz", "/livez", "/readyz")


def version() -> Json:
    """The version document: the compatible Kubernetes version, and our own."""
    major, minor, patch = KUBERNETES
    return {
        "major": major,
        "minor": minor,
        "gitVersion": f"v{major}.{minor}.{patch}+kuota-{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "cpython",
        "platform": "linux/any",
    }


class DiscoveryDocuments:
    """Serves documents about the registry."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._openapi = OpenApi(kinds)

    def answer(self, request: Request) -> Response | None:
        """The document at the path; None if the path is for objects. Raises StatusError."""
        path = request.path.rstrip("/") or "/"
        parts = path.split("/")[1:]
        if parts[0] in ("api", "apis"):
            if len(parts) > (2 if parts[0] == "api" else 3):
                return None
        elif not self._known(path, parts):
            raise no_such_path()
        if request.method not in ("GET", "HEAD"):
            raise not_allowed(f"method {request.method[:20]} is not served here")
        if parts[0] in ("api", "apis"):
            return self._discovery(parts, request.headers.get("accept", ""))
        if parts == ["openapi", "v2"]:
            return empty_document(request.headers.get("accept", ""))
        return self._other(path, parts)

    def _known(self, path: str, parts: list[str]) -> bool:
        return path in ("/", "/version", *_HEALTH) or parts[0] in ("openapi", "livez", "readyz")

    def _other(self, path: str, parts: list[str]) -> Response:
        if path == "/":
            return answered({"paths": ["/api", "/apis", "/openapi/v3", "/version", *_HEALTH]})
        if path == "/version":
            return answered(version())
        if parts[0] != "openapi":
            return Response(200, b"ok", TEXT)
        if parts == ["openapi", "v3"]:
            return answered(self._openapi.index())
        document = self._openapi.document("/".join(parts[2:])) if parts[1:2] == ["v3"] else None
        if document is None:
            raise no_such_path()
        return Response(200, document, JSON)

    def _discovery(self, parts: list[str], accept: str) -> Response:
        core = parts[0] == "api"
        if len(parts) == 1:
            if discovery.wants_aggregated(accept):
                found = answered(discovery.aggregated(self._kinds, core))
                return Response(200, found.body, discovery.AGGREGATED)
            return answered(discovery.versions() if core else discovery.group_list(self._kinds))
        if core:
            document = discovery.resource_list(self._kinds, "", parts[1])
        elif len(parts) == 2:
            document = discovery.group(self._kinds, parts[1])
        else:
            document = discovery.resource_list(self._kinds, parts[1], parts[2])
        if document is None:
            raise no_such_path()
        return answered(document)
