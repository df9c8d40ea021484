# SPDX-License-Identifier: Apache-2.0
"""Every verb as a request (method, path, query and body), and the `Transport` protocol.

Nothing is sent here. Paths are not percent-encoded; the transport encodes them. A name that would
change the URL (empty, with a slash, `..`) is rejected, because a DELETE without a name would delete
the whole collection.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from enum import StrEnum
from typing import Protocol, TypedDict, Unpack

import msgspec

from kuota.api.base import Json, Key

from .errors import InvalidName
from .resources import Resource

REQUEST_TIMEOUT_S = 60.0
WATCH_TIMEOUT_S = 290
PAGE = 500
_GRACE_S = 30.0
_JSON = {"accept": "application/json"}
_METADATA = "application/json;as=PartialObjectMetadata{};g=meta.k8s.io;v=v1"


PatchBody = Json | list[Json]
"""The fields to change, or the operations of a JSON patch."""


class PatchType(StrEnum):
    """The patch types, by media type."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


class HttpRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One request for any transport. Header names are lower case.

    `timeout_s` is the longest time without data; None means no limit. `idempotent` means that
    repeating the request does no harm. `resource` is the name of the resource that the request is
    about, or "" if it is about none.
    """

    method: str
    path: str
    resource: str = ""
    query: dict[str, str] = {}
    headers: dict[str, str] = msgspec.field(default_factory=lambda: dict(_JSON))
    body: bytes = b""
    timeout_s: float | None = REQUEST_TIMEOUT_S
    idempotent: bool = False

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    def __str__(self) -> str:
        return f"{self.method} {self.path}"


class HttpResponse(msgspec.Struct, frozen=True):
    """One complete response. Header names are lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Selection(msgspec.Struct, frozen=True):
    """A selection of objects of a kind, or only of their metadata.

    Without a namespace, all namespaces.
    """

    namespace: str | None = None
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False

    def query(self) -> dict[str, str]:
        return _stated(labelSelector=self.labels, fieldSelector=self.fields)

    def headers(self, *, listing: bool) -> dict[str, str]:
        if not self.metadata_only:
            return dict(_JSON)
        return {"accept": _METADATA.format("List" if listing else "")}


class WriteOptions(TypedDict, total=False):
    """Options of a write: field manager, dry run, and field validation.

    `validation` is Strict, Warn, Ignore, or "" for the server's default. `force` takes ownership of
    conflicting fields; it applies only to server-side apply.
    """

    manager: str
    force: bool
    dry_run: bool
    validation: str


class DeleteOptions(TypedDict, total=False):
    """Options of a deletion. `uid` is a precondition."""

    propagation: str
    uid: str
    grace_s: int | None
    dry_run: bool


def fetching(path: str, query: dict[str, str] | None = None) -> HttpRequest:
    """Return a GET of any path, such as `/version`."""
    return HttpRequest(method="GET", path=path, query=query or {}, idempotent=True)


def reading(resource: Resource, key: Key) -> HttpRequest:
    path = item_path(resource, key)
    return HttpRequest(method="GET", path=path, resource=resource.name, idempotent=True)


def listing(
    resource: Resource, which: Selection, *, limit: int | None = PAGE, resume: str = ""
) -> HttpRequest:
    """Return a request for one page of a list, or all of it if `limit` is None.

    `resume` is the continue token of the previous page.
    """
    page = _stated(**{"limit": str(limit or ""), "continue": resume})
    return _collection(resource, which, page, listing=True)


def watching(
    resource: Resource,
    which: Selection,
    *,
    since: str,
    bookmarks: bool = False,
    initial: bool = False,
) -> HttpRequest:
    """Return a watch for changes after the revision `since`.

    With `initial`, it begins with all objects, at least as new as that revision, or as the request
    if there is none, and with a bookmark after the last of them. Servers that cannot do this answer
    422.

    The server is asked to end it after WATCH_TIMEOUT_S; a much longer silence means a dead
    connection.
    """
    watch = _stated(
        watch="true",
        resourceVersion=since,
        sendInitialEvents="true" if initial else "",
        resourceVersionMatch="NotOlderThan" if initial else "",
        timeoutSeconds=str(WATCH_TIMEOUT_S),
        allowWatchBookmarks="true" if bookmarks or initial else "",
    )
    found = _collection(resource, which, watch, listing=False)
    return msgspec.structs.replace(found, timeout_s=WATCH_TIMEOUT_S + _GRACE_S)


def _collection(
    resource: Resource, which: Selection, query: dict[str, str], *, listing: bool
) -> HttpRequest:
    """Return a request that reads the selected objects of a kind."""
    return HttpRequest(
        method="GET",
        path=collection_path(resource, which.namespace),
        resource=resource.name,
        query=which.query() | query,
        headers=which.headers(listing=listing),
        idempotent=True,
    )


def creation(
    resource: Resource, obj: Json, options: WriteOptions, subresource: str = ""
) -> HttpRequest:
    """Return a POST of the object, or of a subresource (binding, eviction)."""
    metadata = obj.get("metadata") or {}
    namespace = metadata.get("namespace") or ""
    if subresource:
        path = item_path(resource, Key(namespace, metadata.get("name") or ""), subresource)
    else:
        path = collection_path(resource, _own_namespace(resource, namespace))
    return _write("POST", resource, path, obj, options)


