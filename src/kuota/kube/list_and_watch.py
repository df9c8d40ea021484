# SPDX-License-Identifier: Apache-2.0
"""Reads the objects of one kind for an informer: first all of them, then every change.

The list is the beginning of the watch: the server sends the current objects, then a bookmark, then
changes. Such a list costs a busy server far less than pages, which it reads from its database. A
server that cannot do this (before Kubernetes 1.32, and 1.33) is asked for pages. A server whose own
cache lags behind its database cannot send the newest objects. Then older ones begin the watch.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, NamedTuple

from kuota.api.base import Key

from .cache import Cache
from .client import Client
from .decoding import BOOKMARK, DELETED, WatchEvent
from .errors import BadRequest, Gone, Invalid, ServerError, Unreachable
from .requests import PAGE, Selection
from .resources import Resource, key_of

_TIMED_OUT = 504


class ListedKeys(NamedTuple):
    """The keys of all objects, as of a revision."""

    keys: set[Key]
    revision: str


def store(cache: Cache[Any], event: WatchEvent) -> None:
    """Apply a change to the cache."""
    if event.type == DELETED:
        cache.deleted(event.object)
    elif event.type != BOOKMARK:
        cache.put(event.object)


class ListAndWatch:
    """Lists and watches the selected objects. Raises KubeError."""

    def __init__(self, client: Client, resource: Resource, which: Selection) -> None:
        self._client = client
        self._resource = resource
        self._which = which
        self._streamed = self._paged = True
        """Whether a list is the beginning of a watch, and otherwise whether it has pages."""
        self._lagging = False
        """Whether the server could not send the newest objects in time."""
        self._stream: AsyncGenerator[WatchEvent, None] | None = None
        """The watch whose initial events have been read."""

    async def list(self, cache: Cache[Any], known: str, *, newest: bool) -> ListedKeys:
        """Store all objects in the cache. Objects that no longer exist remain in it.

        The objects are at least as new as the revision `known`, and as this call if `newest`, or if
        the server can send them in time.
        """
        await self.close()
        if self._streamed:
            try:
                return await self._initial_events(cache, known, newest)
            except (BadRequest, Invalid):
                self._streamed = False
        return await self._pages(cache)

    def changes(self, since: str) -> AsyncGenerator[WatchEvent, None]:
        """Continue the watch that `list` has begun, or begin one after this revision."""
        stream, self._stream = self._stream, None
        return stream or self._events(since, initial=False)

    async def close(self) -> None:
        """End a watch that `list` has begun and that nothing continues."""
        stream, self._stream = self._stream, None
        if stream is not None:
            await stream.aclose()

    async def _initial_events(self, cache: Cache[Any], known: str, newest: bool) -> ListedKeys:
        """Begin a watch with all objects. Only one of them is in memory at a time."""
        keys: set[Key] = set()
        since = (known or "0") if self._lagging and not newest else ""
        stream = self._events(since, initial=True)
        try:
            async for event in stream:
                store(cache, event)
                if event.ends_initial:
                    self._stream, self._lagging = stream, False
                    return ListedKeys(keys, event.revision)
                # Objects may be deleted before the last of them is sent.
                mark = keys.discard if event.type == DELETED else keys.add
                if event.type != BOOKMARK:
                    mark(key_of(event.object))
        except ServerError as error:
            self._lagging = error.status == _TIMED_OUT
            raise
        raise Unreachable(f"the server ended the watch of {self._resource} before the last object")

    async def _pages(self, cache: Cache[Any]) -> ListedKeys:
        """List page by page. Only one page is in memory at a time."""
        keys: set[Key] = set()
        revision = ""
        limit = PAGE if self._paged else None
        try:
            async with aclosing(
                self._client.pages(self._resource, self._which, limit=limit)
            ) as pages:
                async for page in pages:
                    revision = revision or page.revision
                    keys.update(cache.put(each) for each in page.items)
        except Gone:
            # The revision was compacted between two pages. A single page avoids this.
            self._paged = False
            raise
        self._paged = True
        return ListedKeys(keys, revision)

    def _events(self, since: str, *, initial: bool) -> AsyncGenerator[WatchEvent, None]:
        return self._client.watch(
            self._resource,
            self._which.namespace,
            since=since,
            label_selector=self._which.labels,
            field_selector=self._which.fields,
            bookmarks=True,
            initial=initial,
            metadata_only=self._which.metadata_only,
        )
