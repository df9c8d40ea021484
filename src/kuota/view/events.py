# SPDX-License-Identifier: Apache-2.0
"""Reads core/v1 Events: when they occurred last, how often, and who reported them. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from kuota.api.base import Json


def occurred(event: Json) -> str:
    """Return when the Event last occurred. A single Event has microsecond precision."""
    series = (event.get("series") or {}).get("lastObservedTime")
    once = event.get("count") in (None, 0, 1)
    stamp = series or (once and event.get("eventTime")) or event.get("lastTimestamp")
    return str(stamp or event["metadata"].get("creationTimestamp") or "")


def occurrences(event: Json) -> int:
    """Return how often the Event occurred."""
    count = (event.get("series") or {}).get("count") or event.get("count")
    return count if isinstance(count, int) else 1


def source(event: Json) -> str:
    """Return the component that reported the Event; "" if it is unknown."""
    component = (event.get("source") or {}).get("component")
    return str(event.get("reportingComponent") or component or "")


def about(events: Iterable[Json], obj: Json) -> list[Json]:
    """Return the Events of an object, latest last, without those of namesakes."""
    return sorted((each for each in events if _concerns(each, obj)), key=occurred)


def _concerns(event: Json, obj: Json) -> bool:
    subject, metadata = event.get("involvedObject") or {}, obj["metadata"]
    named = subject.get("kind"), subject.get("name")
    if named != (obj.get("kind"), metadata["name"]):
        return False
    if subject.get("uid"):
        return bool(subject["uid"] == metadata.get("uid"))
    space = metadata.get("namespace")
    return not space or space == (subject.get("namespace") or event["metadata"].get("namespace"))
