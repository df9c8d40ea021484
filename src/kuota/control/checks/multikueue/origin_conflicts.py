# SPDX-License-Identifier: Apache-2.0
"""Finds copies that the manager of another cluster created with the origin of this manager."""

from __future__ import annotations

from collections.abc import Callable

from kuota.api.base import Json, Key
from kuota.kube.resources import key_of

from ..controller import Activity
from .identity import created_by_other
from .remote import WORKLOAD, RemoteChange, RemoteClusters

CONFLICT = "OriginConflict"
"""The condition of a MultiKueueCluster in which two managers use the same origin."""
IN_USE = "OriginInUse"


class OriginConflicts:
    """Follows the caches of all clusters.

    `own` returns the identity of this manager's cluster. `changed` is called with the name of a
    cluster in which the first such copy appears or the last one is gone.
    """

    def __init__(
        self,
        clusters: RemoteClusters,
        origin: str,
        own: Callable[[], str],
        changed: Callable[[str], None],
    ) -> None:
        self._clusters, self._origin, self._own = clusters, origin, own
        self._changed = changed
        self._copies: dict[str, set[Key]] = {}

    def follow(self) -> None:
        """Observe all clusters from now on."""
        self._clusters.observe(self._remote)
        self._clusters.observe_connections(self._connection)

    def state(self, cluster: str) -> Activity | None:
        """Return the content of the condition of a cluster; None without a conflict."""
        copies = self._copies.get(cluster)
        if not copies:
            return None
        example = min(copies)
        return Activity(
            True,
            IN_USE,
            f'another manager also uses the origin "{self._origin}" in this cluster, for example '
            f"for Workload {example}. Jobs with equal names cannot be dispatched; "
            "set multiKueue.origin of one of the managers to another value",
        )

    def _remote(self, change: RemoteChange) -> None:
        if change.kind != WORKLOAD:
            return
        copies = set(self._copies.get(change.cluster, ()))
        if change.new is not None and self._foreign(change.new):
            copies.add(change.key)
        else:
            copies.discard(change.key)
        self._store(change.cluster, copies)

    def _connection(self, name: str) -> None:
        """Examine a cluster again: objects may have been deleted while it was lost."""
        cluster = self._clusters.get(name)
        if cluster is None:
            self._copies.pop(name, None)
        elif cluster.connected:
            found = cluster.all(WORKLOAD)
            self._store(name, {key_of(each) for each in found if self._foreign(each)})

    def _foreign(self, copy: Json) -> bool:
        return created_by_other(copy, self._own())

    def _store(self, cluster: str, copies: set[Key]) -> None:
        before = self._copies.get(cluster)
        self._copies[cluster] = copies
        if bool(before) is not bool(copies):
            self._changed(cluster)
