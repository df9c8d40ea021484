# SPDX-License-Identifier: Apache-2.0
"""Keeps one worker cluster connected: establishes watches, notices a loss, and tries again.

A cluster is lost if the watch of its Workloads breaks, if any watch loses the network, or if the
cluster stops answering. A regular end of a watch is no loss. After a loss, the first attempt to
reconnect follows at once, and only its failure is reported.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from kuota.api.base import Json, Key
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.engine.model import Struct
from kuota.failures import Fatal, cause, check_cancelled, report
from kuota.kube.client import Client
from kuota.kube.clock import Clock, within
from kuota.kube.errors import Forbidden, KubeError, NotFound, Unreachable
from kuota.kube.informer import Informer
from kuota.kube.resources import NAMESPACES

from ..controller import Activity
from .connection_backoff import attempt_timeout_s, retry_after_s
from .kubeconfig import ClusterUnusable
from .remote import WORKLOAD, RemoteClusters, Resources, remote_caches, synced
from .worker_client import explained

CONNECTED = Activity(True, "Active", "Connected")
FAILED = "ClientConnectionFailed"
WORKER = "worker cluster"
"""The name under which unexpected failures of connections are counted."""
HEARTBEAT_S = 30.0
"""The interval between two checks whether a cluster still answers."""
LASTING_S = 5.0
"""A connection that lasted this long was no failure."""
SYSTEM_NAMESPACE = Key("", "kube-system")
"""The namespace whose UID identifies a cluster, as is common practice."""

_log = logging.getLogger(__name__)


class WatchOptions(Struct):
    """What the watches of all clusters have in common."""

    kinds: Resources
    origin: str
    with_queues: bool = False


Report = Callable[[str, Activity], None]
Identify = Callable[[str, str], None]


class ClusterConnection:
    """The connection to one cluster. `run` keeps it until cancelled.

    `make` returns a new client, or raises. `report` is called with the new state of the cluster.
    `identify` is called with its identity. It raises ClusterUnusable if the cluster must not be
    used.
    """

    def __init__(
        self,
        name: str,
        clusters: RemoteClusters,
        make: Callable[[], Client],
        options: WatchOptions,
        clock: Clock,
        report: Report,
        identify: Identify,
    ) -> None:
        self._name, self._clusters, self._make = name, clusters, make
        self._options, self._clock = options, clock
        self._report, self._identify = report, identify
        self._failures = 0
        self._was_up = False

    async def run(self) -> None:
        """Connect, and reconnect after each loss."""
        while True:
            began = self._clock.monotonic()
            try:
                await self._session()
            except ClusterUnusable as error:
                self._failed(error.reason, error.message)
            except (KubeError, TimeoutError, OSError, ValueError) as error:
                self._clusters.mark_lost(self._name, self._now())
                if self._connected_since(began):
                    continue
                self._failed(FAILED, explained(error))
            except Exception as error:
                # A worker must not end the manager, whatever it answers.
                report(WORKER, error, f"cluster {self._name}: the connection failed")
                self._failed(FAILED, explained(error))
            await self._clock.sleep(retry_after_s(self._failures))

    def _connected_since(self, began: float) -> bool:
        """Whether the session was a lasting one. Its loss is reported after another failure."""
        lasted = self._failures == 0 and self._was_up
        return lasted and self._clock.monotonic() - began >= LASTING_S

    def _failed(self, reason: str, message: str) -> None:
        self._failures += 1
        self._clusters.mark_lost(self._name, self._now())
        wait_s = retry_after_s(self._failures)
        again = f"; connection attempts: {self._failures}, next attempt in {wait_s:.0f} s"
        _log.warning("cluster %s: %s%s", self._name, message, again)
        self._report(self._name, Activity(False, reason, message + again))

    async def _session(self) -> None:
        """Be connected until the cluster is lost. Raises why."""
        self._was_up = False
        client = self._make()
        try:
            async with asyncio.TaskGroup() as group:
                watches = _Watches(self._name, self._clusters, client, self._options, self._clock)
                following = group.create_task(watches.follow())
                try:
                    limit_s = attempt_timeout_s(self._failures)
                    await within(self._clock, limit_s, self._establish(client, watches))
                    self._up(client, watches)
                    await self._until_lost(client, watches)
                finally:
                    following.cancel()
        except BaseExceptionGroup as failures:
            check_cancelled()
            raise cause(failures.subgroup(Fatal) or failures) from None
        finally:
            with suppress(OSError, KubeError):
                await client.close()

    async def _establish(self, client: Client, watches: _Watches) -> None:
        self._identify(self._name, await identity(client))
        await watches.established()

    def _up(self, client: Client, watches: _Watches) -> None:
        cluster = self._clusters.get(self._name)
        if cluster is None:
            raise Unreachable("the MultiKueueCluster was removed")
        self._failures, self._was_up = 0, True
        cluster.attach(client, watches.caches)
        self._clusters.mark_connected(self._name)
        unread = sorted(kind[1] for kind in watches.refused)
        without = f"; without access to {', '.join(unread)}" if unread else ""
        self._report(self._name, CONNECTED._replace(message=CONNECTED.message + without))

    async def _until_lost(self, client: Client, watches: _Watches) -> None:
        while True:
            with suppress(TimeoutError):
                raise await within(self._clock, HEARTBEAT_S, watches.lost())
            await client.fetch("/version")

    def _now(self) -> float:
        return self._clock.now().timestamp()


class _Watches:
    """The watches of one session, and the first error that ends it."""

    def __init__(
        self,
        name: str,
        clusters: RemoteClusters,
        client: Client,
        options: WatchOptions,
        clock: Clock,
    ) -> None:
        self.caches: Mapping[GroupKind, Informer[Json]] = remote_caches(
            clusters,
            name,
            client,
            options.kinds,
            options.origin,
            clock,
            self._error,
            with_queues=options.with_queues,
        )
        self.refused: set[GroupKind] = set()
        """Kinds that the credentials may not read."""
        self._broken: asyncio.Future[KubeError] = asyncio.get_running_loop().create_future()

    async def follow(self) -> None:
        async with asyncio.TaskGroup() as group:
            for each in self.caches.values():
                group.create_task(each.run())

    async def established(self) -> None:
        """Return when everything is known. Raises the first error that prevents it."""
        waiting = asyncio.ensure_future(synced(self.caches))
        try:
            await asyncio.wait((waiting, self._broken), return_when=asyncio.FIRST_COMPLETED)
            if self._broken.done():
                raise self._broken.result()
        finally:
            waiting.cancel()

    async def lost(self) -> KubeError:
        """Return the first error that ends the session."""
        return await asyncio.shield(self._broken)

    def _error(self, kind: GroupKind, error: KubeError) -> None:
        if kind != WORKLOAD and isinstance(error, NotFound | Forbidden):
            # The cluster can be used without this kind.
            if isinstance(error, Forbidden) and not self.caches[kind].lacking:
                self.refused.add(kind)
                self.caches[kind].settled.set()
            return
        if not self._broken.done():
            self._broken.set_result(error)


async def identity(client: Client) -> str:
    """Return the identity of a cluster; "" if the credentials may not read it."""
    try:
        found = await client.get(NAMESPACES, SYSTEM_NAMESPACE)
    except (Forbidden, NotFound):
        return ""
    return str(found["metadata"].get("uid") or "")
