# SPDX-License-Identifier: Apache-2.0
"""Whether this process is the one that writes: by a Lease, or always where none is asked for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kuota.api.base import Key
from kuota.api.config.shapes import LeaderElection
from kuota.kube.client import Client
from kuota.kube.clock import Clock, SystemClock, within
from kuota.kube.lease import Election, Timing, unique_identity

RELEASE_S = 0.2
"""How long giving the lease back may take; without it the next one waits for it to run out."""

_log = logging.getLogger(__name__)


class Lost(Exception):
    """Somebody else may lead by now. The process has to end: Kubernetes starts another."""


class Leadership:
    """Stands for election and holds on to what it won. `may_write` is asked before every write."""

    def __init__(
        self, election: Election | None = None, lease: str = "", clock: Clock | None = None
    ) -> None:
        self.lease = lease
        """The name of what is led by; "" where nobody else could lead."""
        self._election = election
        self._clock = clock or SystemClock()
        self._leads = asyncio.Event()
        self._closed = False

    async def run(self) -> None:
        """Lead as soon as possible. Raises Lost; without an election it leads, and returns."""
        if self._election is None:
            self._leads.set()
            return
        await self._election.acquire()
        self._leads.set()
        await self._election.hold()
        raise Lost

    async def leading(self) -> None:
        """Return once this process leads."""
        await self._leads.wait()

    def may_write(self) -> bool:
        """Whether a write may leave at this instant, by the clock, whatever is stuck."""
        if self._closed:
            return False
        return self._election is None or self._election.held()

    def close(self) -> None:
        """Let no write leave any more."""
        self._closed = True

    async def release(self) -> None:
        """Let another lead at once. Nothing may be under way any more."""
        self._closed = True
        if self._election is None:
            return
        try:
            await within(self._clock, RELEASE_S, self._election.release())
        except TimeoutError:
            _log.warning("could not release the lease in time; it runs out by itself")


def leadership(
    client: Client,
    wanted: LeaderElection,
    namespace: str,
    *,
    on_lost: Callable[[], None] | None = None,
    clock: Clock | None = None,
) -> Leadership:
    """Leadership as configured; `namespace` is where the Lease is unless the settings say."""
    if not wanted.leader_elect:
        return Leadership(clock=clock)
    key = Key(wanted.resource_namespace or namespace, wanted.resource_name)
    timing = Timing(
        wanted.lease_duration.seconds, wanted.renew_deadline.seconds, wanted.retry_period.seconds
    )
    identity = unique_identity()
    election = Election(client, key, identity, timing=timing, clock=clock, on_lost=on_lost)
    return Leadership(election, key.name, clock)
