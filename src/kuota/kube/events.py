# SPDX-License-Identifier: Apache-2.0
"""Records Events about objects, without flooding the API server.

A repeated Event, whatever its message, increments the count of the first one. The count is written
soon after the first repeat, and then at most once a minute. An object with too many Events is
ignored for some time, and many Events about many objects are sent slowly, so that they never delay
more important writes. Events are best effort: one that cannot be sent is dropped, and recording
never blocks.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import OrderedDict, deque
from collections.abc import Hashable
from datetime import datetime
from typing import Protocol

import msgspec

from kuota.api.base import Json, Key
from kuota.failures import report

from .client import Client
from .clock import Clock, SystemClock, within
from .errors import KubeError, NotFound
from .event_writer import EventWriter
from .resources import CORE_EVENTS
from .retry import Rate

MOST_WAITING = 2048
FEW_WAITING = 32
"""While this many events are queued, events that can wait are dropped."""
MOST_SERIES = 4096
FIRST_INTERVAL_S, INTERVAL_S = 5.0, 60.0
"""The interval after the first write of a series, and between two further writes of its count."""
QUIET_S = 360.0
"""After this time without a repeat, the next event starts a new series."""
AT_ONCE = 8
FLOOD_QPS, BURST = 25.0, 500
"""The rate and burst at which Events are sent."""
MOST_AT_THE_END = 256
"""The maximum number of queued Events sent when the process ends."""
OBJECT_BURST, OBJECT_REFILL_S = 25, 60.0
"""The burst of Events about one object, and the interval between further ones."""
_MOST_OBJECTS = 4096
_NOTE_BYTES = 1024
_NAME_LENGTH = 253
_WORD_LENGTH = 128

_log = logging.getLogger(__name__)


class Recorder(Protocol):
    """Records events. Recording is best effort."""

    def record(
        self,
        regarding: Json,
        reason: str,
        note: str,
        *,
        warning: bool = False,
        controller: str = "",
        when: datetime | None = None,
        can_wait: bool = False,
    ) -> None:
        """Record that this happened to the object.

        `controller` is the reporting controller, by default that of the recorder; `when` is the
        time, by default now. With `can_wait` it may be dropped under load, even if it is a warning.
        """


class _EventIdentity(msgspec.Struct, frozen=True, cache_hash=True):
    """What identifies events of one series."""

    controller: str
    regarding: tuple[tuple[str, str], ...]
    reason: str
    type: str


class _Series:
    """The count of one series, its newest note, and what is already written."""

    def __init__(self, note: str, first: datetime, at: float) -> None:
        self.note = note
        self.first = self.last = first
        self.last_at = at
        self.count = 1
        self.written_count = 0
        self.written_at = at
        self.key: Key | None = None


class _EventQuota:
    """The event budget of one object: a burst of Events, then one a minute.

    The least recently used objects are forgotten first.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def spend(self, about: Hashable) -> bool:
        """Whether one more Event about the object is allowed; if so, it is counted."""
        now = self._clock.monotonic()
        left, at = self._left.get(about, (float(OBJECT_BURST), now))
        left = min(float(OBJECT_BURST), left + (now - at) / OBJECT_REFILL_S)
        allowed = left >= 1
        self._left[about] = (left - 1 if allowed else left, now)
        self._left.move_to_end(about)
        if len(self._left) > _MOST_OBJECTS:
            self._left.popitem(last=False)
        return allowed


