# SPDX-License-Identifier: Apache-2.0
"""Requests and responses without a transport, and the targets of paths."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from urllib.parse import unquote

import msgspec

from kuota.api.status import StatusError, bad_request

from .kinds import Kind, Kinds, Version
from .status import no_such_path
from .streaming.protocols import StreamSession

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
_INT64_DIGITS = 19


class User(msgspec.Struct, frozen=True):
    """The user of a request. Groups determine permissions: see `auth`."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    issuer: str = ""
    """The user who created the token of a service account."""

    @property
    def flow(self) -> str:
        """The user to whom limits apply. Service accounts do not multiply them."""
        return self.issuer or self.name


ADMINS = "system:masters"
SYSTEM_USER = "system:kuota"
"""The controllers and the runner of the same process. No token can name this user."""
ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request. Header names are in lower case.

    `query` has one value of each parameter; `query_string` has them all, still encoded.
    """

    method: str
    path: str
    query: dict[str, str] = {}
    query_string: str = ""
    headers: dict[str, str] = {}
    body: bytes = b""
    user: User = ANONYMOUS

    def flag(self, name: str) -> bool:
        """Whether the query parameter is true: `watch=true`, `watch=1`."""
        return self.query.get(name, "").lower() in ("true", "1", "t")

    def number(self, name: str) -> int | None:
        """The integer value of the query parameter; None if it is absent."""
        text = self.query.get(name, "")
        if not text:
            return None
        digits = text.removeprefix("-")
        valid = digits.isascii() and digits.isdigit() and len(digits) <= _INT64_DIGITS
        if not valid or not -(2**63) <= int(text) < 2**63:
            raise bad_request(f"{name}={text[:60]} is not an integer of 64 bits")
        return int(text)


class Interrupted(Exception):
    """The rest of a streamed response cannot be sent. The client must repeat the request."""


class Response(msgspec.Struct, frozen=True):
    """One response. A body that is an iterator is streamed.

    With a `session` the connection is to be upgraded, and the session served on it. A watch or a
    log is `long_running`. `allowed` tells whether the user may still read it.
    """

    status: int
    body: bytes | AsyncIterator[bytes]
    content_type: str = JSON
    warnings: tuple[str, ...] = ()
    session: StreamSession | None = None
    long_running: bool = False
    allowed: Callable[[], bool] | None = None


def answered(obj: object, status: int = 200, warnings: tuple[str, ...] = ()) -> Response:
    return Response(status, msgspec.json.encode(obj), warnings=warnings)


def refused(refusal: StatusError) -> Response:
    return answered(refusal.status(), refusal.code)


class RequestTarget(msgspec.Struct, frozen=True):
    """The target of a path: a collection, an object, or a subresource."""

    kind: Kind
    version: Version
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watched: bool = False

    @property
    def api_version(self) -> str:
        return self.kind.api_version(self.version.name)

    def verb(self, method: str, watch: bool) -> str:
        """The Kubernetes verb of this method. Raises KeyError if there is none."""
        if method in ("GET", "HEAD"):
            return "get" if self.name else "watch" if watch or self.watched else "list"
        if method == "DELETE":
            return "delete" if self.name else "deletecollection"
        return {"POST": "create", "PUT": "update", "PATCH": "patch"}[method]


def target(kinds: Kinds, path: str) -> RequestTarget:
    """The target of a resource path. Raises StatusError if it is not served."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise no_such_path()
    watched = rest[0] == "watch" and len(rest) > 1
    namespace, rest = _namespaced(rest[1:] if watched else rest)
    found = kinds.find(group, version, rest[0])
    if found is None or len(rest) > 3 or "" in rest:
        raise no_such_path()
    kind, served = found
    if namespace and not kind.namespaced:
        raise no_such_path()
    name, subresource = (*rest[1:], "", "")[:2]
    if subresource and subresource not in kind.subresources:
        raise no_such_path()
    return RequestTarget(kind, served, namespace, name, subresource, watched)


def _namespaced(rest: list[str]) -> tuple[str, list[str]]:
    """The namespace and the rest; namespaces/NAME/status concerns the namespace itself."""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        return rest[1], rest[2:]
    return "", rest
