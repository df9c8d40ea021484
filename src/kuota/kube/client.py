# SPDX-License-Identifier: Apache-2.0
"""The verbs of a Kubernetes API, for whoever reads or writes objects.

They go over any `Transport`, so that the embedded server in this process and a real one behind
HTTP are used alike: the transport moves bytes, everything else (paths, paging, patch types,
retries, typed errors, decoding of watches) is shared.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Unpack

import msgspec

from kuota.api.base import Json, Key

from . import requests
from .clock import Clock, SystemClock
from .decoding import Decoding, Event, Lines, anything
from .errors import Gone, KubeError, NotFound
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

WHOLE_LOG = LogOptions()


class Listing(msgspec.Struct, frozen=True):
    """Objects as they were at one revision. Each carries its apiVersion and kind."""

    items: list[Json]
    revision: str


class Client:
    """What controllers, runner and commands may ask of an API server.

    Objects are plain JSON, and belong to the caller. Failures are those of `kuota.kube.errors`.
    The generators hang up when closed: use them under `contextlib.aclosing`.

    Writes name `manager` as their field manager unless told otherwise. They are held back, with
    WritesSuspended, while `may_write` is false; it is asked before every attempt.

    Without `managed_fields`, those are left out of objects of the kinds that controllers work on.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock | None = None,
        manager: str = "kuota",
        rate: Rate | None = None,
        may_write: Callable[[], bool] | None = None,
        managed_fields: bool = True,
    ) -> None:
        self._sender = Sender(transport, clock or SystemClock(), rate, may_write)
        self._managed_fields = managed_fields
        self._decodings: dict[Resource, Decoding] = {}
        self._own = WriteOptions(manager=manager)

    async def get(self, resource: Resource, key: Key) -> Json:
        """The object; raises NotFound."""
        return await self._object(resource, requests.reading(resource, key))

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
            request = requests.listing(resource, which, limit=limit, resume=resume)
            page = self._decoding(resource).page((await self._sender.send(request)).body)
            metadata = page.get("metadata") or {}
            yield Listing(page.get("items") or [], str(metadata.get("resourceVersion") or ""))
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
        decoding, lines = self._decoding(resource), Lines()
        async with aclosing(self._stream(request)) as chunks:
            async for chunk in chunks:
                for line in lines.feed(chunk):
                    yield decoding.event(line)

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
            resource, requests.creation(resource, obj, self._own | options, subresource)
        )

    async def replace(self, resource: Resource, obj: Json) -> Json:
        """The object as stored; raises Conflict when it is no longer what `obj` was made from."""
        return await self._object(resource, requests.replacement(resource, obj, self._own))

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
            resource,
            requests.patching(resource, key, body, kind, self._own | options, subresource),
        )

    async def delete(self, resource: Resource, key: Key, **options: Unpack[DeleteOptions]) -> Json:
        """The dying object, or a Status; raises NotFound, and Conflict for another uid."""
        return await self._object(resource, requests.deletion(resource, key, **options))

    def log(
        self, key: Key, options: LogOptions = WHOLE_LOG, *, pods: Resource = PODS
    ) -> AsyncGenerator[bytes, None]:
        """The text of a pod's log, in chunks. `pods` names where the pod is served."""
        return self._stream(requests.log_reading(pods, key, options))

    async def fetch(self, path: str) -> Any:
        """The JSON found at any path, such as `/version` or `/apis`."""
        return anything((await self._sender.send(requests.fetching(path))).body)

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

    def _decoding(self, resource: Resource) -> Decoding:
        found = self._decodings.get(resource)
        if found is None:
            found = Decoding(resource, managed_fields=self._managed_fields)
            self._decodings[resource] = found
        return found

    async def _object(self, resource: Resource, request: HttpRequest) -> Json:
        return self._decoding(resource).object((await self._sender.send(request)).body)

    async def _stream(self, request: HttpRequest) -> AsyncGenerator[bytes, None]:
        await self._sender.permitted(request)
        async with aclosing(self._sender.transport.stream(request)) as chunks:
            async for chunk in chunks:
                yield chunk


_Items = list[Json]
"""Spelled out here because inside the class `list` is a verb."""


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