class EventRecorder:
    """Records events of one controller; `run` sends until cancelled.

    `dropped` counts events that were not sent.
    """

    def __init__(
        self, client: Client, controller: str, instance: str = "", *, clock: Clock | None = None
    ) -> None:
        self.dropped = 0
        self._writer = EventWriter(client)
        self._controller = controller
        self._instance = (instance or f"{controller}-{socket.gethostname()}")[:_WORD_LENGTH]
        self._clock = clock or SystemClock()
        self._quota = _EventQuota(self._clock)
        self._rate = Rate(self._clock, FLOOD_QPS, BURST)
        self._series: OrderedDict[_EventIdentity, _Series] = OrderedDict()
        self._fresh: deque[_EventIdentity] = deque()
        self._repeated: dict[_EventIdentity, None] = {}
        self._wake = asyncio.Event()
        self._serial = 0

    def record(
        self,
        regarding: Json,
        reason: str,
        note: str,
        *,
        warning: bool = False,
        controller: str = "",
        when: datetime | None = None,
        can_wait: bool = False,
    ) -> None:
        """Queue the event. With `can_wait` it is dropped while many others are queued."""
        story = _EventIdentity(
            controller=(controller or self._controller)[:_WORD_LENGTH],
            regarding=_reference(regarding),
            reason=reason[:_WORD_LENGTH],
            type="Warning" if warning else "Normal",
        )
        series = self._series.get(story)
        now_at = self._clock.monotonic()
        if series is not None and now_at - series.last_at < QUIET_S:
            series.note = _shortened(note)
            self._repeat(story, series, when or self._clock.now(), now_at)
        elif len(self._fresh) < (FEW_WAITING if can_wait else MOST_WAITING) and (
            self._quota.spend(story.regarding)
        ):
            self._begin(story, _Series(_shortened(note), when or self._clock.now(), now_at))
        else:
            self.dropped += 1

    async def run(self) -> None:
        """Send recorded events until cancelled."""
        while True:
            self._wake.clear()
            await self._send_fresh()
            await self._send_counts()
            await self._rest()

    async def flush(self) -> None:
        """Send everything recorded, including counts, before the process ends."""
        while len(self._fresh) > MOST_AT_THE_END:
            self._fresh.popleft()
            self.dropped += 1
        while self._fresh:
            await self._send(AT_ONCE)
        await self._send_counts(early=True)

    def _begin(self, story: _EventIdentity, series: _Series) -> None:
        self._series[story] = series
        self._series.move_to_end(story)
        while len(self._series) > MOST_SERIES:
            forgotten, _ = self._series.popitem(last=False)
            self._repeated.pop(forgotten, None)
        self._fresh.append(story)
        self._wake.set()

    def _repeat(
        self, story: _EventIdentity, series: _Series, when: datetime, now_at: float
    ) -> None:
        series.count += 1
        series.last = when
        series.last_at = now_at
        self._series.move_to_end(story)
        if series.written_count and story not in self._repeated:
            self._repeated[story] = None
            self._wake.set()

    async def _rest(self) -> None:
        """Wait until a new event is recorded or the next count is due."""
        if not self._repeated:
            await self._wake.wait()
            return
        due = min(self._due(story) for story in self._repeated)
        try:
            await within(self._clock, due - self._clock.monotonic(), self._wake.wait())
        except TimeoutError:
            return

    def _due(self, story: _EventIdentity) -> float:
        series = self._series[story]
        repeated = series.written_count > 1
        return series.written_at + (INTERVAL_S if repeated else FIRST_INTERVAL_S)

    async def _send_fresh(self) -> None:
        while self._fresh:
            some = min(AT_ONCE, len(self._fresh))
            for _ in range(some):
                await self._rate.take()
            await self._send(some)

    async def _send(self, most: int) -> None:
        some = [self._fresh.popleft() for _ in range(min(most, len(self._fresh)))]
        await asyncio.gather(*(self._create(story) for story in some))

    async def _send_counts(self, *, early: bool = False) -> None:
        now_at = self._clock.monotonic()
        for story in [each for each in self._repeated if early or self._due(each) <= now_at]:
            self._repeated.pop(story, None)
            await self._count(story)

    async def _create(self, story: _EventIdentity) -> None:
        series = self._series.get(story)
        if series is None:
            return
        event = self._event(story, series)
        series.key = Key(event["metadata"]["namespace"], event["metadata"]["name"])
        self._written(series)
        try:
            await self._writer.create(event, series.count, series.first, series.last)
        except Exception as error:
            self._drop(story, error)

    async def _count(self, story: _EventIdentity) -> None:
        series = self._series.get(story)
        if series is None or series.key is None:
            return
        self._written(series)
        try:
            await self._writer.count(series.key, series.count, series.last, series.note)
        except NotFound:
            # API servers delete Events after about an hour.
            await self._create(story)
        except Exception as error:
            self._drop(story, error)

    def _drop(self, story: _EventIdentity, error: Exception) -> None:
        self.dropped += 1
        if isinstance(error, KubeError):
            _log.debug("event %s was not sent: %s", story.reason, error)
        else:
            report("events", error, f"event {story.reason} was not sent")

    def _written(self, series: _Series) -> None:
        series.written_count = series.count
        series.written_at = self._clock.monotonic()

    def _event(self, story: _EventIdentity, series: _Series) -> Json:
        regarding = dict(story.regarding)
        return {
            "apiVersion": CORE_EVENTS.api_version,
            "kind": CORE_EVENTS.kind,
            "metadata": {
                "namespace": regarding.get("namespace") or "default",
                "name": self._name(regarding["name"], series.first),
            },
            "source": {"component": story.controller},
            "reportingComponent": story.controller,
            "reportingInstance": self._instance,
            "action": story.reason,
            "reason": story.reason,
            "involvedObject": regarding,
            "message": series.note,
            "type": story.type,
        }

    def _name(self, about: str, moment: datetime) -> str:
        """Return a unique name: the object's name, the microsecond, and a serial number."""
        self._serial += 1
        suffix = f"{int(moment.timestamp() * 1_000_000):x}{self._serial & 0xFFFF:04x}"
        return f"{about[: _NAME_LENGTH - len(suffix) - 1].rstrip('-.')}.{suffix}"


def _reference(obj: Json) -> tuple[tuple[str, str], ...]:
    metadata = obj.get("metadata") or {}
    found = {
        "apiVersion": obj.get("apiVersion"),
        "kind": obj.get("kind"),
        "namespace": metadata.get("namespace"),
        "name": metadata["name"],
        "uid": metadata.get("uid"),
    }
    return tuple((name, str(value)) for name, value in found.items() if value)


def _shortened(note: str) -> str:
    raw = note.encode()
    if len(raw) <= _NOTE_BYTES:
        return note
    return raw[: _NOTE_BYTES - 4].decode(errors="ignore") + " ..."
