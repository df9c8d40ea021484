# SPDX-License-Identifier: Apache-2.0
"""The LeaderWorkerSet: one Workload for each replica, which is a group of Pods.

During a rollout with surplus replicas, the surplus replicas also have Workloads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

from kuota.api.base import Json
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.core import is_terminated
from kuota.api.faults import FieldError, immutable, invalid
from kuota.api.gates import Gate, Gates
from kuota.api.rules.job_common import PRIORITY_CLASS, QUEUE_NAME, queue_name
from kuota.api.rules.metadata import PREFIX, annotation, label
from kuota.api.rules.pod import ADMISSION_GATE, GROUP_TOTAL, MANAGED, SUSPENDING_PARENT
from kuota.api.rules.report import child, integer, mapping, text, whole
from kuota.api.rules.serving import MAX_REPLICAS, replicas
from kuota.api.rules.topology import GROUP_NAME, GroupMember, group_faults, topology_faults

from ..draft import PassResult, StoredWorkload
from ..effects import Delete
from .ancestor import GroupKind, Lookup
from .dispatch import Dispatch
from .dispatch_kinds import WORKLOAD_INDEX, LeaderWorkerSetDispatch
from .fields import put
from .job_webhook import waits_for_quota
from .pod_gates import ROLE_HASH, deleting, has_gate, ungated
from .pod_group_members import SERVING
from .pod_parent import ParentView, controller_name, marked, parent_named
from .role_hash import shape_faults
from .serving_workload import ServingKind, ServingPass, is_remote, joined, outdated
from .topology_request import topology_request

if TYPE_CHECKING:
    from ..lifecycle_view import LifecycleConfig

LEADER_WORKER_SET = "leaderworkerset.x-k8s.io/leaderworkerset"
DOMAIN = "leaderworkerset.sigs.k8s.io"
SET_NAME = f"{DOMAIN}/name"
GROUP_INDEX = f"{DOMAIN}/group-index"
WORKER_INDEX = f"{DOMAIN}/worker-index"
LEADER_NAME = f"{DOMAIN}/leader-name"
INDEX_OFFSET = f"{PREFIX}pod-index-offset"
LEADER, WORKER, MAIN = "leader", "worker", "main"
_WRITTEN_PER_PASS = 100
"""How many Workloads one pass creates or deletes. Their events trigger the next one."""
_STATEFUL_SET: GroupKind = ("apps", "StatefulSet")
_TEMPLATES = ("spec", "leaderWorkerTemplate")
_PATH = ".".join(_TEMPLATES)


def leader(obj: Json) -> Json | None:
    """Return the template of leaders; None if all Pods are alike."""
    found = child(obj, *_TEMPLATES).get("leaderTemplate")
    return found if isinstance(found, dict) else None


def worker(obj: Json) -> Json:
    return child(obj, *_TEMPLATES, "workerTemplate")


def size(obj: Json) -> int:
    """Return the number of Pods of a replica, by default 1."""
    found = integer(child(obj, *_TEMPLATES).get("size"))
    return 1 if found is None else found


class LeaderWorkerSet(ServingKind):
    """A LeaderWorkerSet."""

    framework = LEADER_WORKER_SET
    ranked = True
    described_pod_sets = "`leader`, `worker` or `main`, for each replica"
    described_suspension = "scheduling gate of its pods"
    gvk = FRAMEWORKS[LEADER_WORKER_SET]
    related = (_STATEFUL_SET,)

    def dispatch(self) -> Dispatch | None:
        return LeaderWorkerSetDispatch(self.gvk)

    def defaulted(self, job: Json, gates: Gates, *, managed: bool) -> Json:
        if not managed:
            return job
        labels = {QUEUE_NAME: queue_name(job), PRIORITY_CLASS: label(job, PRIORITY_CLASS) or ""}
        annotations = {SUSPENDING_PARENT: LEADER_WORKER_SET, SERVING: "true"}
        first, other = leader(job), worker(job)
        if first is not None:
            new = marked(first, labels, annotations)
            job = put(job, (*_TEMPLATES, "leaderTemplate"), new)
            grouped = GROUP_NAME in child(other, "metadata", "annotations")
            if gates.on(Gate.TopologyAwareScheduling) and not grouped:
                annotations = annotations | {INDEX_OFFSET: "1"}
        new = marked(other, labels, annotations)
        return put(job, (*_TEMPLATES, "workerTemplate"), new)

    def own_faults(
        self, job: Json, old: Json | None, gates: Gates, *, managed: bool
    ) -> Iterable[FieldError]:
        count = replicas(job)
        if not 0 <= count <= MAX_REPLICAS:
            message = f"must be from 0 to {MAX_REPLICAS}, is {count}"
            yield invalid("spec.replicas", count, message)
        if gates.on(Gate.TopologyAwareScheduling):
            yield from self._topology_faults(job, gates)

    def _topology_faults(self, job: Json, gates: Gates) -> Iterator[FieldError]:
        first, members = leader(job), []
        if first is not None:
            members.append(GroupMember(f"{_PATH}.leaderTemplate.metadata", 1, _metadata(first)))
        path = f"{_PATH}.workerTemplate.metadata"
        count = size(job) if first is None else size(job) - 1
        members.append(GroupMember(path, count, _metadata(worker(job))))
        for each in members:
            yield from topology_faults(each.metadata, each.path, each.pods, gates)
        yield from group_faults(members)

    def related_faults(
        self, job: Json, old: Json | None, look_up: Lookup, config: LifecycleConfig
    ) -> Iterable[FieldError]:
        if old is None or not waits_for_quota(self, job, look_up, config):
            return
        yield from self._leader_faults(job, old)
        path = f"{_PATH}.workerTemplate.spec"
        yield from shape_faults(child(worker(job), "spec"), child(worker(old), "spec"), path)
        if config.gates.on(Gate.LWSImmutableGroupSize) and size(job) != size(old):
            why = "because the quota of each replica was reserved for its present size"
            yield immutable(f"{_PATH}.size", size(job), why, "create another LeaderWorkerSet")

    @staticmethod
    def _leader_faults(job: Json, old: Json) -> Iterator[FieldError]:
        after, before, path = leader(job), leader(old), f"{_PATH}.leaderTemplate"
        if after is not None and before is not None:
            yield from shape_faults(child(after, "spec"), child(before, "spec"), f"{path}.spec")
        elif after is not before:
            why = "by adding or removing it, because the quota depends on it"
            yield immutable(path, after, why, "create another LeaderWorkerSet")

    def pod_sets(self, job: Json, gates: Gates) -> list[Json]:
        first = leader(job)
        if first is None:
            return [_pod_set(MAIN, size(job), worker(job), gates, ranked=True)]
        return [
            _pod_set(LEADER, 1, first, gates, ranked=False),
            _pod_set(WORKER, size(job) - 1, worker(job), gates, ranked=True),
        ]

    def parent_of(self, pod: Json) -> str:
        suspended = parent_named(pod) == LEADER_WORKER_SET
        return text(child(pod, "metadata", "labels").get(SET_NAME)) if suspended else ""

    def parent_of_related(self, obj: Json) -> str:
        suspended = parent_named(child(obj, "spec", "template")) == LEADER_WORKER_SET
        return text(child(obj, "metadata", "labels").get(SET_NAME)) if suspended else ""

    def reconcile(self, view: ParentView, now: float) -> PassResult:
        """Keep one Workload for each replica, and let Pods join the group of theirs.

        If the LeaderWorkerSet is gone, its Pods are started, so that they can terminate.
        """
        done = ServingPass(self, view, now)
        if view.obj is not None and view.managed:
            self._keep_workloads(done)
        if view.obj is not None and not view.managed:
            return done.done()
        sets = {text(child(each, "metadata").get("name")): each for each in view.related}
        for pod in view.pods:
            done.change_pod(pod, self._reconciled(pod, sets, view))
        return done.done()

    def _reconciled(self, pod: Json, sets: Mapping[str, Json], view: ParentView) -> Json:
        """Return a Pod without gates, or in the group of its replica."""
        if view.obj is None:
            # Where every Pod needs quota, one that only names a set must not evade that.
            return pod if view.manages_all and not deleting(pod) else ungated(pod)
        name = controller_name(pod, _STATEFUL_SET)
        if name and name not in sets and not deleting(pod):
            # The StatefulSet is not known yet, or the Pod will be deleted with it.
            return pod
        if outdated(sets.get(name), pod):
            return ungated(pod)
        if is_terminated({"status": child(pod, "status")}) or deleting(pod):
            return pod
        return self._joined(pod, view.obj, view.gates)

    def _keep_workloads(self, done: ServingPass) -> None:
        left = {each.key.name: each for each in done.view.workloads}
        created = 0
        for index in range(min(_replicas_now(done.obj), done.view.max_replicas)):
            name = self.workload_name(done.obj, done.view.gates, f"-{index}")
            stored = left.pop(name, None)
            if stored is not None:
                self._follow(done, stored)
            elif created == _WRITTEN_PER_PASS:
                return
            elif not is_remote(done.obj):
                created += 1
                done.create(name, {WORKLOAD_INDEX: str(index)})
        surplus = sorted(left.values(), key=lambda each: each.deleting)
        for stored in surplus[:_WRITTEN_PER_PASS]:
            _delete(done, stored)

    @staticmethod
    def _follow(done: ServingPass, stored: StoredWorkload) -> None:
        draft = done.draft(stored)
        done.follow_queue(draft)
        done.follow_gates(draft)
        done.follow_priority(draft)
        done.add(*draft.done().effects)

    def _joined(self, pod: Json, obj: Json, gates: Gates) -> Json:
        """Return the Pod in the group of its replica, once that is known.

        Only a gated Pod may still change its queue.
        """
        labels, queue = child(pod, "metadata", "labels"), queue_name(obj)
        waits = has_gate(pod, ADMISSION_GATE)
        if MANAGED in labels:
            if not queue or not waits or labels.get(QUEUE_NAME) == queue:
                return pod
            meta = child(pod, "metadata")
            return pod | {"metadata": meta | {"labels": labels | {QUEUE_NAME: queue}}}
        if GROUP_INDEX not in labels:
            return pod
        name = self.workload_name(obj, gates, f"-{labels[GROUP_INDEX]}")
        added = {MANAGED: "true"} | ({QUEUE_NAME: queue} if waits else {})
        annotations = {GROUP_TOTAL: str(size(obj)), ROLE_HASH: _role(pod, obj)}
        return joined(pod, name, added, annotations, gates)


def _metadata(template: Json) -> Json:
    return child(template, "metadata")


def _role(pod: Json, obj: Json) -> str:
    if leader(obj) is None:
        return MAIN
    return LEADER if annotation(pod, LEADER_NAME) is None else WORKER


def _replicas_now(obj: Json) -> int:
    """Return the replicas that need quota: during a rollout, surplus ones as well."""
    count, status = replicas(obj), child(obj, "status")
    existing = integer(status.get("replicas")) or 0
    rolling = child(obj, "spec", "rolloutStrategy", "rollingUpdateConfiguration")
    updated = integer(status.get("updatedReplicas")) or 0
    if existing > count and _surge(rolling.get("maxSurge")) > 0 and updated < count:
        return existing
    return count


def _surge(value: object) -> int:
    """Return a number of replicas. A percentage counts as its number, as for Kueue."""
    number = integer(value)
    return number if number is not None else whole(text(value).removesuffix("%")) or 0


def _pod_set(name: str, count: int, template: Json, gates: Gates, *, ranked: bool) -> Json:
    meta = dict(child(template, "metadata"))
    for field in ("labels", "annotations"):
        if isinstance(meta.get(field), dict):
            meta[field] = _kept(mapping(meta[field]))
    found: Json = {"name": name, "count": count, "template": template | {"metadata": meta}}
    if gates.on(Gate.TopologyAwareScheduling):
        ranks = {"podIndexLabel": WORKER_INDEX} if ranked else None
        request = topology_request(template, gates, ranks)
        found |= {"topologyRequest": request} if request is not None else {}
    return found


def _kept(fields: Json) -> Json:
    """Return labels or annotations without those that differ between replicas."""
    return {
        key: each for key, each in fields.items() if not key.startswith(DOMAIN) or key == SET_NAME
    }


def _delete(done: ServingPass, stored: StoredWorkload) -> None:
    draft = done.draft(stored)
    draft.drop_finalizer()
    if not stored.deleting:
        draft.add(Delete(key=stored.key, uid=stored.obj.metadata.uid))
    done.add(*draft.done().effects)
