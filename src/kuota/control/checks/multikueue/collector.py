# SPDX-License-Identifier: Apache-2.0
"""Deletes what is left over in worker clusters, at an interval."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from kuota.api.base import Json, Key
from kuota.failures import report
from kuota.kube.clock import Clock
from kuota.kube.errors import Conflict, KubeError, NotFound
from kuota.kube.resources import WORKLOADS

from .cluster_connection import WORKER
from .garbage import LeftoverObject, left_over
from .remote import WORKLOAD, RemoteCluster, RemoteClusters, Resources

_log = logging.getLogger(__name__)


class GarbageCollector:
    """Examines every connected cluster in its own task, so that a slow one delays only itself.

    `local` returns a Workload of this cluster, `own` the identity of this cluster.
    """

    def __init__(
        self,
        clusters: RemoteClusters,
        kinds: Resources,
        origin: str,
        local: Callable[[Key], Json | None],
        own: Callable[[], str],
        clock: Clock,
    ) -> None:
        self._clusters, self._origin = clusters, origin
        self._resources = {WORKLOAD: WORKLOADS, **kinds}
        self._local, self._own, self._clock = local, own, clock
        self._running: dict[str, asyncio.Task[None]] = {}

    async def run(self, interval_s: float) -> None:
        """Collect until cancelled. An interval of 0 disables this."""
        if interval_s <= 0:
            return
        async with asyncio.TaskGroup() as group:
            while True:
                await self._clock.sleep(interval_s)
                for each in self._clusters.active():
                    task = self._running.get(each.name)
                    if task is None or task.done():
                        self._running[each.name] = group.create_task(self.collect(each))

    async def collect(self, cluster: RemoteCluster) -> None:
        """Delete everything that is left over in one cluster now. A failure is retried later."""
        copies, own = list(cluster.all(WORKLOAD)), self._own()
        try:
            for each in list(left_over(copies, cluster.get, self._local, self._origin, own)):
                await self._delete(cluster, each)
        except KubeError as error:
            _log.warning("cluster %s: deleting left-over objects: %s", cluster.name, error)
        except Exception as error:
            # A worker must not end the manager, whatever it answers.
            report(WORKER, error, f"cluster {cluster.name}: deleting left-over objects failed")

    async def _delete(self, cluster: RemoteCluster, each: LeftoverObject) -> None:
        resource = self._resources[each.kind]
        try:
            answer = await cluster.client.delete(
                resource, each.key, uid=each.uid, propagation="Background"
            )
        except (NotFound, Conflict):
            return
        cluster.wrote(each.kind, answer)
        _log.info("cluster %s: deleted left-over %s %s", cluster.name, resource, each.key)