def replacement(resource: Resource, obj: Json, options: WriteOptions) -> HttpRequest:
    """Return a PUT of the object as read and changed.

    An object without a resourceVersion is rejected, because it would overwrite concurrent changes.
    """
    metadata = obj["metadata"]
    if not metadata.get("resourceVersion"):
        raise ValueError(
            f"replacing {metadata.get('name')!r} needs the resourceVersion it was read at"
        )
    key = Key(metadata.get("namespace") or "", metadata["name"])
    return _write("PUT", resource, item_path(resource, key), obj, options, idempotent=True)


def patching(
    resource: Resource,
    key: Key,
    body: PatchBody,
    kind: PatchType,
    options: WriteOptions,
    subresource: str = "",
) -> HttpRequest:
    """Return a patch. Apply requires a field manager; its body is JSON, which is valid YAML."""
    if kind is PatchType.APPLY and not options.get("manager"):
        raise ValueError("an apply patch needs the name of its field manager")
    path = item_path(resource, key, subresource)
    # A JSON patch is not idempotent: it may append to a list.
    idempotent = kind is not PatchType.JSON
    return _write(
        "PATCH", resource, path, body, options, media_type=kind.value, idempotent=idempotent
    )


def deletion(resource: Resource, key: Key, **options: Unpack[DeleteOptions]) -> HttpRequest:
    """Return a DELETE with its options in the body, as kubectl does."""
    body: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
    if propagation := options.get("propagation"):
        body["propagationPolicy"] = propagation
    if uid := options.get("uid"):
        body["preconditions"] = {"uid": uid}
    if (grace_s := options.get("grace_s")) is not None:
        body["gracePeriodSeconds"] = grace_s
    if options.get("dry_run"):
        body["dryRun"] = ["All"]
    return _write("DELETE", resource, item_path(resource, key), body, {}, idempotent=True)


class LogOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a container's log to read, and whether to follow it.

    `pod` names the pod if the path of the request does not. As in kubectl, `since_s` of 0 selects
    everything.
    """

    pod: str = ""
    container: str = ""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail: int | None = None
    since_s: int | None = None
    since_time: str = ""

    def query(self) -> dict[str, str]:
        numbers = {"tailLines": self.tail, "sinceSeconds": self.since_s or None}
        flags = {"follow": self.follow, "previous": self.previous, "timestamps": self.timestamps}
        return (
            _stated(pod=self.pod, container=self.container, sinceTime=self.since_time)
            | {name: "true" for name, wanted in flags.items() if wanted}
            | {name: str(number) for name, number in numbers.items() if number is not None}
        )


def log_reading(pods: Resource, key: Key, options: LogOptions) -> HttpRequest:
    """Return a request for a log. A followed process may be silent for any time."""
    return HttpRequest(
        method="GET",
        path=item_path(pods, key, "log"),
        resource=pods.name,
        query=options.query(),
        headers={"accept": "*/*"},
        timeout_s=None if options.follow else REQUEST_TIMEOUT_S,
        idempotent=True,
    )


def collection_path(resource: Resource, namespace: str | None = None) -> str:
    """Return the path of a collection, in one namespace if given."""
    root = f"/apis/{resource.group}" if resource.group else "/api"
    inside = f"/namespaces/{_segment(namespace)}" if namespace and resource.namespaced else ""
    return f"{root}/{resource.version}{inside}/{resource.plural}"


def item_path(resource: Resource, key: Key, subresource: str = "") -> str:
    """Return the path of an object or its subresource."""
    collection = collection_path(resource, _own_namespace(resource, key.namespace))
    path = f"{collection}/{_segment(key.name)}"
    return f"{path}/{subresource}" if subresource else path


def _own_namespace(resource: Resource, namespace: str) -> str:
    if resource.namespaced and not namespace:
        raise ValueError(f"{resource.name} are namespaced, but no namespace was given")
    return namespace


def _segment(name: str) -> str:
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise InvalidName(f"{name!r} is not a valid object name")
    return name


def _write(
    method: str,
    resource: Resource,
    path: str,
    body: PatchBody,
    options: WriteOptions,
    *,
    media_type: str = "application/json",
    idempotent: bool = False,
) -> HttpRequest:
    query = _stated(
        fieldManager=options.get("manager", ""),
        force="true" if options.get("force") else "",
        dryRun="All" if options.get("dry_run") else "",
        fieldValidation=options.get("validation", ""),
    )
    return HttpRequest(
        method=method,
        path=path,
        resource=resource.name,
        query=query,
        headers=_JSON | {"content-type": media_type},
        body=msgspec.json.encode(body),
        idempotent=idempotent,
    )


def _stated(**words: str) -> dict[str, str]:
    return {name: word for name, word in words.items() if word}


class Transport(Protocol):
    """Sends requests to one API server."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Return the response, whatever its status. Raises Unreachable without a response."""

    def stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        """Yield the body in chunks until the server ends it.

        Raises `errors.response_error(...)` for a status of 300 or more, and Unreachable without a
        response or if the connection breaks. Closing the generator closes the connection.
        """

    async def close(self) -> None:
        """Close all connections."""
