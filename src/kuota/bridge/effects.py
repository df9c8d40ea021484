# SPDX-License-Identifier: Apache-2.0
"""Effects: writes described before they are sent. Sending one twice does no harm."""

from __future__ import annotations

from kuota.api.base import Json, Key
from kuota.engine.model import Struct

from .conditions import shortened

MAX_NOTE = 1024
"""Bytes of an event's note that an API server accepts."""


class StatusPatch(Struct):
    """A JSON merge patch on the status of one Workload, made from the version it names."""

    key: Key
    resource_version: str
    status: Json


class Event(Struct):
    """One line in the story of a Workload. `warning` ones tell of something in the way."""

    key: Key
    reason: str
    note: str
    warning: bool = False

    @classmethod
    def about(cls, key: Key, reason: str, note: str, *, warning: bool = False) -> Event:
        """The event with its note cut to what an API server accepts."""
        return cls(key=key, reason=reason, note=shortened(note, MAX_NOTE), warning=warning)


Effect = StatusPatch | Event


def merged(target: Json, patch: Json) -> Json:
    """The object after a JSON merge patch; neither argument is changed."""
    result = dict(target)
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            before = result.get(name)
            result[name] = merged(before if isinstance(before, dict) else {}, value)
        else:
            result[name] = value
    return result
