# SPDX-License-Identifier: Apache-2.0
"""Effects: writes described before they are sent. Sending one twice does no harm.

A patch names the version it was made from, so that one made from an old object is refused rather
than believed. Several patches of one object from the same version are meant to follow each other.
"""

from __future__ import annotations

from kuota.api.base import Json, Key
from kuota.api.merge_patch import difference
from kuota.engine.model import Struct

from .conditions import shortened

MAX_NOTE = 1024
"""Bytes of an event's note that an API server accepts."""

WORKLOAD = "Workload"


class StatusPatch(Struct):
    """A JSON merge patch on the status of one object, made from the version it names."""

    key: Key
    resource_version: str
    status: Json
    kind: str = WORKLOAD


class Patch(Struct):
    """A JSON merge patch on everything but the status, made from the version it names.

    If it `may_be_refused` and the API server calls it invalid, the effects after it are not sent
    and nothing failed: a later change of the object makes the next pass try again.
    """

    key: Key
    resource_version: str
    body: Json
    kind: str = WORKLOAD
    may_be_refused: bool = False


class Create(Struct):
    """A new object. That it exists already is as good."""

    key: Key
    object: Json
    kind: str = WORKLOAD


class Delete(Struct):
    """The end of the object with that uid. That it is gone already is as good."""

    key: Key
    uid: str
    kind: str = WORKLOAD
    propagation: str = "Background"


class Event(Struct):
    """Something that happened to an object. A `warning` tells of a problem.

    One that `can_wait` says nothing that another event does not imply, and is dropped under load.
    """

    key: Key
    reason: str
    note: str
    warning: bool = False
    kind: str = WORKLOAD
    can_wait: bool = False

    @classmethod
    def about(
        cls, key: Key, reason: str, note: str, *, warning: bool = False, kind: str = WORKLOAD
    ) -> Event:
        """The event with its note cut to what an API server accepts."""
        cut = shortened(note, MAX_NOTE)
        return cls(key=key, reason=reason, note=cut, warning=warning, kind=kind)


Effect = StatusPatch | Patch | Create | Delete | Event


def edit(
    kind: str, key: Key, before: Json, after: Json, *, may_be_refused: bool = False
) -> list[Effect]:
    """The patch, if one is needed, that changes `before` to `after`, except for the status."""
    skip = ("status",)
    body = difference(
        {name: value for name, value in before.items() if name not in skip},
        {name: value for name, value in after.items() if name not in skip},
    )
    if not body:
        return []
    version = before.get("metadata", {}).get("resourceVersion", "")
    return [
        Patch(
            key=key,
            resource_version=version,
            body=body,
            kind=kind,
            may_be_refused=may_be_refused,
        )
    ]
