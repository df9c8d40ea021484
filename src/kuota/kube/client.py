# SPDX-License-Identifier: Apache-2.0
"""The verbs of a Kubernetes API, for whoever reads or writes objects.

They go over any `Transport`, so that the embedded server in this process and a real one behind
HTTP are used alike: the transport moves bytes, everything else (paths, paging, patch types,
retries, typed errors, decoding of watches) is shared.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any, Unpack

import msgspec

from kuota.api.base import Json, Key

from . import requests
from .clock import Clock, SystemClock
from .errors import Gone, KubeError, NotFound, Unreachable, status_error
from .requests import (
    DeleteOptions,
    HttpRequest,
    LogOptions,
    Patch,
    PatchBody,
    Selection,
    Transport,
    WriteOptions,
)
from .resources import PODS, Resource
from .retry import Rate, Sender

DELETED = "DELETED"
BOOKMARK = "BOOKMARK"
_ERROR = "ERROR"

WHOLE_LOG = LogOptions()
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


class Listing(msgspec.Struct, frozen=True):
    """Objects as they were at one revision. Each carries its apiVersion and kind."""

    items: list[Json]
    revision: str


class Client:
    """What controllers, runner and commands may ask of an API server.

    Objects are plain JSON, and belong to the caller. Failures are those of `kuota.kube.errors`.
    The generators hang up when closed: use them under `contextlib.aclosing`.

    Writes name `manager` as their field manager unless told otherwise. They are held back, with
    NotWriting, while `may_write` is false; it is asked before every attempt.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock | None = None,
        manager: str = "kuota",
        rate: Rate | None = None,
        may_write: Callable[[], bool] | None = None,
    ) -> None:
        self._sender = Sender(transport, clock or SystemClock(), rate, may_write)
        self._own = WriteOptions(manager=manager)

    async def get(self, resource: Resource, key: Key) -> Json:
        """The object; raises NotFound."""
        return await self._object(requests.reading(resource, key))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Listing:
        """All objects that match, as of one revision, however many pages that takes."""
        which = Selection(namespace, label_selector, field_selector)
        try:
            return await self._listing(resource, which, requests.PAGE)
        except Gone:
            # Compaction overtook the paging. In one piece it cannot.
            return await self._listing(resource, which, None)

    async def pages(
        self, resource: Resource, which: Selection, *, limit: int | None = requests.PAGE
    ) -> AsyncGenerator[Listing, None]:
        """The same page by page, for who need not hold all at once.

        Raises Gone when the server forgot the revision between two pages; begin again then, with
        a limit of None.
        """
        resume = ""
        while True:
            page = await self._object(requests.listing(resource, which, limit=limit, resume=resume))
            metadata = page.get("metadata") or {}
            items = [_labelled(resource, each) for each in page.get("items") or ()]
            yield Listing(items, str(metadata.get("resourceVersion") or ""))
            resume = metadata.get("continue") or ""
            if not resume:
                return

    async def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        since: str,
        label_selector: str = "",
        field_selector: str = "",
        bookmarks: bool = False,
    ) -> AsyncGenerator[Event, None]:
        """Every change after the revision `since`, until the server ends the stream.

        Raises Gone when that revision was compacted, and Unreachable when the line breaks.
        """
        which = Selection(namespace, label_selector, field_selector)
        request = requests.watching(resource, which, since=since, bookmarks=bookmarks)
        async with aclosing(self._stream(request)) as chunks:
            async for line in _lines(chunks):
                event = _event(line)
                _labelled(resource, event.object)
                yield event

    async def create(
        self,
        resource: Resource,
        obj: Json,
        *,
        subresource: str = "",
        **options: Unpack[WriteOptions],
    ) -> Json:
        """The object as stored; raises AlreadyExists, Invalid."""
        return await self._object(
            requests.creation(resource, obj, self._own | options, subresource)
        )

    async def replace(self, resource: Resource, obj: Json) -> Json:
        """The object as stored; raises Conflict when it is no longer what `obj` was made from."""
        return await self._object(requests.replacement(resource, obj, self._own))

    async def patch(
        self,
        resource: Resource,
        key: Key,
        body: PatchBody,
        *,
        kind: Patch = Patch.MERGE,
        subresource: str = "",
        **options: Unpack[WriteOptions],
    ) -> Json:
        """The object as stored. A body with `metadata.resourceVersion` is refused by Conflict
        when the object is no longer at that revision."""
        return await self._object(
            requests.patching(resource, key, body, kind, self._own | options, subresource)
        )

    async def delete(self, resource: Resource, key: Key, **options: Unpack[DeleteOptions]) -> Json:
        """The dying object, or a Status; raises NotFound, and Conflict for another uid."""
        return await self._object(requests.deletion(resource, key, **options))

    def log(self, key: Key, options: LogOptions = WHOLE_LOG) -> AsyncGenerator[bytes, None]:
        """The text of a pod's log, in chunks."""
        return self._stream(requests.log_reading(PODS, key, options))

    async def fetch(self, path: str) -> Any:
        """The JSON found at any path, such as `/version` or `/apis`."""
        return await self._decoded(requests.fetching(path))

    async def quiet(self) -> None:
        """Return when none of this client's writes is under way."""
        await self._sender.quiet()

    async def close(self) -> None:
        """Let go of the transport. The client is of no use afterwards."""
        await self._sender.transport.close()

    async def _listing(self, resource: Resource, which: Selection, limit: int | None) -> Listing:
        items: _Items = []
        revision = ""
        async with aclosing(self.pages(resource, which, limit=limit)) as pages:
            async for page in pages:
                items.extend(page.items)
                # Later pages may be newer; a watch from the first revision misses nothing.
                revision = revision or page.revision
        return Listing(items, revision)

    async def _object(self, request: HttpRequest) -> Json:
        found = await self._decoded(request)
        if not isinstance(found, dict):
            raise Unreachable(f"the answer to {request} is no object")
        return found

    async def _decoded(self, request: HttpRequest) -> Any:
        response = await self._sender.send(request)
        try:
            return msgspec.json.decode(response.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise Unreachable(f"the answer to {request} is no JSON: {error}") from None

    async def _stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        await self._sender.permitted(request)
        async with aclosing(self._sender.transport.stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk


_Items = list[Json]
"""Spelled out here because inside the class `list` is a verb."""


def _labelled(resource: Resource, obj: Json) -> Json:
    """The object saying what it is: real servers leave that out of the items of a list."""
    obj.setdefault("apiVersion", resource.api_version)
    obj.setdefault("kind", resource.kind)
    return obj


async def served(client: Client, resource: Resource) -> bool:
    """Whether the server has the kind in that version. True when it does not say."""
    root = "/apis" if resource.group else "/api"
    try:
        found = await client.fetch(f"{root}/{resource.api_version}")
    except NotFound:
        return False
    except KubeError:
        return True
    listed = found.get("resources") if isinstance(found, dict) else None
    if not isinstance(listed, list):
        return True
    return any(isinstance(each, dict) and each.get("name") == resource.plural for each in listed)


_DECODER = msgspec.json.Decoder(Event)


def _event(line: bytes) -> Event:
    """The event in one line; raises the ApiError that an ERROR event carries."""
    try:
        event = _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Unreachable(f"the watch sent a line that is no event: {error}") from None
    if event.type == _ERROR:
        raise status_error(event.object)
    return event


async def _lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """The complete lines in the chunks, which may end anywhere, without blank ones.

    What follows the last line break is dropped: the stream was cut, and whoever resumes it gets
    that event again.
    """
    pending: list[bytes] = []
    size = 0
    async for chunk in chunks:
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            line = b"".join((*pending, part))
            pending, size = [], 0
            if line.strip():
                yield line
        if rest:
            pending.append(rest)
            size += len(rest)
        if size > LONGEST_LINE:
            raise Unreachable(f"the watch sent a line of more than {LONGEST_LINE} bytes")
