# SPDX-License-Identifier: Apache-2.0
"""Rejects requests that would let processes run without quota.

Clusters leave these cases to the platform team and to Kueue, which corrects them afterwards. On one
machine a process starts within milliseconds, so the API server rejects the request instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from kuota.api.base import Json, Key, LabelSelector, LabelSelectorRequirement
from kuota.api.config.frameworks import GroupVersionKind
from kuota.api.kueue import GROUP
from kuota.api.match import matches
from kuota.api.owners import controller_of
from kuota.api.rules.job_common import PRIORITY_CLASS, QUEUE_NAME, queue_name
from kuota.api.rules.metadata import annotation
from kuota.api.rules.pod import RETRIABLE
from kuota.api.rules.report import child, elements, mapping, string_map, text
from kuota.bridge.jobs.ancestor import GroupKind, group_kind
from kuota.bridge.jobs.composable import IS_GROUP
from kuota.bridge.jobs.job_webhook import LOOKED_UP, UnqueuedReason
from kuota.bridge.jobs.kind import JobKey, JobKind, referred
from kuota.bridge.jobs.pod_gates import gated
from kuota.bridge.jobs.registry import ALL
from kuota.bridge.lifecycle_view import LifecycleConfig
from kuota.kube.resources import (
    CONTROLLER_REVISIONS,
    LOCAL_QUEUES,
    PODS,
    REPLICA_SETS,
    WORKLOADS,
    Resource,
    by_kind,
)
from kuota.server.admission import Deletion, Review
from kuota.server.auth import TEAM
from kuota.server.collection import ORPHAN
from kuota.server.requests import ADMINS
from kuota.server.run_as import TEMPLATES
from kuota.server.status import conflict, forbidden
from kuota.server.store import Store, key_of

from .charges import POD_GROUP, charge_of, starts, unqueued_reason
from .live_pods import LivePods
from .local import SYSTEM
from .pod_quota import PodQuota, charged_pods
from .unsupported_kinds import runs_here, statement

TEAM_NAMESPACES = LabelSelector(
    match_expressions=[LabelSelectorRequirement(key=TEAM, operator="Exists")]
)
"""The namespaces that belong to a team: members can write only there."""

_RESOURCES = by_kind(LOOKED_UP)
_GATES = f"{GROUP}/"
FREE = frozenset({RETRIABLE})
"""The annotations of a Pod that its owner may always change."""
FREE_WHILE_GATED = FREE | {QUEUE_NAME, PRIORITY_CLASS}
"""The labels and annotations of a Pod that its owner may change before it is admitted."""
_RECORDS = {REPLICA_SETS.name: "Deployment", CONTROLLER_REVISIONS.name: "StatefulSet"}
"""The kinds that record pod templates, from which controllers create pods, and for which kind."""
_GRACE = "terminationGracePeriodSeconds"


def stored_objects(store: Store) -> Callable[[GroupKind, Key], Json | None]:
    """Return a lookup in the store, for `kuota.bridge.jobs.job_webhook`."""

    def look_up(kind: GroupKind, key: Key) -> Json | None:
        job, needed = ALL.get(kind), referred(ALL).get(kind)
        if job is not None:
            resource = Resource.of(job.gvk, job.plural)
        elif needed is not None:
            resource = Resource.of(needed.gvk, needed.gvk.plural)
        else:
            external = GroupVersionKind(kind[0], "", kind[1])
            resource = _RESOURCES.get(kind) or Resource.of(external, external.plural)
        return store.get(resource.name, key)

    return look_up


def queueing_all(config: LifecycleConfig) -> LifecycleConfig:
    """Return the configuration in which no Job of a team runs without quota of its own."""
    return replace(
        config,
        manage_all=True,
        manage_all_in=None if config.manage_all else TEAM_NAMESPACES,
        owners=replace(config.owners, queues_owned=True),
    )


class QuotaRules:
    """A validator of the API server. With `pods_allowed`, members may create Pods."""

    def __init__(
        self,
        store: Store,
        config: LifecycleConfig,
        live: LivePods,
        quota: PodQuota,
        *,
        max_grace_s: int,
        pods_allowed: bool = False,
    ) -> None:
        self._store = store
        self._config = config
        self._live = live
        self._quota = quota
        self._max_grace_s = max_grace_s
        self._pods_allowed = pods_allowed

    def __call__(self, request: Review | Deletion) -> Sequence[str]:
        """Return warnings. Raises StatusError if the request would bypass quota."""
        resource = request.kind.resource
        kind = self._config.kind((request.kind.group, request.kind.kind))
        if isinstance(request, Deletion):
            if kind is not None and resource != PODS.name:
                self._check_orphans(kind, request)
            return ()
        if resource == WORKLOADS.name:
            self._check_release(request)
        elif request.subresource:
            return ()
        elif resource == PODS.name:
            self._check_pod(request)
        elif resource in _RECORDS and request.user != SYSTEM:
            why = f"only controllers write it, and it runs nothing; create a {_RECORDS[resource]}"
            raise _refused(request, why)
        elif kind is not None:
            self._check_job(kind, request)
        return self._warnings(kind, request)

    def _check_pod(self, review: Review) -> None:
        if review.user == SYSTEM:
            if review.old is None:
                self._check_quota(review)
            elif starts(review.object, review.old):
                self._check_start(review)
        elif ADMINS in review.user.groups or self._pods_allowed or not self._of_team(review.object):
            return
        elif review.old is None:
            _check_new_pod(review)
        else:
            _check_changed_pod(review, review.old)

    def _check_start(self, review: Review) -> None:
        """Reject the removal of the gate of a queued Pod unless there is quota for the Pod."""
        why = self._quota.start_refusal(review.object)
        if why:
            raise _refused(review, why)

    def _check_quota(self, review: Review) -> None:
        """Reject a pod of a queued Job unless the Job has quota for it."""
        pod = review.object
        why = self._quota.refusal(pod)
        if not why and self._is_free(pod):
            why = "it would run without quota; apply its owner again, so that its Pods are queued"
        if why:
            raise _refused(review, why)

    def _is_free(self, pod: Json) -> bool:
        """Whether a Pod of a controller of this machine would run without being charged.

        The templates of objects that are older than their team are not marked as queued.
        """
        if self._pods_allowed or gated(pod) or not self._of_team(pod):
            return False
        return controller_of(pod) is not None and charge_of(pod) is None

    def _check_job(self, kind: JobKind, review: Review) -> None:
        job, old, name = review.object, review.old, review.kind.kind
        finalizers = elements(child(job, "metadata").get("finalizers"))
        if ORPHAN in finalizers and self._is_charged(kind, job):
            raise _refused(review, f"the finalizer {ORPHAN} {_orphans(name)}")
        if old is None or review.user == SYSTEM or not kind.suspended(old) or kind.suspended(job):
            return
        if kind.end(old) is None and self._is_charged(kind, job):
            raise _refused(
                review,
                f"spec.suspend is set by the queue, which starts the {name} when it is admitted; "
                "leave the field out of the change, or see `kuota describe` for what it waits for",
            )

    def _check_orphans(self, kind: JobKind, deletion: Deletion) -> None:
        own = elements(child(deletion.object, "metadata").get("finalizers"))
        orphans = deletion.propagation == "Orphan" or (not deletion.propagation and ORPHAN in own)
        if orphans and self._is_charged(kind, deletion.object):
            name = deletion.kind.kind
            raise _refused(deletion, f"the propagation policy Orphan {_orphans(name)}")

    def _check_release(self, review: Review) -> None:
        """Reject the release of quota that processes still use.

        The slice that replaces another one is charged for the pods of both.
        """
        charged = charged_pods(review.object)
        if review.old is None or charged >= charged_pods(review.old):
            return
        key = key_of(review.object)
        if annotation(review.old, IS_GROUP) == "true":
            group = JobKey(POD_GROUP, key)
            if self._live.count(group, None) > charged:
                raise _in_use(review, group)
            return
        for owner in map(mapping, _owners(review.old)):
            job = JobKey(group_kind(owner), Key(key.namespace, text(owner.get("name"))))
            uid = text(owner.get("uid"))
            others = self._quota.charged_pods(job, uid) | {key: charged}
            if self._live.count(job, uid) > sum(others.values()):
                raise _in_use(review, job)

    def _warnings(self, kind: JobKind | None, review: Review) -> Sequence[str]:
        """Tell users about values of a new object that do not have the effect they may expect."""
        if review.old is not None or review.user == SYSTEM:
            return ()
        found = [*self._grace_warnings(review)]
        if kind is not None:
            found += self._queue_warnings(kind, review.object)
            if not runs_here(kind.group_kind):
                found.append(statement(kind))
        return found

    def _grace_warnings(self, review: Review) -> Iterator[str]:
        template = TEMPLATES.get(review.kind.resource)
        if template is None:
            return
        path = (*template, "spec")
        wanted = child(review.object, *path).get(_GRACE)
        if isinstance(wanted, int) and wanted > self._max_grace_s:
            yield (
                f"{'.'.join(path)}.{_GRACE}: {wanted} exceeds the maximum of this machine; "
                f"processes are killed after {self._max_grace_s} seconds "
                "(kuota up --max-grace-period)"
            )

    def _queue_warnings(self, kind: JobKind, job: Json) -> Sequence[str]:
        """Say that a job without a queue name waits, and what to do about it."""
        if queue_name(job) or self._unqueued_reason(kind, job) is not None:
            return ()
        namespace = key_of(job).namespace
        queues = [each["metadata"]["name"] for each in self._queues(namespace)]
        known = f"LocalQueues there: {', '.join(queues[:5])}" if queues else "It has no LocalQueue"
        return (
            f"the {kind.gvk.kind} has no label {QUEUE_NAME}, and namespace {namespace} has no "
            f"LocalQueue `default`: the {kind.gvk.kind} waits until it has the label. {known}.",
        )

    def _queues(self, namespace: str) -> list[Json]:
        return self._store.list(LOCAL_QUEUES.name, namespace).items

    def _is_charged(self, kind: JobKind, job: Json) -> bool:
        """Whether the job needs quota: of its own, or that of the job for which it was created."""
        return self._unqueued_reason(kind, job) in (None, UnqueuedReason.NESTED)

    def _unqueued_reason(self, kind: JobKind, job: Json) -> UnqueuedReason | None:
        return unqueued_reason(kind, job, stored_objects(self._store), self._config)

    def _of_team(self, obj: Json) -> bool:
        found = self._store.get("namespaces", Key("", key_of(obj).namespace))
        return matches(TEAM_NAMESPACES, child(found, "metadata", "labels"))


def _check_new_pod(review: Review) -> None:
    """Reject a Pod of a member that claims the quota of a job, or chooses its node."""
    if controller_of(review.object) is not None:
        raise _refused(
            review,
            "metadata.ownerReferences: only the controller of a job creates Pods that it controls; "
            "leave the reference out, or set `controller: false`",
        )
    if child(review.object, "spec").get("nodeName"):
        raise _refused(
            review, "spec.nodeName: the Pod gets a node when it is admitted; leave the field out"
        )


def _check_changed_pod(review: Review, old: Json) -> None:
    """Reject changes by a member of what decides about the quota of a pod."""
    if _owners(review.object) != _owners(old):
        raise _refused(
            review, "metadata.ownerReferences of a pod determines which Job is charged for it"
        )
    lost = _gates(old) - _gates(review.object)
    if lost:
        raise _refused(review, f"only its controller may remove {', '.join(sorted(lost))}")
    free = FREE_WHILE_GATED if gated(old) else FREE
    for field in ("labels", "annotations"):
        changed = {
            key for key, _ in _marks(old, field) ^ _marks(review.object, field) if key not in free
        }
        if changed:
            raise _refused(
                review,
                f"metadata.{field}: {', '.join(sorted(changed))} cannot be changed, because the "
                "queue accounts for the Pod by it; delete the Pod and create it again",
            )


def _in_use(review: Review, job: JobKey) -> Exception:
    why = f"processes of {job} still use its quota; it is released when they end"
    return conflict(review.kind, key_of(review.object).name, why)


def _orphans(kind: str) -> str:
    return (
        f"would leave pods running without quota; delete the {kind} with --cascade=background or "
        "--cascade=foreground"
    )


def _refused(request: Review | Deletion, why: str) -> Exception:
    return forbidden(request.kind, text(child(request.object, "metadata").get("name")), why)


def _owners(obj: Json) -> list[Any]:
    return elements(child(obj, "metadata").get("ownerReferences"))


def _gates(pod: Json) -> set[str]:
    """The scheduling gates that keep a pod from running before it is admitted."""
    found = elements(child(pod, "spec").get("schedulingGates"))
    names: set[str] = {text(mapping(each).get("name")) for each in found}
    return {each for each in names if each.startswith(_GATES)}


def _marks(pod: Json, field: str) -> set[tuple[str, str]]:
    """The labels or annotations by which the queue accounts for a pod."""
    found = string_map(child(pod, "metadata").get(field))
    return {(key, value) for key, value in found.items() if key.startswith(_GATES)}
