# SPDX-License-Identifier: Apache-2.0
"""Leader election on a Lease: at most one holder writes at a time.

Clocks of different machines are never compared. A candidate records, on its own clock, when it last
saw the Lease change. If it does not change for the Lease's duration, the holder is considered dead.
A holder counts from before the renewal request that succeeded, and stops `renew_deadline_s` later,
which is before anyone else may take over. `holder_named` determines the holder without taking part
in the election.
"""

from __future__ import annotations

import logging
import math
import socket
import uuid
from collections.abc import Callable

import msgspec

from kuota.api import managed_fields
from kuota.api.base import Json, Key

from .client import Client
from .clock import Clock, SystemClock, micro_time, within
from .errors import AlreadyExists, Conflict, KubeError, NotFound
from .resources import LEASES

_log = logging.getLogger(__name__)


class Timing(msgspec.Struct, frozen=True):
    """The defaults of Kueue and client-go. Each must be larger than the next."""

    lease_s: float = 15
    renew_deadline_s: float = 10
    retry_s: float = 2

    def __post_init__(self) -> None:
        if not self.lease_s > self.renew_deadline_s > self.retry_s > 0:
            raise ValueError("need lease duration > renew deadline > retry period > 0")


def unique_identity() -> str:
    """Return a unique identity for this process: host name and a random part."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Election:
    """One candidate for one Lease. Identities must be unique.

    `held` is whether this process may write now. It becomes false by the clock alone, even if the
    event loop was blocked at the deadline. Pass it to a client as `may_write`; the election itself
    needs a client without that restriction and without a rate limit.
    """

    def __init__(
        self,
        client: Client,
        key: Key,
        identity: str,
        *,
        timing: Timing | None = None,
        clock: Clock | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        self._client = client
        self._key = key
        self._identity = identity
        self._timing = timing or Timing()
        self._clock = clock or SystemClock()
        self._on_lost = on_lost
        self._lease: Json | None = None
        self._seen_at = 0.0
        self._held_until: float | None = None
        self._fault = ""

    def held(self) -> bool:
        """Whether this process leads now."""
        return self._held_until is not None and self._clock.monotonic() < self._held_until

    @property
    def holder(self) -> str:
        """The last known leader; "" for none."""
        return str(_spec(self._lease).get("holderIdentity") or "")

    async def acquire(self) -> None:
        """Return when this process leads."""
        while not (await self._attempt_in_time() and self.held()):
            await self._clock.sleep(self._timing.retry_s)
        _log.info("leading %s as %s", self._key, self._identity)

    async def hold(self) -> None:
        """Renew until the lease is lost; then call `on_lost` at once and return."""
        try:
            while self.held():
                await within(self._clock, self._left_s(), self._renewal())
        except TimeoutError:
            _log.error("lost the lease %s: it could not be renewed in time", self._key)
        self._lose()

    async def release(self) -> None:
        """Stop leading and release the lease, so that the next leader need not wait."""
        leading, self._held_until = self._held_until is not None, None
        if not leading or self._lease is None or self.holder != self._identity:
            return
        try:
            await self._write(holder="", duration_s=1)
        except KubeError as error:
            _log.warning("could not release %s: %s", self._key, error)

    def _lose(self) -> None:
        if self._held_until is None:
            return
        self._held_until = None
        _log.error("lost %s", self._key)
        if self._on_lost is not None:
            self._on_lost()

    def _left_s(self) -> float:
        return (self._held_until or 0.0) - self._clock.monotonic()

    async def _renewal(self) -> None:
        """Wait, then renew until that succeeds or another candidate holds the lease."""
        await self._clock.sleep(self._timing.retry_s)
        if not await self._attempt() and self.holder not in ("", self._identity):
            self._held_until = self._clock.monotonic()

    async def _attempt_in_time(self) -> bool:
        """Limit an attempt to the time for which a lease may be held."""
        try:
            return await within(self._clock, self._timing.renew_deadline_s, self._attempt())
        except TimeoutError:
            self._complain("no answer in time")
            return False

    async def _attempt(self) -> bool:
        """Acquire or renew the lease if allowed. Returns False if that is not possible."""
        started = self._clock.monotonic()
        try:
            if not await self._taken():
                return False
        except KubeError as error:
            await self._explain(error)
            return False
        self._held_until = started + self._timing.renew_deadline_s
        self._fault = ""
        return True

    async def _explain(self, error: KubeError) -> None:
        """Determine who acquired or deleted the lease, or report the error."""
        if isinstance(error, Conflict | AlreadyExists | NotFound):
            try:
                await self._look()
                if self._lease is not None:
                    return
            except KubeError as later:
                error = later
        self._complain(str(error))

    def _complain(self, fault: str) -> None:
        """Log a fault once, not at every attempt."""
        level = logging.DEBUG if fault == self._fault else logging.WARNING
        self._fault = fault
        _log.log(level, "election on %s: %s", self._key, fault)

    async def _taken(self) -> bool:
        if self.holder != self._identity or self._lease is None:
            await self._look()
        if self.holder not in ("", self._identity) and not self._expired():
            return False
        await self._write(holder=self._identity, duration_s=self._timing.lease_s)
        return True

    async def _look(self) -> None:
        try:
            self._note(await self._client.get(LEASES, self._key))
        except NotFound:
            self._lease = None

    def _note(self, lease: Json) -> None:
        """Record the lease, and on our own clock when its content last changed."""
        if _spec(lease) != _spec(self._lease):
            self._seen_at = self._clock.monotonic()
        self._lease = lease

    def _expired(self) -> bool:
        duration_s = _spec(self._lease).get("leaseDurationSeconds") or self._timing.lease_s
        return self._clock.monotonic() >= self._seen_at + float(duration_s)

    async def _write(self, *, holder: str, duration_s: float) -> None:
        """Write the lease, or create it; raises Conflict or AlreadyExists if it is outdated."""
        spec = _spec(self._lease)
        now = micro_time(self._clock.now())
        changed = spec | {
            "holderIdentity": holder,
            "leaseDurationSeconds": math.ceil(duration_s),
            "renewTime": now,
        }
        if spec.get("holderIdentity") != holder and holder:
            changed["acquireTime"] = now
            changed["leaseTransitions"] = int(spec.get("leaseTransitions") or 0) + 1
        if self._lease is not None:
            answer = await self._client.replace(LEASES, self._lease | {"spec": changed})
        else:
            meta = {"namespace": self._key.namespace, "name": self._key.name}
            made = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": meta}
            changed["leaseTransitions"] = 0
            answer = await self._client.create(LEASES, made | {"spec": changed})
        self._note(answer)


def _spec(lease: Json | None) -> Json:
    return (lease or {}).get("spec") or {}


LASTS_S = 15.0
"""The duration of a lease that does not specify one."""
_PAUSE_S = 0.5


async def holder_named(client: Client, key: Key, manager: str, clock: Clock) -> str:
    """Return the live holder that writes as this field manager; "" if there is none.

    A dead holder cannot be recognised by one read or by comparing clocks. So the lease is watched
    until it is renewed or expires.
    """
    first = await _renewed_spec(client, key, manager)
    until = clock.monotonic() + float(first.get("leaseDurationSeconds") or LASTS_S)
    while first and clock.monotonic() < until:
        await clock.sleep(_PAUSE_S)
        now = await _renewed_spec(client, key, manager)
        if now != first:
            return str(now.get("holderIdentity") or "")
    return ""


async def _renewed_spec(client: Client, key: Key, manager: str) -> Json:
    """Return the spec of a lease that such a holder last renewed; empty otherwise."""
    try:
        lease = await client.get(LEASES, key)
    except NotFound:
        return {}
    entries = managed_fields.readable(lease["metadata"].get("managedFields"))
    renewed = any(
        owner.manager == manager and "f:renewTime" in entry.fields.get("f:spec", {})
        for owner, entry in entries.items()
    )
    spec = _spec(lease)
    return spec if renewed and spec.get("holderIdentity") else {}
