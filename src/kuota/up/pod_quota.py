# SPDX-License-Identifier: Apache-2.0
"""Decides whether a Job has quota for another pod.

The decision is based on what is stored, not on caches: the Job of the pod exists and is not
suspended, its Workload is admitted and describes the Job as it is, and fewer of its pods are live
than were admitted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from kuota.api.base import Json, Key
from kuota.api.core import is_finished
from kuota.api.kueue import ResourceFlavor
from kuota.api.rules.job_common import suspended
from kuota.api.rules.metadata import elastic
from kuota.api.rules.report import child, elements, integer, mapping, text
from kuota.api.rules.workload_status import pod_set_counts
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.job_pass.match import controlled, matching
from kuota.bridge.job_pass.slices import unfinished
from kuota.bridge.jobs.ancestor import Lookup, NestingError
from kuota.bridge.jobs.job_webhook import unqueued
from kuota.bridge.jobs.registry import JOB
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.kube.resources import JOBS, WORKLOADS
from kuota.runner.job_pods import controller_of
from kuota.server.store import Store, key_of

from .live_pods import LivePods

WorkloadsOf = Callable[[Key], Iterable[Key]]
Flavors = Callable[[], Mapping[str, ResourceFlavor]]


class PodQuota:
    """Compares pods with the admission of their Jobs.

    `workloads_of` returns the keys of a Job's Workloads, and `flavors` all ResourceFlavors. Set
    both before the first pod is created.
    """

    def __init__(
        self, store: Store, config: LifecycleConfig, live: LivePods, look_up: Lookup
    ) -> None:
        self.workloads_of: WorkloadsOf = lambda job: ()
        self.flavors: Flavors = dict
        self._store = store
        self._config = config
        self._live = live
        self._look_up = look_up

    def refusal(self, pod: Json) -> str:
        """Return why the pod must not be created; "" if it may be."""
        owner = controller_of(pod)
        if owner is None or owner.get("kind") != "Job":
            return ""
        key = Key(key_of(pod).namespace, text(owner.get("name")))
        job = self._store.get(JOBS.name, key)
        if job is None or job["metadata"].get("uid") != owner.get("uid"):
            return f"its Job {key} does not exist"
        return self.refusal_of(job)

    def refusal_of(self, job: Json) -> str:
        """Return why this stored Job must not get another pod; "" if it may."""
        key, uid = key_of(job), text(job["metadata"].get("uid"))
        if job["metadata"].get("deletionTimestamp") or is_finished(job) or suspended(job):
            return f"its Job {key} is suspended, finished or being deleted"
        if not self._is_queued(job):
            return ""
        admitted = self._admitted(key, job)
        if admitted is None:
            return f"its Job {key} is not admitted"
        if self._live.count(key, uid) >= admitted:
            return f"its Job {key} has quota for {admitted} pods, and that many exist"
        return ""

    def may_create(self, job: Json) -> bool:
        """Whether the Job, as it is stored now, may get another pod."""
        stored = self._store.get(JOBS.name, key_of(job))
        same = stored is not None and stored["metadata"].get("uid") == job["metadata"].get("uid")
        return same and stored is not None and not self.refusal_of(stored)

    def _is_queued(self, job: Json) -> bool:
        try:
            return unqueued(JOB, job, self._look_up, self._config) is None
        except NestingError:
            return True

    def _admitted(self, key: Key, job: Json) -> int | None:
        """Return the number of pods that are admitted and not reclaimed; None if not admitted."""
        flavors, gates = self.flavors(), self._config.gates
        resizable = elastic(job, gates)
        own = [each for each in self._charged(key) if controlled(each, JOB, job, gates)]
        for stored in reversed(unfinished(own)):
            if not stored.true("Admitted") or stored.true("Evicted"):
                continue
            if matching(stored, JOB, job, flavors, gates, resizable=resizable):
                reclaimed = stored.obj.status.reclaimable_pods or ()
                return charged_pods(stored.json) - sum(each.count for each in reclaimed)
        return None

    def _charged(self, key: Key) -> Iterator[StoredWorkload]:
        for each in self.workloads_of(key):
            found = self._store.get(WORKLOADS.name, each)
            if found is not None and is_charged(found):
                stored = StoredWorkload.of(found)
                if not stored.deleting:
                    yield stored

    def charged_pods(self, key: Key, uid: str) -> dict[Key, int]:
        """Return the number of pods for which each Workload of a Job is charged."""
        return {
            each.key: charged_pods(each.json)
            for each in self._charged(key)
            if any(owner.uid == uid for owner in each.obj.metadata.owner_references or ())
        }


def charged_pods(workload: Json) -> int:
    """Return the number of admitted pods of a Workload, less those that its job gave up since."""
    if not is_charged(workload):
        return 0
    sizes = pod_set_counts(workload)
    assigned = child(workload, "status", "admission").get("podSetAssignments")
    counts = {
        text(mapping(each).get("name")): integer(mapping(each).get("count")) or 0
        for each in elements(assigned)
    }
    return sum(min(count, sizes.get(name, 0)) for name, count in counts.items())


def is_charged(workload: Json) -> bool:
    """Whether the Workload is charged: it has quota, is not finished, and exists."""
    meta, conditions = child(workload, "metadata"), child(workload, "status").get("conditions")
    true = {
        mapping(each).get("type")
        for each in elements(conditions)
        if mapping(each).get("status") == "True"
    }
    gone = meta.get("deletionTimestamp") and not meta.get("finalizers")
    return "QuotaReserved" in true and "Finished" not in true and not gone
