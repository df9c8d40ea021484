# SPDX-License-Identifier: Apache-2.0
"""Leader election with a Lease, or permanent leadership if it is disabled."""

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
"""How long releasing the Lease may take. Otherwise the next leader waits until it expires."""

_log = logging.getLogger(__name__)


class LeadershipLost(Exception):
    """Another process may lead. This one must exit; Kubernetes starts a new one."""


class Leadership:
    """Acquires and renews leadership. Every write checks `may_write`."""

    def __init__(
        self, election: Election | None = None, lease: str = "", clock: Clock | None = None
    ) -> None:
        self.lease = lease
        """The name of the Lease; "" without leader election."""
        self._election = election
        self._clock = clock or SystemClock()
        self._leads = asyncio.Event()
        self._closed = False

    async def run(self) -> None:
        """Lead as soon as possible. Raises LeadershipLost. Without election, returns as leader."""
        if self._election is None:
            self._leads.set()
            return
        await self._election.acquire()
        self._leads.set()
        await self._election.hold()
        raise LeadershipLost

    async def leading(self) -> None:
        """Wait until this process leads."""
        await self._leads.wait()

    def may_write(self) -> bool:
        """Whether a write may be sent now, according to the clock."""
        if self._closed:
            return False
        return self._election is None or self._election.held()

    def close(self) -> None:
        """Block all further writes."""
        self._closed = True

    async def release(self) -> None:
        """Release the Lease, so that another process can lead. No write may be in progress."""
        self._closed = True
        if self._election is None:
            return
        try:
            await within(self._clock, RELEASE_S, self._election.release())
        except TimeoutError:
            _log.warning("could not release the Lease in time; it will expire")


def leadership(
    client: Client,
    wanted: LeaderElection,
    namespace: str,
    *,
    on_lost: Callable[[], None] | None = None,
    clock: Clock | None = None,
) -> Leadership:
    """Leadership as configured; `namespace` is the default namespace of the Lease."""
    if not wanted.leader_elect:
        return Leadership(clock=clock)
    key = Key(wanted.resource_namespace or namespace, wanted.resource_name)
    timing = Timing(
        wanted.lease_duration.seconds, wanted.renew_deadline.seconds, wanted.retry_period.seconds
    )
    identity = unique_identity()
    election = Election(client, key, identity, timing=timing, clock=clock, on_lost=on_lost)
    return Leadership(election, key.name, clock)
