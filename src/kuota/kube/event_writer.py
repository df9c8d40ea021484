# SPDX-License-Identifier: Apache-2.0
"""Writes Events in the API version that the caller's role allows.

core/v1 is preferred: only that version lets a client set firstTimestamp, lastTimestamp and count,
by which people sort Events. Kueue's own ClusterRole allows only events.k8s.io/v1, so on a cluster
where Kuota runs with that role, Events are written in that version instead.
"""

from __future__ import annotations

from datetime import datetime

from kuota.api.base import Json, Key

from .client import Client
from .clock import micro_time, time_text
from .errors import Forbidden
from .resources import CORE_EVENTS, EVENTS

_NAMES = {
    "involvedObject": "regarding",
    "message": "note",
    "reportingComponent": "reportingController",
}
_CORE_ONLY = frozenset({"firstTimestamp", "lastTimestamp", "count", "source"})
"""Fields that events.k8s.io/v1 has under other names and does not let clients set."""


class EventWriter:
    """Creates Events and updates their counts. Raises KubeError."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._core = True

    async def create(self, event: Json, count: int, first: datetime, last: datetime) -> None:
        """Create the core/v1 Event. It must be complete except for its times and count."""
        times = {"eventTime": micro_time(first), "firstTimestamp": time_text(first)}
        whole = event | times | _core_count(count, last)
        if self._core:
            try:
                await self._client.create(CORE_EVENTS, whole)
                return
            except Forbidden as error:
                rejected = error
            # A namespace that is being deleted rejects both versions, so this proves nothing yet.
            try:
                await self._client.create(EVENTS, _modern(whole, count, last))
            except Forbidden:
                raise rejected from None
            self._core = False
            return
        await self._client.create(EVENTS, _modern(whole, count, last))

    async def count(self, key: Key, count: int, last: datetime, note: str) -> None:
        """Update the count of the Event, the time of its last occurrence, and its note.

        In events.k8s.io/v1 the note cannot change.
        """
        if self._core:
            changes = _core_count(count, last) | {"message": note}
            await self._client.patch(CORE_EVENTS, key, changes)
        else:
            await self._client.patch(EVENTS, key, {"series": _series(count, last)})


def _core_count(count: int, last: datetime) -> Json:
    return {"count": count, "lastTimestamp": time_text(last)} | _repeats(count, last)


def _repeats(count: int, last: datetime) -> Json:
    """Return how both versions count the repeats of an Event."""
    return {"series": _series(count, last)} if count > 1 else {}


def _series(count: int, last: datetime) -> Json:
    return {"count": count, "lastObservedTime": micro_time(last)}


def _modern(event: Json, count: int, last: datetime) -> Json:
    """Return the core/v1 Event in the form of events.k8s.io/v1."""
    kept = {field: value for field, value in event.items() if field not in _CORE_ONLY}
    renamed = {_NAMES.get(field, field): value for field, value in kept.items()}
    renamed["apiVersion"] = EVENTS.api_version
    return renamed | _repeats(count, last)
