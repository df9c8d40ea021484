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
from kuota.api.gates import Gate, Gates
from kuota.api.podset import Injection, MergeConflict
from kuota.api.rules.pod import group
from kuota.api.rules.report import child, integer
from kuota.api.workload import ReclaimablePod

from ..draft import StoredWorkload
from ..effects import Effect
from . import pod_group_workload as workloads
from .ancestor import GroupKind
from .composable import POD_GROUP, Match, ReportedCondition, StopCause
from .kind import End, JobKind, Stop
from .members import Member
from .pod import POD, WORKLOAD_DELETED, released, started, terminated, unqueued
from .pod_gates import role
from .pod_group_members import (
    Pods,
    PodTraits,
    described,
    occupying,
    pods_of,
    relevant,
    serving,
    total,
)

WAITING = "WaitingForReplacementPods"


class PodGroup(JobKind):
    """A group of Pods. With `only_with_parent`, Pods without a controller are ignored."""

    framework = POD
    ranked = True
    described_pod_sets = "one for each role"
    described_suspension = "scheduling gate; stopping deletes the pods"
    gvk = GroupVersionKind("", "v1", POD_GROUP)
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

    def described(self, member: Json) -> Member[PodTraits]:
        return described(member)

    def compose(
        self, key: Key, members: Pods, gates: Gates, now: float, *, stale: bool = False
    ) -> Json:
        """Return the group. Its first member is the oldest one. A `stale` group keeps all Pods.

        Its `status` contains what it depends on apart from its members.
        """
        first = child(members.first() or {}, "metadata")
        meta = {field: first.get(field) for field in ("labels", "annotations")}
        return {
            "apiVersion": "v1",
            "kind": POD_GROUP,
            "metadata": meta | {"namespace": key.namespace, "name": key.name},
            "items": members,
            "status": {
                "observedAt": now,
                "stale": stale,
                "fastQuotaRelease": gates.on(Gate.FastQuotaReleaseInPodIntegration),
            },
        }

    def abandoned(self, job: Json) -> bool:
        pods = pods_of(job)
        return pods.all(lambda each: each.deleting) and pods.some(lambda each: each.held)

    def implied(self) -> PodGroup:
        return PodGroup(only_with_parent=True)

    def skipped(self, job: Json, gates: Gates) -> bool:
        return unqueued(job, only_with_parent=self._only_with_parent)

    def pod_sets(self, job: Json, gates: Gates) -> list[Json]:
        return workloads.pod_sets(job, gates)

    def suspended(self, job: Json) -> bool:
        """Whether a Pod waits for admission, or has ended and may be replaced."""
        return pods_of(job).some(lambda each: each.has_no_processes)

    def suspend(self, job: Json) -> Json:
        """Return the same group: a gate cannot be added to an existing Pod."""
        return job

    def start(self, job: Json, given: Sequence[Injection], gates: Gates) -> list[Effect]:
        """Return the writes that start the gated Pods. Raises MergeConflict."""
        by_role = {each.name: each for each in given}
        effects: list[Effect] = []
        for pod in pods_of(job).where(lambda each: each.gated and not each.ended):
            added = by_role.get(role(pod))
            if added is None:
                raise MergeConflict(f"the admission has no pod set {role(pod)!r}")
            effects += started(pod, added)
        return effects

    def stop(self, job: Json, pod_sets: Sequence[Json] | None) -> Stop:
        """Return nothing: `terminate` stops Pods."""
        return Stop()

    def terminate(self, job: Json, cause: StopCause) -> list[Effect]:
        deleted = cause.reason == WORKLOAD_DELETED

        def stops(each: PodTraits) -> bool:
            return not each.deleting and (deleted or not each.has_no_processes)

        effects = list(terminated(pods_of(job).where(stops), cause))
        return effects + (self.finalize(job) if deleted else [])

    def end(self, job: Json) -> End | None:
        """Return the end of the group: all Pods succeeded, or all ended and cannot be replaced."""
        count = total(job)
        if serving(job) or count is None:
            return None
        pods = pods_of(job)
        succeeded = pods.count(lambda each: each.phase == "Succeeded")
        over = pods.all(lambda each: each.ended) and pods.some(lambda each: each.unretriable)
        if succeeded != count and not over:
            return None
        return End(success=True, message=f"Pods succeeded: {succeeded}/{count}.")

    def active(self, job: Json) -> bool:
        pods, status = pods_of(job), child(job, "status")
        if pods.some(lambda each: each.phase == "Running" and not each.deleting):
            return True
        now, fast_release = status.get("observedAt") or 0.0, bool(status.get("fastQuotaRelease"))
        ending = pods.where(lambda each: each.phase == "Running")
        return any(occupying(pod, now, fast_release=fast_release) for pod in ending)

    def pods_ready(self, job: Json) -> bool:
        count, pods = total(job), pods_of(job)
        return count is not None and len(pods) >= count and pods.all(lambda each: each.ready)

    def pod_priority_class(self, job: Json) -> str:
        return workloads.pod_priority_class(job)

    def follows_queue(self, job: Json) -> bool:
        """Whether the Workload follows the queue of the Pods, and not that of their controller."""
        return not serving(job)

    def reclaimable(self, job: Json, *, exact: bool) -> list[ReclaimablePod]:
        if serving(job):
            return []
        done = Counter[str]()
        for each, count in pods_of(job).tally():
            if each.phase == "Succeeded":
                done[each.role] += count
        return [ReclaimablePod(name=name, count=done[name]) for name in sorted(done)]

    def finalize(self, job: Json) -> list[Effect]:
        return list(released(pods_of(job).where(lambda each: each.held)))

    def conditions(self, job: Json, stored: StoredWorkload) -> list[ReportedCondition]:
        """Return whether Pods are missing. The condition stays if it is true for another reason."""
        before = condition(stored.obj.status.conditions, WAITING)
        absent = integer(child(job, "status").get("absentPods")) or 0
        if not absent:
            if before is None or before.status == "False":
                return []
            return [_waiting(False, "PodsReady", "No pods need replacement")]
        evicted = condition(stored.obj.status.conditions, "Evicted")
        waits = before is not None and before.status == "True"
        if evicted is not None and evicted.status == "True":
            wanted = evicted.reason, evicted.message
            known = waits and before is not None and (before.reason, before.message) == wanted
            return [] if known else [_waiting(True, *wanted)]
        if waits:
            return []
        return [_waiting(True, "PodsFailed", "Some Failed pods need replacement")]

    def owns(self, stored: StoredWorkload, gates: Gates) -> bool:
        return workloads.owns(stored, gates)

    def woken_by(self, workload: Json, gates: Gates, *, deleted: bool) -> bool:
        return workloads.woken_by(workload, gates, deleted=deleted)

    def match(self, job: Json, stored: StoredWorkload, gates: Gates) -> Match:
        return workloads.match(job, stored, gates)

    def equivalent(self, job: Json, stored: StoredWorkload, gates: Gates) -> bool:
        return workloads.equivalent(job, stored, workloads.sizes(job), gates)

    def prepare(self, job: Json, gates: Gates) -> Match:
        return workloads.prepare(job, gates)

    def workload_metadata(self, job: Json) -> Json:
        return workloads.metadata(job)

    def owner(self, member: Json) -> Json:
        return workloads.owner(member)

    def copied(self, job: Json, field: str, keys: Sequence[str]) -> dict[str, str]:
        return workloads.copied(job, field, keys)


def _waiting(status: bool, reason: str, message: str) -> ReportedCondition:
    return ReportedCondition(type=WAITING, status=status, reason=reason, message=message)
