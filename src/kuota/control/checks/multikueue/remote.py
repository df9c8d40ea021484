# SPDX-License-Identifier: Apache-2.0
"""Worker clusters as the manager sees them: a client and a small cache for each.

A cache holds only objects with the origin label of this manager. It is read without requests, so a
pass over a Workload never waits for a cluster. Writes name their cluster and go through its client,
which bounds every request in time. Work for different clusters must be done by different tasks, so
that a slow cluster delays only itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from kuota.api.base import Json, Key
from kuota.bridge.job_pass.injections import MULTI_KUEUE_ORIGIN
from kuota.bridge.jobs.ancestor import GroupKind
from kuota.kube.client import Client
from kuota.kube.clock import Clock
from kuota.kube.errors import KubeError, Unreachable
from kuota.kube.informer import Informer
from kuota.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, WORKLOADS, Resource, key_of

WORKLOAD: GroupKind = (WORKLOADS.group, WORKLOADS.kind)
CLUSTER_QUEUE: GroupKind = (CLUSTER_QUEUES.group, CLUSTER_QUEUES.kind)
LOCAL_QUEUE: GroupKind = (LOCAL_QUEUES.group, LOCAL_QUEUES.kind)
QUEUES = {CLUSTER_QUEUE: CLUSTER_QUEUES, LOCAL_QUEUE: LOCAL_QUEUES}
"""The kinds of which all objects are cached, if the manager's quota follows its workers."""

Resources = Mapping[GroupKind, Resource]


class RemoteChange(NamedTuple):
    """A changed object in a worker cluster. `old` or `new` is None if the object does not exist."""

    cluster: str
    kind: GroupKind
    key: Key
    old: Json | None
    new: Json | None


ChangeObserver = Callable[[RemoteChange], None]
ConnectionObserver = Callable[[str], None]


class RemoteCluster:
    """One MultiKueueCluster: whether it is connected, its client, and its cache.

    `connected` is true between the moment at which all watches have been established and the moment
    at which one of them breaks. `lost_since` is the time of the first loss in seconds since the
    epoch, or the time of creation if the cluster has never been connected; None while connected.
    While the cluster is not connected, the cache holds the last known state and must not be used
    for decisions.
    """

    def __init__(self, name: str, now: float) -> None:
        self.name = name
        self.connected = False
        self.lost_since: float | None = now
        self._client: Client | None = None
        self._caches: dict[GroupKind, Informer[Json]] = {}

    @property
    def client(self) -> Client:
        """The client. Raises Unreachable if the cluster is not connected."""
        if self._client is None or not self.connected:
            raise Unreachable(f"cluster {self.name!r} is not connected", sent=False)
        return self._client

    def get(self, kind: GroupKind, key: Key) -> Json | None:
        """Return a cached object with the origin label; None if there is none.

        There is none of a kind that the cluster does not serve. The object is shared and must not
        be changed.
        """
        cache = self._caches.get(kind)
        return None if cache is None else cache.get(key)

    def workload(self, key: Key) -> Json | None:
        """Return the copy of the local Workload with this key; None if there is none."""
        return self.get(WORKLOAD, key)

    def all(self, kind: GroupKind) -> Iterator[Json]:
        """Yield the cached objects of a kind."""
        cache = self._caches.get(kind)
        return iter(()) if cache is None else cache.values()

    def wrote(self, kind: GroupKind, answer: Json) -> None:
        """Store the response to a write, so that the next pass sees it before the watch does."""
        cache = self._caches.get(kind)
        if cache is not None:
            cache.wrote(answer)

    def attach(self, client: Client, caches: Mapping[GroupKind, Informer[Json]]) -> None:
        """Use another client and its caches, which are empty or being filled."""
        self._client = client
        self._caches = dict(caches)


class RemoteClusters:
    """The worker clusters by name, and what others want to know about their changes.

    Observers of changes are called for every change in the cache of a connected or connecting
    cluster. Observers of connections are called after `connected` has changed, and after a cluster
    was added or removed. They must not block.
    """

    def __init__(self) -> None:
        self._clusters: dict[str, RemoteCluster] = {}
        self._changes: list[ChangeObserver] = []
        self._connections: list[ConnectionObserver] = []

    def get(self, name: str) -> RemoteCluster | None:
        """Return the cluster of a MultiKueueCluster; None if there is no such object."""
        return self._clusters.get(name)

    def active(self) -> list[RemoteCluster]:
        """Return the connected clusters, sorted by name."""
        return [each for _, each in sorted(self._clusters.items()) if each.connected]

    def observe(self, observer: ChangeObserver) -> None:
        """Call the observer for every later change of a remote object."""
        self._changes.append(observer)

    def observe_connections(self, observer: ConnectionObserver) -> None:
        """Call the observer with the name of each cluster that connects, is lost or is removed."""
        self._connections.append(observer)

    def add(self, name: str, now: float) -> RemoteCluster:
        """Return the cluster of this name, which is created disconnected if it is new."""
        found = self._clusters.get(name)
        if found is None:
            found = self._clusters[name] = RemoteCluster(name, now)
            self._notify(name)
        return found

    def remove(self, name: str) -> None:
        """Forget a cluster."""
        found = self._clusters.pop(name, None)
        if found is not None:
            found.connected = False
            self._notify(name)

    def mark_connected(self, name: str) -> None:
        cluster = self._clusters[name]
        if not cluster.connected:
            cluster.connected, cluster.lost_since = True, None
            self._notify(name)

    def mark_lost(self, name: str, now: float) -> None:
        """Record a loss. Failed attempts to reconnect do not change the time of the first one."""
        cluster = self._clusters.get(name)
        if cluster is None:
            return
        if cluster.lost_since is None:
            cluster.lost_since = now
        if cluster.connected:
            cluster.connected = False
            self._notify(name)

    def changed(self, change: RemoteChange) -> None:
        for observer in self._changes:
            observer(change)

    def _notify(self, name: str) -> None:
        for observer in self._connections:
            observer(name)


def remote_caches(
    clusters: RemoteClusters,
    name: str,
    client: Client,
    kinds: Resources,
    origin: str,
    clock: Clock,
    on_error: Callable[[GroupKind, KubeError], None] | None = None,
    *,
    with_queues: bool = False,
) -> dict[GroupKind, Informer[Json]]:
    """Return a cache of the Workloads and the jobs of this origin in one cluster.

    Their changes are reported to the observers of `clusters`, and failed watches to `on_error`.
    """
    found: dict[GroupKind, Informer[Json]] = {}
    wanted = {WORKLOAD: WORKLOADS, **kinds, **(QUEUES if with_queues else {})}
    for kind, resource in wanted.items():
        selector = "" if kind in QUEUES else f"{MULTI_KUEUE_ORIGIN}={origin}"
        failed = partial(on_error, kind) if on_error is not None else None
        cache = Informer[Json](
            client,
            resource,
            label_selector=selector,
            on_error=failed,
            where=f"cluster {name}: ",
            clock=clock,
        )
        cache.observe(partial(_report, clusters, name, kind))
        found[kind] = cache
    return found


def _report(
    clusters: RemoteClusters, name: str, kind: GroupKind, old: Json | None, new: Json | None
) -> None:
    either = new or old
    assert either is not None
    clusters.changed(RemoteChange(name, kind, key_of(either), old, new))


async def synced(caches: Mapping[GroupKind, Informer[Json]]) -> None:
    """Return when the Workloads are known, and every kind is known or known to be missing."""
    for kind, each in caches.items():
        await (each.synced if kind == WORKLOAD else each.settled).wait()
