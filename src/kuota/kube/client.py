# SPDX-License-Identifier: Apache-2.0
"""The verbs of the Kubernetes API, for all code that reads or writes objects.

A client works with any `Transport`, so the embedded server in this process and a real server behind
HTTP are used in the same way. The transport only moves bytes; paths, paging, patch types, retries,
typed errors and the decoding of watches are shared.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Unpack

import msgspec

from kuota.api.base import Json, Key

from . import requests
from .clock import Clock, SystemClock
from .decoding import Decoding, Lines, WatchEvent, anything
from .errors import Gone, KubeError, NotFound
from .requests import (
    DeleteOptions,
    HttpRequest,
    LogOptions,
    PatchBody,
    PatchType,
    Selection,
    Transport,
    WriteOptions,
)
from .resources import PODS, Resource
from .retry import Rates, RetryingSender

WHOLE_LOG = LogOptions()


class Listing(msgspec.Struct, frozen=True):
    """Objects as of one revision. Each contains its apiVersion and kind."""

    items: list[Json]
    revision: str


class Client:
    """The operations that controllers, the runner and commands use on an API server.

    Objects are plain JSON and belong to the caller. All methods raise the errors of
    `kuota.kube.errors`. Closing a generator closes its connection: use `contextlib.aclosing`.

    Writes use `manager` as their field manager by default. They raise WritesSuspended while
    `may_write` returns false; it is called before every attempt.

    Without `managed_fields`, managedFields are omitted from objects of kinds that controllers use.
    """

    may_write: Callable[[], bool] | None = None

    def __init__(
        self,
        transport: Transport,
        *,
        clock: Clock | None = None,
        manager: str = "kuota",
        rates: Rates | None = None,
        may_write: Callable[[], bool] | None = None,
        managed_fields: bool = True,
    ) -> None:
        self._sender = RetryingSender(transport, clock or SystemClock(), rates, may_write)
        self._managed_fields = managed_fields
        self._decodings: dict[Resource, Decoding] = {}
        self._own = WriteOptions(manager=manager)
        self.may_write = may_write

    async def get(self, resource: Resource, key: Key) -> Json:
        """Return the object; raises NotFound."""
        return await self._object(resource, requests.reading(resource, key))

    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Listing:
        """Return all matching objects as of one revision, over as many pages as needed."""
        which = Selection(namespace, label_selector, field_selector)
        try:
            return await self._listing(resource, which, requests.PAGE)
        except Gone:
            # The revision was compacted between two pages. A single page avoids this.
            return await self._listing(resource, which, None)

    async def pages(
        self, resource: Resource, which: Selection, *, limit: int | None = requests.PAGE
    ) -> AsyncGenerator[Listing, None]:
        """Yield the matching objects page by page, so that they need not all be in memory.

        Raises Gone if the revision was compacted between two pages. Start again in this case, with
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
        initial: bool = False,
        metadata_only: bool = False,
    ) -> AsyncGenerator[WatchEvent, None]:
        """Yield every change after the revision `since` until the server ends the stream.

        With `initial`, all objects come first, as added, at least as new as that revision, or as
        the request if it is empty; then a bookmark that `ends_initial`. Raises Invalid if the
        server does not support this, Gone if the revision was compacted, and Unreachable if the
        connection breaks.
        """
        which = Selection(namespace, label_selector, field_selector, metadata_only)
        request = requests.watching(
            resource, which, since=since, bookmarks=bookmarks, initial=initial
        )
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
        """Create the object and return it as stored; raises AlreadyExists and Invalid."""
        return await self._object(
            resource, requests.creation(resource, obj, self._own | options, subresource)
        )

    async def replace(self, resource: Resource, obj: Json) -> Json:
        """Replace the object and return it as stored; raises Conflict if `obj` is outdated."""
        return await self._object(resource, requests.replacement(resource, obj, self._own))

    async def patch(
        self,
        resource: Resource,
        key: Key,
        body: PatchBody,
        *,
        kind: PatchType = PatchType.MERGE,
        subresource: str = "",
        **options: Unpack[WriteOptions],
    ) -> Json:
        """Patch the object and return it as stored.

        If the body has a `metadata.resourceVersion`, raises Conflict if the object is no longer at
        that revision.
        """
        return await self._object(
            resource,
            requests.patching(resource, key, body, kind, self._own | options, subresource),
        )

    async def delete(self, resource: Resource, key: Key, **options: Unpack[DeleteOptions]) -> Json:
        """Delete the object and return it, or a Status.

        Raises NotFound, and Conflict if the object has another UID than requested.
        """
        return await self._object(resource, requests.deletion(resource, key, **options))

    def log(
        self, key: Key, options: LogOptions = WHOLE_LOG, *, pods: Resource = PODS
    ) -> AsyncGenerator[bytes, None]:
        """Yield a pod's log in chunks. `pods` is the resource that serves the pod."""
        return self._stream(requests.log_reading(pods, key, options))

    async def fetch(self, path: str, query: dict[str, str] | None = None) -> Any:
        """Return the JSON at any path, such as `/version` or `/apis`."""
        return anything((await self._sender.send(requests.fetching(path, query))).body)

    async def quiet(self) -> None:
        """Return when none of this client's writes is in flight."""
        await self._sender.quiet()

    async def close(self) -> None:
        """Close the transport. The client cannot be used afterwards."""
        await self._sender.transport.close()

    async def _listing(self, resource: Resource, which: Selection, limit: int | None) -> Listing:
        items: _Items = []
        revision = ""
        async with aclosing(self.pages(resource, which, limit=limit)) as pages:
            async for page in pages:
                items.extend(page.items)
                # Later pages may be newer. A watch from the first revision misses no change.
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
"""An alias, because inside the class `list` is a method."""


async def served(client: Client, resource: Resource) -> bool:
    """Whether the server serves this kind in this version. True if that cannot be determined."""
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
