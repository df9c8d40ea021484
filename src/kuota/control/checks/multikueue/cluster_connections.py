# SPDX-License-Identifier: Apache-2.0
"""Starts and stops the connections to worker clusters, each in its own task."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.config import Connection

from ..controller import Activity
from .cluster_connection import ClusterConnection, WatchOptions
from .kubeconfig import BAD, ClusterUnusable
from .remote import RemoteClusters

_REPLACED = (
    "the kubeconfig is for another cluster than before, in which jobs may still run; restore the "
    "old one, wait until these jobs are dispatched elsewhere, or, if the old cluster is gone, "
    "delete the MultiKueueCluster and create it again"
)

MakeClient = Callable[[str, Connection], Client]
"""Returns a client for the cluster with this name."""


class ClusterConnections:
    """The connections by cluster name. `changed` is called when the state of one has changed.

    `own` returns the identity of the manager's cluster, or "" if it is unknown. `share_config`
    returns whether one MultiKueueConfig names both clusters. Only then must they be different ones:
    the dispatcher deletes the copies of a Workload in all its clusters except the winner.
    `runs_jobs` returns whether Workloads record the cluster as their winner. While they do, its
    name cannot be given to another cluster: their jobs would be started a second time.
    """

    def __init__(
        self,
        clusters: RemoteClusters,
        make: MakeClient,
        options: WatchOptions,
        clock: Clock,
        changed: Callable[[str], None],
        own: Callable[[], str],
        share_config: Callable[[str, str], bool],
        runs_jobs: Callable[[str], bool],
    ) -> None:
        self._clusters, self._make, self._options = clusters, make, options
        self._clock, self._changed, self._own = clock, changed, own
        self._share_config, self._runs_jobs = share_config, runs_jobs
        self._connections: dict[str, Connection] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._states: dict[str, Activity] = {}
        self._identities: dict[str, str] = {}
        self._accepted: dict[str, str] = {}
        self._duplicates: set[str] = set()
        self._group: asyncio.TaskGroup | None = None

    async def run(self) -> None:
        """Keep connections until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._group:
                await asyncio.Event().wait()
        finally:
            self._group = None

    def state(self, name: str) -> Activity | None:
        """Return the state of a cluster; None during the first attempt to connect."""
        return self._states.get(name)

    async def use(self, name: str, connection: Connection) -> None:
        """Connect to a cluster. Another connection than before replaces the old one at once.

        The attempt is repeated at once if a MultiKueueConfig has made the cluster a duplicate, or
        if it is none any more.
        """
        known = self._connections.get(name) == connection and name in self._tasks
        if known and (name in self._duplicates) == bool(self._duplicate_of(name)):
            return
        await self.stop(name)
        if self._group is None:
            return
        self._clusters.add(name, self._now())
        self._connections[name] = connection
        attempts = ClusterConnection(
            name,
            self._clusters,
            partial(self._make, name, connection),
            self._options,
            self._clock,
            self._report,
            self._identify,
        )
        self._tasks[name] = self._group.create_task(attempts.run())

    async def stop(self, name: str) -> None:
        """Close the connection to a cluster, which is lost from now on."""
        self._clusters.mark_lost(name, self._now())
        for kept in (self._connections, self._states, self._identities):
            kept.pop(name, None)
        self._duplicates.discard(name)
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def forget(self, name: str) -> None:
        """Close the connection to a cluster that does not exist any more."""
        await self.stop(name)
        self._accepted.pop(name, None)
        self._clusters.remove(name)

    def _report(self, name: str, state: Activity) -> None:
        self._states[name] = state
        self._changed(name)

    def _identify(self, name: str, identity: str) -> None:
        """Refuse the manager's own cluster, a duplicate in a MultiKueueConfig, and a replacement
        of a cluster that runs jobs.
        """
        replaced = identity and self._accepted.get(name, identity) != identity
        if replaced and self._runs_jobs(name):
            raise ClusterUnusable(BAD, _REPLACED)
        self._identities[name] = identity
        self._duplicates.discard(name)
        if identity and identity == self._own():
            raise ClusterUnusable(
                BAD,
                "the kubeconfig is for the manager's own cluster; use that of another cluster",
            )
        if other := self._duplicate_of(name):
            self._duplicates.add(name)
            raise ClusterUnusable(
                BAD,
                f"the kubeconfig is for the same cluster as MultiKueueCluster {other!r}, and a "
                "MultiKueueConfig names both; delete one of the two",
            )
        if identity:
            self._accepted[name] = identity

    def _duplicate_of(self, name: str) -> str:
        """Return another name of the cluster in a MultiKueueConfig that also has `name`, or ""."""
        identity = self._identities.get(name)
        for other, known in self._identities.items():
            if other == name or other in self._duplicates or not identity or known != identity:
                continue
            if self._share_config(name, other):
                return other
        return ""

    def _now(self) -> float:
        return self._clock.now().timestamp()
