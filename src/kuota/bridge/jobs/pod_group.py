# SPDX-License-Identifier: Apache-2.0
"""The group of plain Pods, which is admitted as a whole.

A failed Pod may be replaced by another one of the same role. Only the Pods that a replacement needs
are removed; `kuota.bridge.jobs.pod_group_workload` decides which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import ClassVar

from kuota.api.base import Json, Key, condition
from kuota.api.config.frameworks import FRAMEWORKS, GroupVersionKind
from kuota.api.core import ENDED
from kuota.api.gates import Gate, Gates
from kuota.api.podset import Injection, MergeConflict
from kuota.api.rules.pod import group
from kuota.api.rules.report import child, elements, integer, mapping
from kuota.api.workload import ReclaimablePod

from ..draft import StoredWorkload
from ..effects import Effect
from . import pod_group_workload as workloads
from .ancestor import GroupKind
from .composed import Match, Reported, StopCause
from .kind import End, JobKind, Stop
from .pod import POD, WORKLOAD_DELETED, at_rest, ready, released, started, terminated, unqueued
from .pod_gates import role
from .pod_group_members import in_order, occupying, phase, relevant, serving, total, unretriable

WAITING = "WaitingForReplacementPods"


class PodGroup(JobKind):
    """A group of Pods. With `only_with_parent`, Pods of no controller are ignored."""

    framework = POD
    ranked = True
    described_pod_sets = "one for each role"
    described_suspension = "scheduling gate; stopping deletes the pods"
    gvk = GroupVersionKind("", "v1", "PodGroup")
    ancestors = False
    stays_gated = True
    member: ClassVar[GroupKind] = (FRAMEWORKS[POD].group, FRAMEWORKS[POD].kind)

    def __init__(self, *, only_with_parent: bool = False) -> None:
        self._only_with_parent = only_with_parent

    @property
    def name(self) -> str:
        """The name of the objects that effects are about: the Pods."""
        return self.member[1]

    @property
    def objects(self) -> GroupKind:
        return self.member

    def group_of(self, member: Json, gates: Gates) -> str:
        return group(member, gates)[0]

    def matters(self, old: Json, new: Json) -> bool:
        return relevant(old) != relevant(new)

    def compose(
        self, key: Key, members: Sequence[Json], gates: Gates, now: float, *, stale: bool = False
    ) -> Json:
        """Return the group. Its first member is the oldest one. A `stale` one loses no Pods.

        `status` has what the group depends on apart from its members.
        """
        items = in_order(members)
        first = child(items[0], "metadata") if items else {}
        meta = {field: first.get(field) for field in ("labels", "annotations")}
        return {
            "apiVersion": "v1",
            "kind": "PodGroup",
            "metadata": meta | {"namespace": key.namespace, "name": key.name},
            "items": items,
            "status": {
                "observedAt": now,
                "stale": stale,
                "fastQuotaRelease": gates.on(Gate.FastQuotaReleaseInPodIntegration),
            },
        }

    def implied(self) -> PodGroup:
        return PodGroup(only_with_parent=True)

    def skipped(self, job: Json, gates: Gates) -> bool:
        return unqueued(job, only_with_parent=self._only_with_parent)

    def pod_sets(self, job: Json, gates: Gates) -> list[Json]:
        return workloads.pod_sets(job, gates)

    def suspended(self, job: Json) -> bool:
        """Whether a Pod waits for admission, or has ended and may be replaced."""
        return any(map(at_rest, pods(job)))

    def suspend(self, job: Json) -> Json:
        """Return the same group: a gate cannot be added to an existing Pod."""
        return job

    def start(self, job: Json, given: Sequence[Injection], gates: Gates) -> list[Effect]:
        """Return the writes that start the Pods which still wait."""
        by_role = {each.name: each for each in given}
        effects: list[Effect] = []
        for pod in pods(job):
            if not at_rest(pod) or phase(pod) in ENDED:
                continue
            added = by_role.get(role(pod))
            if added is None:
                raise MergeConflict(f"the admission has no pod set {role(pod)!r}")
            effects += started(pod, added)
        return effects

    def stop(self, job: Json, pod_sets: Sequence[Json] | None) -> Stop:
        """Return nothing: `terminate` stops Pods."""
        return Stop()

    def terminate(self, job: Json, cause: StopCause) -> list[Effect]:
        effects = list(terminated(pods(job), cause))
        return effects + (self.finalize(job) if cause.reason == WORKLOAD_DELETED else [])

    def end(self, job: Json) -> End | None:
        """Return how the group ended: when all have succeeded, or when none can be replaced."""
        count = total(job)
        if serving(job) or count is None:
            return None
        phases = Counter(map(phase, pods(job)))
        over = all(each in ENDED for each in phases)
        if phases["Succeeded"] != count and not (over and any(map(unretriable, pods(job)))):
            return None
        return End(success=True, message=f"Pods succeeded: {phases['Succeeded']}/{count}.")

    def active(self, job: Json) -> bool:
        status = child(job, "status")
        now, fast_release = status.get("observedAt") or 0.0, bool(status.get("fastQuotaRelease"))
        return any(occupying(pod, now, fast_release=fast_release) for pod in pods(job))

    def pods_ready(self, job: Json) -> bool:
        count = total(job)
        return count is not None and len(pods(job)) >= count and all(map(ready, pods(job)))

    def pod_priority_class(self, job: Json) -> str:
        return workloads.pod_priority_class(job)

    def follows_queue(self, job: Json) -> bool:
        """Whether the Workload follows the queue of the Pods, and not that of their controller."""
        return not serving(job)

    def reclaimable(self, job: Json, *, exact: bool) -> list[ReclaimablePod]:
        if serving(job):
            return []
        done = Counter(role(pod) for pod in pods(job) if phase(pod) == "Succeeded")
        return [ReclaimablePod(name=name, count=count) for name, count in done.items()]

    def finalize(self, job: Json) -> list[Effect]:
        return list(released(pods(job)))

    def conditions(self, job: Json, stored: StoredWorkload) -> list[Reported]:
        """Return whether Pods are missing. The condition stays if it is true for another reason."""
        before = condition(stored.obj.status.conditions, WAITING)
        absent = integer(child(job, "status").get("absentPods")) or 0
        if not absent:
            if before is None or before.status == "False":
                return []
            return [_waiting(False, "PodsReady", "No pods need replacement")]
        evicted = condition(stored.obj.status.conditions, "Evicted")
        if evicted is not None and evicted.status == "True":
            return [_waiting(True, evicted.reason, evicted.message)]
        if before is not None and before.status == "True":
            return []
        return [_waiting(True, "PodsFailed", "Some Failed pods need replacement")]

    def owns(self, stored: StoredWorkload, gates: Gates) -> bool:
        return workloads.owns(stored, gates)

    def woken_by(self, workload: Json, gates: Gates, *, deleted: bool) -> bool:
        return workloads.woken_by(workload, gates, deleted=deleted)

    def match(self, job: Json, stored: StoredWorkload, gates: Gates) -> Match:
        return workloads.match(job, stored, gates)

    def equivalent(self, job: Json, stored: StoredWorkload, gates: Gates) -> bool:
        return workloads.equivalent(job, stored, workloads.pod_sets(job, gates), gates)

    def prepare(self, job: Json, gates: Gates) -> Match:
        return workloads.prepare(job, gates)

    def workload_metadata(self, job: Json) -> Json:
        return workloads.metadata(job)

    def copied(self, job: Json, field: str, keys: Sequence[str]) -> dict[str, str]:
        return workloads.copied(job, field, keys)


def pods(job: Json) -> list[Json]:
    """Return the Pods of a group."""
    return [mapping(each) for each in elements(job.get("items"))]


def _waiting(status: bool, reason: str, message: str) -> Reported:
    return Reported(type=WAITING, status=status, reason=reason, message=message)
