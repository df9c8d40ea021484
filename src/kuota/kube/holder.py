# SPDX-License-Identifier: Apache-2.0
"""Who holds a Lease: found out by looking on, without standing for election."""

from __future__ import annotations

from kuota.api import managed_fields
from kuota.api.base import Json, Key

from .client import Client
from .clock import Clock
from .errors import NotFound
from .resources import LEASES

LASTS_S = 15.0
"""How long a lease lasts that does not say."""
_PAUSE_S = 0.5


async def holder_named(client: Client, key: Key, manager: str, clock: Clock) -> str:
    """The identity of the holder, if one is alive that writes as this field manager; else "".

    One that holds the lease and died cannot be told from one that lives by looking once, nor by
    comparing clocks: it is watched until it renews the lease, or until that has run out.
    """
    first = await _spec(client, key, manager)
    until = clock.monotonic() + float(first.get("leaseDurationSeconds") or LASTS_S)
    while first and clock.monotonic() < until:
        await clock.sleep(_PAUSE_S)
        now = await _spec(client, key, manager)
        if now != first:
            return str(now.get("holderIdentity") or "")
    return ""


async def _spec(client: Client, key: Key, manager: str) -> Json:
    """What a lease says that is held, and was last renewed, by such a one; else nothing."""
    try:
        lease = await client.get(LEASES, key)
    except NotFound:
        return {}
    spec: Json = lease.get("spec") or {}
    renewed = manager in _renewers(lease)
    return spec if renewed and spec.get("holderIdentity") else {}


def _renewers(lease: Json) -> set[str]:
    entries = managed_fields.readable(lease["metadata"].get("managedFields"))
    return {
        owner.manager
        for owner, entry in entries.items()
        if "f:renewTime" in entry.fields.get("f:spec", {})
    }
