# SPDX-License-Identifier: Apache-2.0
"""Decodes responses of an API server: single objects, pages of lists, and watch events.

managedFields are most of an object's JSON, and controllers do not read them. For kinds whose fields
are known they can be skipped while decoding, at a third of the cost of decoding and removing them.
"""

from __future__ import annotations

from typing import Any, TypedDict

import msgspec

from kuota.api.base import Json

from .errors import Unreachable, status_error
from .resources import HAS_SPEC_AND_STATUS, Resource

DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
_ERROR = "ERROR"
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"

LONGEST_LINE = 16 << 20
"""The maximum length of a line in bytes, to limit memory. An object has at most a few MiB."""


class WatchEvent(msgspec.Struct, frozen=True):
    """One change: ADDED, MODIFIED or DELETED, with the complete object.

    A BOOKMARK contains only a revision: all changes up to it have been sent.
    """

    type: str
    object: Json

    @property
    def revision(self) -> str:
        return str((self.object.get("metadata") or {}).get("resourceVersion") or "")

    @property
    def ends_initial(self) -> bool:
        """Whether all objects that existed when the watch began have been sent."""
        if self.type != BOOKMARK:
            return False
        annotations = (self.object.get("metadata") or {}).get("annotations") or {}
        return bool(annotations.get(_INITIAL_EVENTS_END) == "true")


class _Metadata(TypedDict, total=False):
    """All fields of ObjectMeta except managedFields."""

    name: Any
    generateName: Any
    namespace: Any
    selfLink: Any
    uid: Any
    resourceVersion: Any
    generation: Any
    creationTimestamp: Any
    deletionTimestamp: Any
    deletionGracePeriodSeconds: Any
    labels: Any
    annotations: Any
    ownerReferences: Any
    finalizers: Any


class _Object(TypedDict, total=False):
    apiVersion: Any
    kind: Any
    metadata: _Metadata | None
    spec: Any
    status: Any


class _Page(TypedDict, total=False):
    metadata: Any
    items: list[_Object] | None


class _LeanEvent(WatchEvent, frozen=True):
    object: _Object  # type: ignore[assignment]


class Decoding:
    """Decodes objects of one kind. Raises Unreachable if the response cannot be decoded.

    Without `managed_fields`, a Status in place of an object keeps only its kind and status.
    """

    def __init__(self, resource: Resource, *, managed_fields: bool) -> None:
        self._resource = resource
        lean = not managed_fields and resource in HAS_SPEC_AND_STATUS
        self._object = _decoder(_Object if lean else Json)
        self._page = _decoder(_Page if lean else Json)
        self._event = _decoder(_LeanEvent if lean else WatchEvent)

    def object(self, answer: bytes) -> Json:
        """Return the object in a response."""
        obj: Json = _decoded(self._object, answer)
        return obj

    def page(self, answer: bytes) -> Json:
        """Return a page of a list. Sets the kind of its items, which API servers omit."""
        page: Json = _decoded(self._page, answer)
        for each in page.get("items") or ():
            self._label(each)
        return page

    def event(self, line: bytes) -> WatchEvent:
        """Return the event in a line of a watch; raises the ApiError of an ERROR event."""
        event: WatchEvent = _decoded(self._event, line)
        if event.type == _ERROR:
            raise status_error(_decoded(_WHOLE_EVENT, line).object)
        self._label(event.object)
        return event

    def _label(self, obj: Json) -> None:
        obj.setdefault("apiVersion", self._resource.api_version)
        obj.setdefault("kind", self._resource.kind)


def anything(answer: bytes) -> Any:
    """Return the JSON in a response; raises Unreachable."""
    return _decoded(_ANYTHING, answer)


def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)


_WHOLE_EVENT, _ANYTHING = _decoder(WatchEvent), _decoder(Any)


def _decoded(decoder: msgspec.json.Decoder[Any], content: bytes) -> Any:
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Unreachable(f"the server's answer cannot be read: {error}") from None


class Lines:
    """Splits a stream into lines and skips blank ones.

    An incomplete line at the end of the stream is dropped: the connection broke, and a resumed
    watch delivers that event again.
    """

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the lines that the chunk completes; raises Unreachable if one is too long."""
        *ended, rest = chunk.split(b"\n")
        if ended and self._pending:
            ended[0] = b"".join((*self._pending, ended[0]))
            self._pending, self._size = [], 0
        if rest:
            self._pending.append(rest)
            self._size += len(rest)
        if self._size > LONGEST_LINE:
            raise Unreachable(f"the watch sent a line of more than {LONGEST_LINE} bytes")
        return [line for line in ended if line.strip()]
