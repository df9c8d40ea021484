# SPDX-License-Identifier: Apache-2.0
"""Effects: writes described before they are sent. Effects are idempotent.

A patch names the resourceVersion it is based on, so the API server rejects one that is based on an
outdated object. Several patches of one object based on the same version are applied in order.
"""

from __future__ import annotations

from kuota.api.base import Json, Key
from kuota.api.merge_patch import difference
from kuota.engine.model import Struct

from .conditions import shortened

MAX_NOTE = 1024
"""The maximum size of an event's note, in bytes."""

WORKLOAD = "Workload"


class StatusPatch(Struct):
    """A JSON merge patch of an object's status, based on a resourceVersion."""

    key: Key
    resource_version: str
    status: Json
    kind: str = WORKLOAD


class Patch(Struct):
    """A JSON merge patch of everything but the status, based on a resourceVersion.

    If it `may_be_rejected` and the API server rejects it as invalid, later effects are not sent and
    this is not a failure: the next change of the object causes another attempt.
    """

    key: Key
    resource_version: str
    body: Json
    kind: str = WORKLOAD
    may_be_rejected: bool = False


class Create(Struct):
    """Creates an object. It is not an error if the object exists, unless it `must_be_new`."""

    key: Key
    object: Json
    kind: str = WORKLOAD
    must_be_new: bool = False


class Delete(Struct):
    """Deletes the object with this UID. It is not an error if it does not exist."""

    key: Key
    uid: str
    kind: str = WORKLOAD
    propagation: str = "Background"


class Event(Struct):
    """An event about an object. A `warning` reports a problem.

    An event that `can_wait` is implied by another event, and is dropped under load.
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
        """Return an event whose note is cut to the maximum size."""
        cut = shortened(note, MAX_NOTE)
        return cls(key=key, reason=reason, note=cut, warning=warning, kind=kind)


Effect = StatusPatch | Patch | Create | Delete | Event


def edit(
    kind: str, key: Key, before: Json, after: Json, *, may_be_rejected: bool = False
) -> list[Effect]:
    """Return the patch from `before` to `after`, if one is needed, except for the status."""
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
            may_be_rejected=may_be_rejected,
        )
    ]
