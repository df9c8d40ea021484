# SPDX-License-Identifier: Apache-2.0
"""The StatefulSet: one Workload for all its Pods, created before them.

Scaled to zero, it keeps its Workload, which is on hold until it is scaled up again.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kuota.api.base import Json, Key
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.core import is_terminated
from kuota.api.faults import FieldError, forbidden, immutable
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import GROUP
from kuota.api.rules.job_common import PRIORITY_CLASS, QUEUE_NAME, queue_name
from kuota.api.rules.metadata import label
from kuota.api.rules.pod import GROUP_TOTAL, MANAGED, SUSPENDING_PARENT, group
from kuota.api.rules.report import child, elements, integer, mapping
from kuota.api.rules.serving import replicas
from kuota.engine.reasons import WaitReason

from ..admission import withdrawn_status
from ..draft import Draft, PassResult, StoredWorkload
from .ancestor import Lookup
from .dispatch import Dispatch
from .dispatch_kinds import ServingDispatch
from .fields import put
from .job_webhook import waits_for_quota
from .pod_gates import POD_INDEX_SOURCE, ROLE_HASH, deleting, ungated
from .pod_group_members import FAST_ADMISSION, SERVING
from .pod_parent import ParentView, controller_name, marked, parent_named
from .role_hash import shape_faults
from .serving_workload import ServingKind, ServingPass, is_remote, joined, outdated
from .topology_request import topology_request

if TYPE_CHECKING:
    from ..lifecycle_view import LifecycleConfig

STATEFUL_SET = "statefulset"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
MAIN = "main"
ON_HOLD = "OnHold"
_TEMPLATE = ("spec", "template")


class StatefulSet(ServingKind):
    """A StatefulSet."""

    framework = STATEFUL_SET
    ranked = True
    described_pod_sets = "`main`: its replicas, as a pod group"
    described_suspension = "scheduling gate of its pods"
    gvk = FRAMEWORKS[STATEFUL_SET]

    def dispatch(self) -> Dispatch | None:
        return ServingDispatch(self.gvk)

    def foreign(self, job: Json) -> bool:
        return parent_named(child(job, *_TEMPLATE)) not in ("", STATEFUL_SET)

    def defaulted(self, job: Json, gates: Gates, *, managed: bool) -> Json:
        if not managed:
            return job
        annotations = {SUSPENDING_PARENT: STATEFUL_SET}
        return put(job, _TEMPLATE, marked(child(job, *_TEMPLATE), {}, annotations))

    def related_faults(
        self, job: Json, old: Json | None, look_up: Lookup, config: LifecycleConfig
    ) -> Iterable[FieldError]:
        if old is None or not waits_for_quota(self, job, look_up, config):
            return
        new_spec, old_spec = child(job, *_TEMPLATE, "spec"), child(old, *_TEMPLATE, "spec")
        yield from shape_faults(new_spec, old_spec, "spec.template.spec")
        before, after, path = replicas(old), replicas(job), "spec.replicas"
        if before and after and before != after:
            why = "between numbers above 0, because the quota was reserved for all pods"
            yield immutable(path, after, why, "scale to 0 first")
        if before or not after:
            return
        if integer(child(job, "status").get("replicas")):
            yield forbidden(path, "scaling down is still in progress", "wait until no pod is left")
        elif self._unreleased(old, look_up, config.gates):
            message = "the workload from the previous scale-down is still in use"
            yield forbidden(path, message, "wait until it is on hold")

    def _unreleased(self, job: Json, look_up: Lookup, gates: Gates) -> bool:
        """Whether a Workload exists that is not on hold."""
        namespace = str(child(job, "metadata").get("namespace") or "")
        for name in self.workload_names(job, gates):
            found = look_up((GROUP, "Workload"), Key(namespace, name))
            if found is not None:
                return not _held(found)
        return False

    def workload_names(self, obj: Json, gates: Gates) -> list[str]:
        """Return the name of its Workload, and the one that Kueue used before UIDs were part."""
        return [self.workload_name(obj, gates), self.workload_name(obj, gates, uid="")]

    def pod_sets(self, job: Json, gates: Gates) -> list[Json]:
        template = child(job, *_TEMPLATE)
        found: Json = {
            "name": MAIN,
            "count": replicas(job),
            "template": {"metadata": {}, "spec": child(template, "spec")},
        }
        if gates.on(Gate.TopologyAwareScheduling):
            ranks = {"podIndexLabel": POD_INDEX_LABEL}
            found["topologyRequest"] = topology_request(template, gates, ranks)
        return [found]

    def parent_of(self, pod: Json) -> str:
        suspended = parent_named(pod) == STATEFUL_SET
        return controller_name(pod, self.group_kind) if suspended else ""

    def reconcile(self, view: ParentView, now: float) -> PassResult:
        """Keep the Workload, let Pods join its group, and start Pods of the old revision."""
        if view.obj is None or not view.managed:
            return PassResult()
        stored, name = self._workload(view), self.group_name(view)
        done = ServingPass(self, view, now)
        for pod in view.pods:
            member = self.joined(pod, view.obj, name, view)
            done.change_pod(pod, member)
            if group(member, view.gates)[0] == name and outdated(view.obj, member):
                # A write of its own: the webhook rejects a new queue name of a Pod without gates.
                done.change_pod(member, ungated(member))
        self._keep_workload(done, stored, name)
        return done.done()

    def _workload(self, view: ParentView) -> StoredWorkload | None:
        by_name = {each.key.name: each for each in view.workloads}
        names = self.workload_names(view.obj or {}, view.gates)
        return next((by_name[each] for each in names if each in by_name), None)

    def group_name(self, view: ParentView) -> str:
        """Return the group of its Pods: the name of its Workload."""
        stored = self._workload(view)
        return self.workload_name(view.obj or {}, view.gates) if stored is None else stored.key.name

    def joined(self, pod: Json, obj: Json, name: str, view: ParentView) -> Json:
        """Return a Pod of the StatefulSet as a member of the group of its Workload."""
        queue = queue_name(obj)
        if is_terminated({"status": child(pod, "status")}) or deleting(pod):
            return pod
        if group(pod, view.gates)[0] == name:
            return _queued(pod, queue) if queue and replicas(obj) else pod
        if not queue and not view.manages_all:
            return pod
        labels = {
            MANAGED: "true",
            QUEUE_NAME: queue,
            PRIORITY_CLASS: label(obj, PRIORITY_CLASS) or "",
        }
        annotations = {
            GROUP_TOTAL: str(replicas(obj)),
            FAST_ADMISSION: "true",
            SERVING: "true",
            POD_INDEX_SOURCE: POD_INDEX_LABEL,
            ROLE_HASH: MAIN,
        }
        return joined(pod, name, labels, annotations, view.gates)

    def _keep_workload(self, done: ServingPass, stored: StoredWorkload | None, name: str) -> None:
        obj, count = done.obj, replicas(done.obj)
        queued = bool(queue_name(obj)) or done.view.manages_all
        if stored is None:
            if count > 0 and queued and not is_remote(obj):
                done.create(name, {})
            return
        draft = done.draft(stored)
        if count > 0 and not done.owns(stored):
            owners = elements(child(stored.json, "metadata").get("ownerReferences"))
            owned = {"ownerReferences": [*owners, done.owner()]}
            draft.patch({"metadata": owned | {"annotations": done.owner_annotations()}})
        if count > 0:
            done.follow_queue(draft)
            _resize(draft, count)
        done.follow_gates(draft)
        draft.write(hold_status(draft.current, count, done.now, done.view.gates))
        done.add(*draft.done().effects)


def _queued(pod: Json, queue: str) -> Json:
    if label(pod, QUEUE_NAME) == queue:
        return pod
    meta = child(pod, "metadata")
    return pod | {"metadata": meta | {"labels": child(meta, "labels") | {QUEUE_NAME: queue}}}


def _held(workload: Json) -> bool:
    for each in map(mapping, elements(child(workload, "status").get("conditions"))):
        if each.get("type") == "QuotaReserved":
            return each.get("status") == "False" and each.get("reason") == ON_HOLD
    return False


def _resize(draft: Draft, count: int) -> None:
    """Adjust the pod set of a Workload on hold to a StatefulSet that was scaled from zero."""
    sets = elements(child(draft.current.json, "spec").get("podSets"))
    if _held(draft.current.json) and len(sets) == 1 and mapping(sets[0]).get("count") != count:
        draft.patch({"spec": {"podSets": [mapping(sets[0]) | {"count": count}]}})


def hold_status(stored: StoredWorkload, count: int, now: float, gates: Gates) -> Json:
    """Return the status of the Workload of a StatefulSet with this many replicas.

    Its quota is released when it is scaled to zero.
    """
    if count == 0:
        active = stored.obj.spec.active is not False
        if not stored.reserved or stored.true("Finished") or not active:
            return {}
        message = "StatefulSet scaled to zero; workload on hold"
        return withdrawn_status(stored.obj, WaitReason.ON_HOLD, message, now, gates)
    if not _held(stored.json):
        return {}
    message = "Workload no longer on hold; waiting for quota reservation"
    return withdrawn_status(stored.obj, WaitReason.PENDING_EVALUATION, message, now, gates)
