# SPDX-License-Identifier: Apache-2.0
"""The objects of one kind as of a moment ago, our own writes among them at once.

A controller that has just made a pod must not make it again because the watch is slow to tell. So
answers to writes are learned like news, and the older of two states never replaces the newer:
revisions of one server are numbers that only grow, and a watch tells them in order. `trim` makes
of each object what is kept, since finished work may be kept by the server for very long.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import aclosing

from kuota.api.backoff import Backoff
from kuota.api.base import Json, Key
from kuota.kube.client import Client
from kuota.kube.clock import Clock, SystemClock
from kuota.kube.errors import Gone, KubeError
from kuota.kube.resources import Resource, key_of
from kuota.kube.watch_lines import BOOKMARK, DELETED, Event

Observer = Callable[[Json | None, Json | None], None]
_PAUSE = Backoff(base=50, cap=5_000)
_log = logging.getLogger(__name__)


def without_managed_fields(obj: Json) -> Json:
    """The object without what no controller reads; changed in place."""
    obj["metadata"].pop("managedFields", None)
    return obj


class Mirror:
    """Keeps up with the server while `run` runs. `synced` is set once the first list is in.

    Observers are told (old, new), None for "not there", in the order of changes.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        *,
        trim: Callable[[Json], Json] = without_managed_fields,
        clock: Clock | None = None,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()
        self._client = client
        self._trim = trim
        self._clock = clock or SystemClock()
        self._objects: dict[Key, Json] = {}
        self._observers: list[Observer] = []
        self._revision = 0
        self._failures = 0

    def get(self, key: Key) -> Json | None:
        """The object, not to be changed: it is everybody's."""
        return self._objects.get(key)

    def values(self) -> Iterator[Json]:
        return iter(self._objects.values())

    def observe(self, observer: Observer) -> None:
        """Tell the observer of every change from now on, and first of all that is there."""
        self._observers.append(observer)
        for obj in list(self._objects.values()):
            observer(None, obj)

    def learn(self, obj: Json) -> None:
        """Take in the answer to a write, unless the watch was faster."""
        if obj.get("kind") != "Status":
            self._put(obj)

    async def run(self) -> None:
        """List and watch until cancelled; failures are waited out."""
        while True:
            try:
                if not self._revision:
                    await self._list()
                await self._follow()
            except Gone:
                self._revision = 0
            except KubeError as error:
                self._failures += 1
                level = logging.WARNING if self._failures == 1 else logging.DEBUG
                _log.log(level, "watching %s failed: %s", self.resource, error)
                await self._clock.sleep(_PAUSE.wait(self._failures) / 1000)
            else:
                await self._clock.sleep(0)

    async def _list(self) -> None:
        listing = await self._client.list(self.resource)
        seen = {key_of(obj) for obj in listing.items}
        for obj in listing.items:
            self._put(obj)
        self._revision = int(listing.revision)
        for key in [each for each in self._objects if each not in seen]:
            if _revision(self._objects[key]) <= self._revision:
                self._drop(key)
        self.synced.set()

    async def _follow(self) -> None:
        watch = self._client.watch(self.resource, since=str(self._revision), bookmarks=True)
        async with aclosing(watch) as events:
            async for event in events:
                self._failures = 0
                self._take(event)

    def _take(self, event: Event) -> None:
        if event.type == DELETED:
            self._drop(key_of(event.object))
        elif event.type != BOOKMARK:
            self._put(event.object)
        self._revision = int(event.revision or self._revision)

    def _put(self, obj: Json) -> None:
        key, revision = key_of(obj), _revision(obj)
        old = self._objects.get(key)
        known = self._revision if old is None else _revision(old)
        if revision <= known:
            return
        new = self._trim(obj)
        if old is not None and old["metadata"].get("uid") != new["metadata"].get("uid"):
            self._drop(key)
            old = None
        self._objects[key] = new
        self._tell(old, new)

    def _drop(self, key: Key) -> None:
        old = self._objects.pop(key, None)
        if old is not None:
            self._tell(old, None)

    def _tell(self, old: Json | None, new: Json | None) -> None:
        for observer in self._observers:
            try:
                observer(old, new)
            except Exception:
                # A fault in one observer must not cost the others their view of the world.
                _log.exception("an observer of %s failed", self.resource)


def _revision(obj: Json) -> int:
    return int(obj["metadata"].get("resourceVersion") or 0)
