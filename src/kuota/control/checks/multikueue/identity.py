# SPDX-License-Identifier: Apache-2.0
"""Which manager created a copy, and for which reservation of quota. Pure."""

from __future__ import annotations

from kuota.api.base import Json, true_condition
from kuota.api.rules.report import mapping, text
from kuota.bridge.conditions import timestamp
from kuota.bridge.draft import StoredWorkload

MANAGER = "kuota.dev/multikueue-manager"
"""The annotation of a copy with the identity of the cluster whose manager created it.

Two managers that were given the same origin by mistake do not delete the copies of each other.
"""
RESERVATION = "kuota.dev/multikueue-reservation"
"""The annotation of a copy with the time at which its original reserved quota.

It is the manager's time and only compared with itself, so that clocks may differ. A copy with
another time is left over from an earlier dispatch: it returned with a cluster that was lost.
"""


def created_by_other(copy: Json, own: str) -> bool:
    """Whether the manager of another cluster created the copy."""
    creator = _annotation(copy, MANAGER)
    return bool(own and creator and creator != own)


def reservation_of(local: StoredWorkload) -> str:
    """Return the time at which a Workload reserved the quota that it has; "" without quota."""
    found = true_condition(local.obj.status.conditions, "QuotaReserved")
    since = found.last_transition_time if found is not None else None
    return timestamp(since.timestamp()) if since is not None else ""


def of_earlier_dispatch(copy: StoredWorkload, local: StoredWorkload) -> bool:
    """Whether a copy was created for an earlier reservation. Copies of Kueue do not show it."""
    created_for = _annotation(copy.json, RESERVATION)
    return bool(created_for) and created_for != reservation_of(local)


def _annotation(copy: Json, name: str) -> str:
    return text(mapping(copy["metadata"].get("annotations")).get(name))
