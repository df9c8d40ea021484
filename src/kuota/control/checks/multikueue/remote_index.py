# SPDX-License-Identifier: Apache-2.0
"""Which objects in worker clusters belong to which Workload."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kuota.api.base import Json, Key
from kuota.bridge.jobs.ancestor import GroupKind

from .copies import workload_named
from .remote import WORKLOAD, RemoteChange


class RemoteObject(NamedTuple):
    """An object in a worker cluster."""

    cluster: str
    kind: GroupKind
    key: Key


SharedBy = Callable[[GroupKind, Key], Iterable[Key]]
"""Returns the local Workloads of a job that has several, which its copy does not name."""


class RemoteIndex:
    """The places of all copies by Workload, updated with every change."""

    def __init__(self, shared_by: SharedBy) -> None:
        self._shared_by = shared_by
        self._places: dict[Key, set[RemoteObject]] = {}

    def changed(self, change: RemoteChange) -> set[Key]:
        """Note a change. Returns the Workloads that it concerns."""
        place = RemoteObject(change.cluster, change.kind, change.key)
        before, after = (set(self._named(change, each)) for each in (change.old, change.new))
        for key in before - after:
            self._forget(key, place)
        for key in after:
            self._places.setdefault(key, set()).add(place)
        return before | after

    def _named(self, change: RemoteChange, obj: Json | None) -> Iterable[Key]:
        if obj is None:
            return []
        if change.kind == WORKLOAD:
            return [change.key]
        name = workload_named(obj)
        if name:
            return [Key(change.key.namespace, name)]
        return self._shared_by(change.kind, change.key)

    def _forget(self, key: Key, place: RemoteObject) -> None:
        places = self._places.get(key)
        if places is not None:
            places.discard(place)
            if not places:
                del self._places[key]

    def places(self, key: Key) -> Iterator[RemoteObject]:
        """Yield the places of the copies of a Workload and of its job."""
        return iter(sorted(self._places.get(key, ())))

    def __contains__(self, key: Key) -> bool:
        return key in self._places

    def forget(self, cluster: str) -> set[Key]:
        """Forget a removed cluster. Returns the Workloads that had copies there."""
        gone = [
            (key, place)
            for key, places in self._places.items()
            for place in places
            if place.cluster == cluster
        ]
        for key, place in gone:
            self._forget(key, place)
        return {key for key, _ in gone}
