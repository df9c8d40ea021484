# SPDX-License-Identifier: Apache-2.0
"""Keeps a cache equal to what an API server holds: list once, then follow the watch.

Nothing is polled. A watch that ends, however it ends, is resumed from the last revision seen;
when the server no longer knows that revision (410), everything is listed again and only the
differences are told. Failures are waited out, longer each time, until something succeeds.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping
from contextlib import aclosing
from typing import Generic, TypeVar, cast

from kuota.api.backoff import Backoff
from kuota.api.base import Json, Key

from .cache import Cache, Decode, Indexer, Observer
from .client import Client
from .clock import Clock, SystemClock
from .errors import ApiError, Gone, KubeError
from .requests import PAGE, Selection
from .resources import Resource, key_of
from .watch_lines import BOOKMARK, DELETED, Event

T = TypeVar("T")

PAUSE = Backoff(base=100, cap=10_000)
"""Waits after failures in a row, in milliseconds."""
LIVELY_S = 1.0
"""A watch that lived this long did not fail, even if it had nothing to tell."""

_log = logging.getLogger(__name__)


def trimmed(obj: Json) -> Json:
    """The object without managedFields, which are half of it and which no controller reads."""
    obj["metadata"].pop("managedFields", None)
    return obj


class Informer(Generic[T]):
    """The objects of one kind as of a moment ago. `run` keeps it up to date until cancelled.

    `decode` makes of each object what is kept; it may change the object it is given. `synced` is
    set once the first list is in: decide nothing before. Observers are called in the order of
    changes, inside the task that runs the informer, and must not block.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        decode: Decode[T] | None = None,
        indexers: Mapping[str, Indexer[T]] | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self.error: KubeError | None = None
        """Why the cache may be stale at present; None while all is well."""
        self._client = client
        self._which = Selection(namespace, label_selector, field_selector)
        self._clock = clock or SystemClock()
        self._cache: Cache[T] = Cache(decode or cast(Decode[T], trimmed), indexers or {})
        self._revision = ""
        self._paged = True
        self._failures = 0
        self._told = False
        self._lived = False

    def __len__(self) -> int:
        return len(self._cache)

    def __contains__(self, key: object) -> bool:
        return key in self._cache

    def get(self, key: Key) -> T | None:
        """The object, None when there is none. Not to be changed: it is everybody's."""
        return self._cache.get(key)

    def keys(self) -> Collection[Key]:
        return self._cache.keys()

    def values(self) -> Iterator[T]:
        """Every object, in the order of their first sight."""
        return self._cache.values()

    def indexed(self, index: str, word: str) -> list[T]:
        """The objects for which the indexer of that name gives that word."""
        return self._cache.indexed(index, word)

    def observe(self, observer: Observer[T]) -> None:
        """Tell `observer(old, new)` of every change, first of all that is there already."""
        self._cache.observe(observer)

    async def run(self) -> None:
        """List and watch for ever. Only cancelling ends it."""
        while True:
            self._told = self._lived = False
            try:
                if not self._revision:
                    await self._relist()
                await self._follow()
            except KubeError as error:
                self._explain(error)
            await self._pause()

    async def _follow(self) -> None:
        started = self._clock.monotonic()
        try:
            async with aclosing(self._changes()) as changes:
                async for event in changes:
                    self._told = True
                    self._recover()
                    self._take(event)
        except Gone:
            self._revision = ""
            raise
        finally:
            self._lived = self._clock.monotonic() - started >= LIVELY_S
        self._recover()

    def _changes(self) -> AsyncGenerator[Event, None]:
        return self._client.watch(
            self.resource,
            self._which.namespace,
            since=self._revision,
            label_selector=self._which.labels,
            field_selector=self._which.fields,
            bookmarks=True,
        )

    def _take(self, event: Event) -> None:
        if event.type == DELETED:
            self._cache.drop(key_of(event.object))
        elif event.type != BOOKMARK:
            self._cache.put(event.object)
        self._revision = event.revision or self._revision

    async def _relist(self) -> None:
        """Bring the cache to the state of one list. Page by page, to hold one page at a time."""
        seen: set[Key] = set()
        revision = ""
        limit = PAGE if self._paged else None
        try:
            async with aclosing(
                self._client.pages(self.resource, self._which, limit=limit)
            ) as pages:
                async for page in pages:
                    revision = revision or page.revision
                    seen.update(self._cache.put(each) for each in page.items)
        except Gone:
            # Compaction overtook the paging. In one piece it cannot.
            self._paged = False
            raise
        self._paged = True
        self._cache.keep_only(seen)
        self._revision = revision
        self.synced.set()

    def _recover(self) -> None:
        if self.error is not None:
            _log.info("watching %s again", self.resource)
            self.error = None

    def _explain(self, error: KubeError) -> None:
        """Say once why the cache may be stale, not at every attempt."""
        known = self.error is not None or isinstance(error, Gone)
        level = logging.DEBUG if known else logging.WARNING
        _log.log(level, "watching %s failed: %s", self.resource, error)
        self.error = error

    async def _pause(self) -> None:
        """No pause after a watch that lived, a short one if it told anything, else ever longer."""
        if self._lived:
            self._failures = 0
        else:
            self._failures = 1 if self._told else self._failures + 1
        named_s = self.error.retry_after_s if isinstance(self.error, ApiError) else None
        wait_s = max(PAUSE.wait(self._failures) / 1000, named_s or 0.0)
        await self._clock.sleep(wait_s)
