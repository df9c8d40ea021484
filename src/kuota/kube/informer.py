# SPDX-License-Identifier: Apache-2.0
"""Keeps a cache consistent with an API server: lists once, then follows the watch.

A controller must not act on the state before its own write, but the watch delivers a write only
after its response. So the response is stored in the cache at once (`wrote`) and observers are
notified. The watch event with the same revision then changes nothing.

Nothing is polled. A watch that ends for any reason is resumed from the last revision seen. If the
server has compacted that revision (410), everything is listed again and only the differences are
reported. Consecutive failures cause an increasing delay.

A server that does not serve the kind is distinguished from a server that does not respond. In the
first case there are no such objects, and callers for which the kind is optional need not wait. A
kind can appear, and disappear with all its objects, at any time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import TypeVar, cast

from kuota.api.backoff import Backoff
from kuota.api.base import Json

from .cache import Cache, Decode, Indexer, never_packed, number, revision_of
from .client import Client, served
from .clock import Clock, SystemClock
from .errors import ApiError, Forbidden, Gone, KubeError, NotFound, TooManyRequests
from .list_and_watch import ListAndWatch, store
from .requests import Selection
from .resources import Resource, key_of

T = TypeVar("T")

PAUSE = Backoff(base=100, cap=10_000)
"""Delays after consecutive failures, in milliseconds."""
LIVELY_S = 1.0
"""A watch that lasted this long has not failed, even if it delivered no events."""
LOOK_AGAIN_S = 30.0
"""The interval between checks for a kind that the server does not serve."""
ANNOUNCED_S = 600.0
"""The same for a kind whose appearance is announced."""
EXPECTED_S = 60.0
"""How long a kind that was announced is expected: checks are as frequent as after failures."""
REMIND_S = 300.0
"""The interval at which a persistent failure is logged again."""

_BRIEF_FAILURES = 3
"""The number of consecutive 429 that are not worth a warning."""

_log = logging.getLogger(__name__)


def _never() -> bool:
    return False


def trimmed(obj: Json) -> Json:
    """Return the object without managedFields, which are large and which no controller reads."""
    obj["metadata"].pop("managedFields", None)
    return obj


class Informer(Cache[T]):
    """The objects of one kind, slightly delayed. `run` keeps them up to date until cancelled.

    `decode` returns the value to store; it may modify its argument. `synced` is set after the first
    list; make no decisions before. `settled` is set at the same time, or as soon as it is known
    that the server does not serve the kind. `on_error` is called after every failed attempt to list
    or watch, except for expired revisions. `where` begins log messages. Observers are called in the
    order of changes, in the task that runs the informer or reports a write. They must not block.
    """

    def __init__(
        self,
        client: Client,
        resource: Resource,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        metadata_only: bool = False,
        decode: Decode[T] | None = None,
        indexers: Mapping[str, Indexer[T]] | None = None,
        packs: Callable[[T], bool] = never_packed,
        on_error: Callable[[KubeError], None] | None = None,
        where: str = "",
        clock: Clock | None = None,
    ) -> None:
        super().__init__(decode or cast(Decode[T], trimmed), indexers or {}, packs)
        self.resource = resource
        self.synced, self.settled = asyncio.Event(), asyncio.Event()
        self.lacking = False
        """Whether the server does not serve this kind."""
        self.announces: Callable[[], bool] = _never
        """Whether `announce` is called once the kind is defined. Its absence is normal then."""
        self.error: KubeError | None = None
        """Why the cache may be stale; None if it is not."""
        self._client = client
        self._on_error, self._where = on_error, where
        which = Selection(namespace, label_selector, field_selector, metadata_only)
        self._server = ListAndWatch(client, resource, which)
        self._clock = clock or SystemClock()
        self._revision = ""
        """The cache contains every change up to this revision."""
        self._listed = False
        """Whether the watch can resume from `_revision`."""
        self._failures, self._reported, self._lived = 0, False, False
        self._said_at = self._expected_until = 0.0
        self._watching: asyncio.Future[None] | None = None
        self._impatient: list[asyncio.Future[None]] = []
        self._announced = asyncio.Event()
        self._on_lacking: list[Callable[[], None]] = []

    def wrote(self, answer: Json) -> None:
        """Store the response to a write, as if the watch had already delivered it.

        The response to a read is accepted as well. A response older than the cache is ignored, and
        so is a Status. An object that is being deleted stays until the watch reports its deletion.
        """
        if answer.get("kind") == "Status":
            return
        # If it is not cached, the watch has not delivered it yet or has reported its deletion.
        known = self.revision(key_of(answer)) or self._revision
        if number(revision_of(answer)) > number(known):
            self.put(answer)

    async def run(self) -> None:
        """List and watch until cancelled."""
        try:
            while True:
                await self._list_and_watch()
                if not (self._impatient and self.error is None):
                    await self._pause()
        finally:
            await self._server.close()

    async def caught_up(self) -> None:
        """Return when the cache contains everything that was stored before this call.

        A watch is delayed by an unknown time, so everything is listed again.
        """
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._impatient.append(reached)
        if self._watching is not None:
            self._watching.cancel()
        await reached

    def observe_lacking(self, observer: Callable[[], None]) -> None:
        """Notify the observer whenever `lacking` has changed."""
        self._on_lacking.append(observer)

    def announce(self) -> None:
        """Check soon whether the server serves the kind, because its definition has changed."""
        self._expected_until = self._clock.monotonic() + EXPECTED_S
        if self.lacking:
            self._failures = 0
            self._announced.set()

    async def _list_and_watch(self) -> None:
        self._reported = self._lived = False
        try:
            while self._impatient or not self._listed:
                await self._refresh()
            await self._follow()
        except KubeError as error:
            await self._look_for_kind(error)
            self._explain(error)

    async def _refresh(self) -> None:
        served_now, self._impatient = self._impatient, []
        try:
            await self._relist(newest=bool(served_now))
        except BaseException:
            self._impatient += served_now
            raise
        for each in served_now:
            if not each.done():
                each.set_result(None)

    async def _follow(self) -> None:
        """Watch until the stream ends or `caught_up` requests a new list."""
        started = self._clock.monotonic()
        self._watching = watching = asyncio.ensure_future(self._watch())
        try:
            await asyncio.wait((watching,))
            if not watching.cancelled():
                watching.result()
        except Gone:
            self._listed = False
            raise
        finally:
            self._watching = None
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)
            self._lived = self._clock.monotonic() - started >= LIVELY_S
        self._recover()

    async def _watch(self) -> None:
        async with aclosing(self._server.changes(self._revision)) as changes:
            async for event in changes:
                self._reported = True
                self._recover()
                store(self, event)
                self._revision = event.revision or self._revision

    async def _relist(self, *, newest: bool) -> None:
        """List again and update the cache, if `newest` with everything that is stored by now."""
        listed = await self._server.list(self, self._revision, newest=newest)
        # Objects that were created after the list are kept.
        self.keep_only(listed.keys, listed.revision)
        self._revision = listed.revision
        self._listed = True
        self._recover()
        self.synced.set()
        self.settled.set()
        self._set_lacking(False)

    def _recover(self) -> None:
        if self.error is not None:
            _log.info("%swatching %s again", self._where, self.resource)
            self.error = None

    async def _look_for_kind(self, error: KubeError) -> None:
        """Check whether the server serves the kind. It may return 403 before it checks that."""
        if not isinstance(error, NotFound | Forbidden):
            return
        lacking = not await served(self._client, self.resource)
        if lacking:
            self._listed = False
            for key in list(self.keys()):
                self.drop(key)
            self.settled.set()
        self._set_lacking(lacking)

    def _set_lacking(self, lacking: bool) -> None:
        changed, self.lacking = self.lacking is not lacking, lacking
        for observer in self._on_lacking if changed else ():
            observer()

    def _explain(self, error: KubeError) -> None:
        """Record and log why the cache may be stale: first as a warning, then only periodically."""
        now = self._clock.monotonic()
        fresh = self.error is None or now - self._said_at >= REMIND_S
        # A server that has just started, or has just learned of a kind, answers 429.
        brief = isinstance(error, TooManyRequests) and self._failures < _BRIEF_FAILURES
        # Whoever handles errors also reports them.
        loud = fresh and self._on_error is None and not (isinstance(error, Gone) or brief)
        normal = self._awaits_definition()
        if normal:
            loud = loud and self.error is None
        if loud:
            self._said_at = now
        level = (logging.INFO if normal else logging.WARNING) if loud else logging.DEBUG
        _log.log(level, "%s%s", self._where, self._words(error))
        self.error = error
        if self._on_error is not None and not isinstance(error, Gone):
            self._on_error(error)

    def _awaits_definition(self) -> bool:
        """Whether the server lacks the kind, and its definition will be announced."""
        return self.lacking and self.announces()

    def _words(self, error: KubeError) -> str:
        if self._awaits_definition():
            return f"{self.resource} is not defined; it is watched as soon as it is"
        if self.lacking:
            return f"the server has no {self.resource}: checking again every {LOOK_AGAIN_S:.0f} s"
        if isinstance(error, Forbidden):
            wanted = "grant get, list and watch on this resource"
            return f"not allowed to watch {self.resource}: {wanted}; trying again: {error}"
        return f"watching {self.resource} failed: {error}"

    async def _pause(self) -> None:
        """Wait before the next attempt.

        The delay resets after a watch that lasted, is short after one that delivered events, and
        increases otherwise.
        """
        if self._lived:
            self._failures = 0
        else:
            self._failures = 1 if self._reported else self._failures + 1
        named_s = self.error.retry_after_s if isinstance(self.error, ApiError) else None
        wait_s = max(PAUSE.wait(self._failures) / 1000, named_s or 0.0)
        if self.lacking and self._clock.monotonic() >= self._expected_until:
            longest_s = ANNOUNCED_S if self.announces() else LOOK_AGAIN_S
            await self._sleep_until_announced(longest_s)
        else:
            await self._clock.sleep(wait_s)

    async def _sleep_until_announced(self, longest_s: float) -> None:
        self._announced.clear()
        waits = [
            asyncio.ensure_future(self._clock.sleep(longest_s)),
            asyncio.ensure_future(self._announced.wait()),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
