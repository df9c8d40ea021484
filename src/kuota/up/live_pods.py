# SPDX-License-Identifier: Apache-2.0
"""The pods of each Job whose processes may exist.

A pod is live from its creation until it has ended or is gone. The runner reports the end only after
all processes of the pod have ended, and the API server keeps the pod until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from kuota.api.base import Json, Key
from kuota.api.core import is_terminated
from kuota.kube.resources import PODS
from kuota.runner.job_pods import controller_of
from kuota.server.changes import Change
from kuota.server.store import Gone, Store, key_of


class _Owner(msgspec.Struct, frozen=True):
    """The Job that controls a pod."""

    key: Key
    uid: str


class LivePods:
    """Live pods by Job. Every query first processes all changes, so that the result is exact.

    `on_end` is called with the key of a Job after one of its pods has ended.
    """

    def __init__(self, store: Store) -> None:
        self.on_end: Callable[[Key], None] = lambda job: None
        self._store = store
        self._owners: dict[Key, _Owner] = {}
        self._by_job: dict[Key, dict[Key, str]] = {}
        self._list()

    async def run(self) -> None:
        """Process changes, and call `on_end`, until the store is closed."""
        while not self._watch.closed:
            try:
                self._take(await self._watch.batch())
            except Gone:
                self._list()

    def jobs_named(self, job: Key) -> frozenset[str]:
        """The uids of the Jobs of this name that have live pods, including deleted Jobs."""
        self._catch_up()
        return frozenset(self._by_job.get(job, {}).values())

    def count(self, job: Key, uid: str) -> int:
        """The number of live pods of one Job."""
        self._catch_up()
        return sum(each == uid for each in self._by_job.get(job, {}).values())

    def _catch_up(self) -> None:
        try:
            while changes := self._watch.pending():
                self._take(changes)
        except Gone:
            self._list()

    def _list(self) -> None:
        before = dict(self._owners)
        self._owners.clear()
        self._by_job.clear()
        self._watch = self._store.watch(PODS.name)
        for pod in self._store.list(PODS.name).items:
            self._put(key_of(pod), pod)
        for key, owner in before.items():
            if self._owners.get(key) != owner:
                self.on_end(owner.key)

    def _take(self, changes: Iterable[Change]) -> None:
        for change in changes:
            before = self._remove(change.key)
            if change.type != "DELETED":
                self._put(change.key, change.object)
            if before is not None and self._owners.get(change.key) != before:
                self.on_end(before.key)

    def _put(self, key: Key, pod: Json) -> None:
        found = controller_of(pod)
        if found is None or found.get("kind") != "Job" or is_terminated(pod):
            return
        owner = _Owner(Key(key.namespace, found["name"]), found["uid"])
        self._owners[key] = owner
        self._by_job.setdefault(owner.key, {})[key] = owner.uid

    def _remove(self, key: Key) -> _Owner | None:
        owner = self._owners.pop(key, None)
        if owner is not None:
            pods = self._by_job[owner.key]
            del pods[key]
            if not pods:
                del self._by_job[owner.key]
        return owner
