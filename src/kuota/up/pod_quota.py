# SPDX-License-Identifier: Apache-2.0
"""Decides whether a job has quota for another pod.

The decision is based on what is stored, not on caches: the Job of the pod exists and is not
suspended, and neither is the job that is charged for it; the Workload of that job is admitted and
describes the job as it is; and fewer of its pods are live than were admitted. A Pod that is queued
itself, or with its group, may start under the same conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from kuota.api.base import Json, Key
from kuota.api.core import is_finished
from kuota.api.kueue import ResourceFlavor
from kuota.api.owners import controller_of
from kuota.api.podset import FlavorMissing, MergeConflict
from kuota.api.rules.job_common import suspended
from kuota.api.rules.metadata import elastic
from kuota.api.rules.report import child, elements, integer, mapping, string_map, text
from kuota.api.rules.workload_status import pod_set_counts
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.job_pass.injections import injections
from kuota.bridge.job_pass.match import controlled, matching
from kuota.bridge.job_pass.slices import unfinished
from kuota.bridge.jobs.ancestor import Lookup, NestingError
from kuota.bridge.jobs.composable import IS_GROUP
from kuota.bridge.jobs.kind import JobKey, JobKind, PodSetsUnknown, resolved
from kuota.bridge.jobs.registry import JOB
from kuota.bridge.jobs.topology_request import TopologyRequestError
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.kube.resources import WORKLOADS
from kuota.runner.binding import requests_of
from kuota.runner.nodes import PODS_PER_NODE
from kuota.server.store import Store, key_of

from .charges import (
    POD_GROUP,
    ChargedPodSet,
    charge_for,
    charge_of,
    charge_of_queued,
    unqueued_reason,
)
from .live_pods import LivePods

WorkloadsOf = Callable[[JobKey], Iterable[Key]]
Flavors = Callable[[], Mapping[str, ResourceFlavor]]
MOST_PODS = PODS_PER_NODE // 2
"""No namespace takes all places for pods, so that others can start some, too."""


class PodQuota:
    """Compares pods with the admission of their jobs.

    `workloads_of` returns the keys of a job's Workloads, and `flavors` all ResourceFlavors. Set
    both before the first pod is created. A namespace with `most_pods` live pods gets no other one,
    because pods without requests need no quota.
    """

    def __init__(
        self,
        store: Store,
        config: LifecycleConfig,
        live: LivePods,
        look_up: Lookup,
        most_pods: int = MOST_PODS,
    ) -> None:
        self.workloads_of: WorkloadsOf = lambda job: ()
        self.flavors: Flavors = dict
        self._store = store
        self._config = config
        self._live = live
        self._look_up = look_up
        self._most_pods = most_pods

    def refusal(self, pod: Json) -> str:
        """Return why the pod must not be created; "" if it may be."""
        charge, owner = charge_of(pod), controller_of(pod)
        if charge is None or owner is None:
            return ""
        key = Key(key_of(pod).namespace, text(owner.get("name")))
        job = self._look_up(JOB.group_kind, key)
        if job is None or job["metadata"].get("uid") != owner.get("uid"):
            return f"its Job {key} does not exist"
        return self._refusal(job, charge, pod)

    def start_refusal(self, pod: Json) -> str:
        """Return why a Pod that is queued itself must not start; "" if it may.

        `pod` is the Pod as it would start, with what its admission adds.
        """
        charge = charge_of_queued(pod, self._config.gates)
        stored = self._admission_of_queued(charge)
        if stored is None:
            return f"{charge.job} is not admitted"
        count = _available_pods(stored, charge.pod_set)
        if self._live.count(charge.job, None, charge.pod_set) >= count:
            return f"{charge.job} has quota for {count} pods like this one, and that many run"
        if not self._covers(stored, charge.pod_set, pod):
            return f"it requests more than the Workload {stored.key} was admitted with"
        return self._crowded(charge.job.key.namespace)

    def _crowded(self, namespace: str) -> str:
        """Return that a namespace has no place for another pod; "" if it has."""
        if self._live.in_namespace(namespace) < self._most_pods:
            return ""
        return (
            f"namespace {namespace} runs {self._most_pods} pods, the most that one namespace "
            "may run on this machine; it starts when others have ended"
        )

    def _admission_of_queued(self, charge: ChargedPodSet) -> StoredWorkload | None:
        if charge.job.kind == POD_GROUP:
            found = self._charged(charge.job)
            own = [each for each in found if each.obj.metadata.annotation(IS_GROUP) == "true"]
        else:
            own = [each for each in self._charged(charge.job) if _owned_by(each, charge.uid)]
        ready = (each for each in own if each.true("Admitted") and not each.true("Evicted"))
        return next(ready, None)

    def _covers(self, stored: StoredWorkload, pod_set: str, pod: Json) -> bool:
        """Whether the pod requests no more than its pod set, on the nodes of its flavors."""
        sets = elements(child(stored.json, "spec").get("podSets"))
        template = next((each for each in sets if mapping(each).get("name") == pod_set), None)
        try:
            given = injections(stored.obj, self.flavors(), self._config.gates)
        except (FlavorMissing, MergeConflict):
            return False
        wanted = next((each for each in given if each.name == pod_set), None)
        if template is None or wanted is None:
            return False
        spec = child(pod, "spec")
        selector = string_map(spec.get("nodeSelector"))
        flavor = wanted.node_selector or {}
        there = all(selector.get(key) == each for key, each in flavor.items())
        return there and _within(spec, child(template, "template", "spec"))

    def may_create(self, job: Json) -> bool:
        """Whether the Job, as it is stored now, may get another pod."""
        stored = self._look_up(JOB.group_kind, key_of(job))
        if stored is None or stored["metadata"].get("uid") != job["metadata"].get("uid"):
            return False
        try:
            charge = charge_for(stored, self._look_up, self._config)
        except NestingError:
            return False
        return not self._refusal(stored, charge, None)

    def _refusal(self, job: Json, charge: ChargedPodSet, pod: Json | None) -> str:
        """Return why a stored Job must not get another pod that is charged like this."""
        if job["metadata"].get("deletionTimestamp") or is_finished(job) or suspended(job):
            return f"its Job {key_of(job)} is suspended, finished or being deleted"
        kind = self._config.registry.kind(charge.job.kind)
        charged = self._look_up(*charge.job)
        if charged is None or charged["metadata"].get("uid") != charge.uid:
            return f"its {charge.job} does not exist"
        at_rest = kind.suspended(charged) or kind.end(charged) is not None
        if at_rest or charged["metadata"].get("deletionTimestamp"):
            return f"its {charge.job} is suspended, finished or being deleted"
        if unqueued_reason(kind, charged, self._look_up, self._config) is not None:
            return ""
        return self._shortage(kind, charged, charge, pod)

    def _shortage(self, kind: JobKind, job: Json, charge: ChargedPodSet, pod: Json | None) -> str:
        """Return why a queued job has no quota for the pod; "" if it has."""
        try:
            job = resolved(kind, job, self._look_up)
            admitted = self._admission(kind, job, charge)
            if admitted is None:
                return f"its {charge.job} is not admitted"
            count = _available_pods(admitted, charge.pod_set)
            if self._live.count(charge.job, charge.uid, charge.pod_set) >= count:
                return f"its {charge.job} has quota for {count} pods, and that many exist"
            if pod is not None and kind != JOB and not self._fits(kind, job, charge, pod):
                return f"it requests more than pod set {charge.pod_set!r} of {charge.job}"
        except (PodSetsUnknown, TopologyRequestError) as error:
            return f"its {charge.job}: {error}"
        return self._crowded(charge.job.key.namespace)

    def _fits(self, kind: JobKind, job: Json, charge: ChargedPodSet, pod: Json) -> bool:
        """Whether the pod requests no more than the template of its pod set, on the same nodes.

        The Job in between may have been created from another version of the template.
        """
        sets = kind.pod_sets(job, self._config.gates)
        template = next((each for each in sets if each["name"] == charge.pod_set), {})
        allowed, given = child(template, "template", "spec"), child(pod, "spec")
        if not allowed or (allowed.get("nodeSelector") or {}) != (given.get("nodeSelector") or {}):
            return False
        return _within(given, allowed)

    def _admission(self, kind: JobKind, job: Json, charge: ChargedPodSet) -> StoredWorkload | None:
        """Return the admitted Workload that describes the job as it is; None if there is none."""
        flavors, gates = self.flavors(), self._config.gates
        resizable = elastic(job, gates)
        own = [each for each in self._charged(charge.job) if controlled(each, kind, job, gates)]
        for stored in reversed(unfinished(own)):
            if not stored.true("Admitted") or stored.true("Evicted"):
                continue
            if matching(stored, kind, job, flavors, gates, resizable=resizable):
                return stored
        return None

    def _charged(self, job: JobKey) -> Iterator[StoredWorkload]:
        """Yield the stored Workloads of a job that are charged."""
        group = job.kind == POD_GROUP
        return self._stored([job.key] if group else self.workloads_of(job))

    def _stored(self, keys: Iterable[Key]) -> Iterator[StoredWorkload]:
        for each in keys:
            found = self._store.get(WORKLOADS.name, each)
            if found is not None and is_charged(found):
                stored = StoredWorkload.of(found)
                if not stored.deleting:
                    yield stored

    def charged_pods(self, job: JobKey, uid: str) -> dict[Key, int]:
        """Return the number of pods for which each Workload of a job is charged."""
        return {
            each.key: charged_pods(each.json) for each in self._charged(job) if _owned_by(each, uid)
        }


def _owned_by(stored: StoredWorkload, uid: str) -> bool:
    return any(each.uid == uid for each in stored.obj.metadata.owner_references or ())


def _within(spec: Json, most: Json) -> bool:
    """Whether a pod requests no more than another."""
    allowed = requests_of(most)
    return all(amount <= allowed.get(name, 0) for name, amount in requests_of(spec).items())


def charged_pods(workload: Json, pod_set: str | None = None) -> int:
    """Return the number of admitted pods of a Workload, less those that its job gave up since.

    With `pod_set`, only those of this pod set count.
    """
    if not is_charged(workload):
        return 0
    sizes = pod_set_counts(workload)
    assigned = child(workload, "status", "admission").get("podSetAssignments")
    counts = {
        text(mapping(each).get("name")): integer(mapping(each).get("count")) or 0
        for each in elements(assigned)
    }
    return sum(
        min(count, sizes.get(name, 0))
        for name, count in counts.items()
        if pod_set is None or name == pod_set
    )


def _available_pods(stored: StoredWorkload, pod_set: str) -> int:
    """Return the number of pods of a pod set that are admitted and not reclaimed."""
    reclaimed = stored.obj.status.reclaimable_pods or ()
    given_up = sum(each.count for each in reclaimed if each.name == pod_set)
    return charged_pods(stored.json, pod_set) - given_up


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
