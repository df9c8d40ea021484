# SPDX-License-Identifier: Apache-2.0
"""The pods of each job whose processes may exist.

A pod is live from its creation until it has ended or is gone. The runner reports the end only after
all processes of the pod have ended, and the API server keeps the pod until then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from kuota.api.base import Json, Key
from kuota.api.core import is_terminated
from kuota.bridge.jobs.kind import JobKey
from kuota.kube.resources import PODS
from kuota.server.changes import Change
from kuota.server.store import Gone, Store, key_of

from .charges import ChargedPodSet, charge_of


class LivePods:
    """Live pods by the job that is charged for them.

    Every query first processes all changes, so that the result is exact. `on_end` is called with
    the key of a job after one of its pods has ended.
    """

    def __init__(self, store: Store) -> None:
        self.on_end: Callable[[JobKey], None] = lambda job: None
        self._store = store
        self._charges: dict[Key, ChargedPodSet] = {}
        self._by_job: dict[JobKey, dict[Key, ChargedPodSet]] = {}
        self._by_namespace: Counter[str] = Counter()
        self._list()

    async def run(self) -> None:
        """Process changes, and call `on_end`, until the store is closed."""
        while not self._watch.closed:
            try:
                self._take(await self._watch.batch())
            except Gone:
                self._list()

    def jobs_named(self, job: JobKey) -> frozenset[str]:
        """The uids of the jobs of this name that have live pods, including deleted jobs."""
        self._catch_up()
        return frozenset(each.uid for each in self._by_job.get(job, {}).values())

    def count(self, job: JobKey, uid: str | None, pod_set: str | None = None) -> int:
        """The number of live pods of one job, or of one of its pod sets.

        Without `uid`, the pods of all jobs of this name count.
        """
        self._catch_up()
        charges = self._by_job.get(job, {}).values()
        return sum(uid in (None, each.uid) and pod_set in (None, each.pod_set) for each in charges)

    def in_namespace(self, namespace: str) -> int:
        """The number of live pods in a namespace."""
        self._catch_up()
        return self._by_namespace[namespace]

    def _catch_up(self) -> None:
        try:
            while changes := self._watch.pending():
                self._take(changes)
        except Gone:
            self._list()

    def _list(self) -> None:
        before = dict(self._charges)
        self._charges.clear()
        self._by_job.clear()
        self._by_namespace.clear()
        self._watch = self._store.watch(PODS.name)
        for pod in self._store.list(PODS.name).items:
            self._put(key_of(pod), pod)
        for key, charge in before.items():
            if self._charges.get(key) != charge:
                self.on_end(charge.job)

    def _take(self, changes: Iterable[Change]) -> None:
        for change in changes:
            before = self._remove(change.key)
            if change.type != "DELETED":
                self._put(change.key, change.object)
            if before is not None and self._charges.get(change.key) != before:
                self.on_end(before.job)

    def _put(self, key: Key, pod: Json) -> None:
        charge = None if is_terminated(pod) else charge_of(pod)
        if charge is not None:
            self._charges[key] = charge
            self._by_job.setdefault(charge.job, {})[key] = charge
            self._by_namespace[key.namespace] += 1

    def _remove(self, key: Key) -> ChargedPodSet | None:
        charge = self._charges.pop(key, None)
        if charge is not None:
            self._by_namespace[key.namespace] -= 1
            pods = self._by_job[charge.job]
            del pods[key]
            if not pods:
                del self._by_job[charge.job]
        return charge
