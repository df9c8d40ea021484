# SPDX-License-Identifier: Apache-2.0
"""Faults of Events, by Kubernetes' rules for core/v1 and the stricter ones of events.k8s.io/v1.

Both versions name fields as in core/v1, as kube-apiserver does. There is one deviation: Kubernetes
lets an Event with an `eventTime` name an object of any namespace. Then a member could put words
about another team's object into the mouth of a controller, so the namespaces must always agree.
"""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api import names
from kuota.api.base import Json
from kuota.api.faults import FieldError, immutable, invalid, malformed, required

from .columns import dig
from .kinds import core_event

_DEFAULT, _SYSTEM = "default", "kube-system"
_SHORT, _LONG = 128, 1024
_TYPES = ("Normal", "Warning")
_UNSET = ("firstTimestamp", "lastTimestamp", "count")
_IMMUTABLE = (
    "involvedObject",
    "reason",
    "message",
    "source",
    *_UNSET,
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)


def core_event_faults(event: Json) -> Iterator[FieldError]:
    """Yield the faults of an Event of core/v1."""
    yield from _faults(event, "reportingComponent")


def event_faults(written: Json) -> Iterator[FieldError]:
    """Yield the faults of an Event of events.k8s.io/v1 that apply to new and changed ones."""
    yield from _faults(core_event(written), "reportingController")


def new_event_faults(written: Json) -> Iterator[FieldError]:
    """Yield the other faults of a new Event of events.k8s.io/v1."""
    event = core_event(written)
    yield from _series_faults(event)
    if not event.get("eventTime"):
        yield required("eventTime", "an Event needs the time at which it occurred", "set it")
    if event.get("type") not in _TYPES:
        yield invalid("type", event.get("type"), "has invalid value", f"use {' or '.join(_TYPES)}")
    for field in _UNSET:
        if event.get(field):
            yield invalid(field, event[field], "needs to be unset")
    if dig(event, "source", "component") or dig(event, "source", "host"):
        yield invalid("source", event["source"], "needs to be unset")


def event_update_faults(written: Json, before: Json) -> Iterator[FieldError]:
    """Yield the faults of a change through events.k8s.io/v1, where only the series may change."""
    event, old = core_event(written), core_event(before)
    if event.get("series") != old.get("series"):
        yield from _series_faults(event)
    for field in _IMMUTABLE:
        if (event.get(field) or None) != (old.get(field) or None):
            yield immutable(field, event.get(field), "", "create another Event")


def _faults(event: Json, controller: str) -> Iterator[FieldError]:
    yield from _namespace_faults(event)
    if not event.get("eventTime"):
        return  # It is of the form that older clients write, in which nothing else is required.
    yield from _text_faults(controller, event.get("reportingComponent"), None)
    if event.get("reportingComponent"):
        said = str(event["reportingComponent"])
        yield from malformed(controller, said, names.qualified_name(said))
    for field in ("reportingInstance", "action", "reason"):
        yield from _text_faults(field, event.get(field), _SHORT)
    if len(str(event.get("message") or "").encode()) > _LONG:
        yield invalid("message", "", f"can have at most {_LONG} characters")


def _namespace_faults(event: Json) -> Iterator[FieldError]:
    """The object is in the namespace of the Event. Objects without one have Events in `default`."""
    own, about = dig(event, "metadata", "namespace"), dig(event, "involvedObject", "namespace")
    if not own:
        return  # A manifest that is checked without a server, which would set it.
    shared = (_DEFAULT, _SYSTEM) if event.get("eventTime") else (_DEFAULT,)
    agrees = own == about if about else own in shared
    if not agrees:
        fix = f'an Event in namespace "{own}" is about an object of that namespace'
        yield invalid(
            "involvedObject.namespace", about or "", "does not match event.namespace", fix
        )


def _text_faults(field: str, value: object, most: int | None) -> Iterator[FieldError]:
    if not value:
        yield required(field, "an Event with an eventTime needs it", f"set {field}")
    elif most is not None and len(str(value).encode()) > most:
        yield invalid(field, "", f"can have at most {most} characters")


def _series_faults(event: Json) -> Iterator[FieldError]:
    if event.get("series") is None:
        return
    count = dig(event, "series", "count")
    if not isinstance(count, int) or count < 2:
        yield invalid("series.count", count, "should be at least 2")
    if not dig(event, "series", "lastObservedTime"):
        yield required("series.lastObservedTime", "a series was observed last at some time")
