# SPDX-License-Identifier: Apache-2.0
"""Turns bytes from an API server into objects: single ones, pages of lists, and events of watches.

managedFields are most of an object's JSON, and controllers do not read them. For kinds whose fields
are known they can be left out while decoding, which costs a third of decoding and dropping them.
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

LONGEST_LINE = 64 << 20
"""Bytes. An object is at most a few MiB; past this it is no watch, and memory has its bounds."""


class Event(msgspec.Struct, frozen=True):
    """One change: ADDED, MODIFIED or DELETED with the whole object.

    A BOOKMARK carries nothing but a revision: everything up to it has been sent.
    """

    type: str
    object: Json

    @property
    def revision(self) -> str:
        return str((self.object.get("metadata") or {}).get("resourceVersion") or "")


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


class _LeanEvent(Event, frozen=True):
    object: _Object  # type: ignore[assignment]


class Decoding:
    """How objects of one kind are decoded. What cannot be read raises Unreachable.

    Without `managed_fields`, a Status in the place of an object keeps only its kind and status.
    """

    def __init__(self, resource: Resource, *, managed_fields: bool) -> None:
        self._resource = resource
        lean = not managed_fields and resource in HAS_SPEC_AND_STATUS
        self._object = _decoder(_Object if lean else Json)
        self._page = _decoder(_Page if lean else Json)
        self._event = _decoder(_LeanEvent if lean else Event)

    def object(self, answer: bytes) -> Json:
        """The object in an answer."""
        obj: Json = _decoded(self._object, answer)
        return obj

    def page(self, answer: bytes) -> Json:
        """A page of a list. Its items say of which kind they are, which real servers leave out."""
        page: Json = _decoded(self._page, answer)
        for each in page.get("items") or ():
            self._label(each)
        return page

    def event(self, line: bytes) -> Event:
        """The event in a line of a watch; raises the ApiError that an ERROR event carries."""
        event: Event = _decoded(self._event, line)
        if event.type == _ERROR:
            raise status_error(_decoded(_WHOLE_EVENT, line).object)
        self._label(event.object)
        return event

    def _label(self, obj: Json) -> None:
        obj.setdefault("apiVersion", self._resource.api_version)
        obj.setdefault("kind", self._resource.kind)


def anything(answer: bytes) -> Any:
    """The JSON in an answer; raises Unreachable."""
    return _decoded(_ANYTHING, answer)


def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)


_WHOLE_EVENT, _ANYTHING = _decoder(Event), _decoder(Any)


def _decoded(decoder: msgspec.json.Decoder[Any], content: bytes) -> Any:
    try:
        return decoder.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreachable(f"the server's answer cannot be read: {error}") from None


class Lines:
    """Splits a stream into lines, without blank ones.

    What follows the last line break when the stream ends is dropped: the stream was cut, and
    whoever resumes it gets that event again.
    """

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that the chunk completes; raises Unreachable when one is too long."""
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
