# SPDX-License-Identifier: Apache-2.0
"""Defaulting and validation of jobs, and which stored jobs get a Workload.

The webhook, the embedded API server and the planner all call these functions, each with its own
lookup of other objects. An object is looked up only if the result depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING

from kuota.api.base import Json, Key
from kuota.api.faults import FieldError, Invalid
from kuota.api.gates import Gate
from kuota.api.kueue import GROUP, MULTIKUEUE
from kuota.api.match import matches
from kuota.api.priority import DEFAULT_CLASS
from kuota.api.rules.job_common import PRIORITY_CLASS, QUEUE_NAME, queue_name
from kuota.api.rules.metadata import label
from kuota.api.rules.report import child, elements, mapping, text

from .ancestor import GroupKind, Lookup, ancestor, namespace_of, owned
from .fields import at, put
from .kind import JobKind, JobWithOwnDefaults, JobWithRelatedRules, resolved

if TYPE_CHECKING:
    # Job kinds import this module, and configurations import all job kinds.
    from ..lifecycle_view import LifecycleConfig

DEFAULT_QUEUE = "default"
NAMESPACE: GroupKind = ("", "Namespace")


class UnqueuedReason(StrEnum):
    """Why a stored job gets no Workload of its own."""

    INTEGRATION = "the integration of its kind is disabled"
    PODS = "its pods are queued when they are created"
    NAMESPACE = "managedJobsNamespaceSelector does not select its namespace"
    NESTED = "a managed job owns it and is queued for both"
    NO_QUEUE = "it has no queue name, and manageJobsWithoutQueueName is not set"


def unqueued(
    kind: JobKind, job: Json, look_up: Lookup, config: LifecycleConfig
) -> UnqueuedReason | None:
    """Return why a stored job gets no Workload; None if it gets one. Raises NestingError."""
    if not enabled(kind, config):
        return UnqueuedReason.INTEGRATION
    if not kind.queued:
        return UnqueuedReason.PODS
    return unclaimed(kind, job, look_up, config)


def unclaimed(
    kind: JobKind, job: Json, look_up: Lookup, config: LifecycleConfig
) -> UnqueuedReason | None:
    """Return why neither a stored job nor its pods are queued, given that its kind is enabled.

    Raises NestingError.
    """
    if not in_scope(job, look_up, config):
        return UnqueuedReason.NAMESPACE
    if nested(kind, job, look_up, config):
        return UnqueuedReason.NESTED
    return (
        None
        if claimed(kind, job, namespace_labels(job, look_up), config)
        else UnqueuedReason.NO_QUEUE
    )


def enabled(kind: JobKind, config: LifecycleConfig) -> bool:
    """Whether the integration of the kind is enabled."""
    managed = kind.objects in config.owners.managed
    return managed or config.kind(kind.group_kind) is not None


def nested(kind: JobKind, job: Json, look_up: Lookup, config: LifecycleConfig) -> bool:
    """Whether a managed owner is queued instead of the job. Raises NestingError."""
    if not kind.ancestors:
        return False
    some = config.manage_all and config.manage_all_in is not None
    labels = namespace_labels(job, look_up) if some else None
    manage_all = config.manages_all(labels)
    return ancestor(job, config.owners, look_up, manage_all=manage_all) is not None


def claimed(
    kind: JobKind, job: Json, labels: Mapping[str, str] | None, config: LifecycleConfig
) -> bool:
    """Whether a job in a managed namespace with these labels is queued.

    A job with a managed ancestor is not.
    """
    return enabled(kind, config) and (bool(queue_name(job)) or config.manages_all(labels))


def in_scope(job: Json, look_up: Lookup, config: LifecycleConfig) -> bool:
    """Whether the jobs of the job's namespace are managed."""
    return managed_namespace(namespace_labels(job, look_up), config)


def namespace_labels(job: Json, look_up: Lookup) -> Mapping[str, str] | None:
    """Return the labels of the job's namespace; None if it does not exist."""
    found = look_up(NAMESPACE, Key("", namespace_of(job)))
    return None if found is None else child(found, "metadata", "labels")


def managed_namespace(labels: Mapping[str, str] | None, config: LifecycleConfig) -> bool:
    """Whether a namespace with these labels is managed. None means that it does not exist."""
    return labels is not None and matches(config.namespaces, labels)


LOCAL_QUEUE: GroupKind = (GROUP, "LocalQueue")
CLUSTER_QUEUE: GroupKind = (GROUP, "ClusterQueue")
ADMISSION_CHECK: GroupKind = (GROUP, "AdmissionCheck")
WORKLOAD_PRIORITY_CLASS: GroupKind = (GROUP, "WorkloadPriorityClass")
WORKLOAD: GroupKind = (GROUP, "Workload")
LOOKED_UP = (
    NAMESPACE,
    LOCAL_QUEUE,
    CLUSTER_QUEUE,
    ADMISSION_CHECK,
    WORKLOAD_PRIORITY_CLASS,
    WORKLOAD,
)
"""The kinds that these functions look up, besides job kinds and other owners of jobs."""


def reviewed(
    kind: JobKind, job: Json, old: Json | None, look_up: Lookup, config: LifecycleConfig
) -> Json:
    """Return the job as stored after its creation, or its change from `old`.

    Raises Invalid if it has faults, and NestingError if its owners cannot be followed.
    """
    mutates = old is None or kind.mutated_on_update
    stored = defaulted(kind, job, look_up, config) if mutates else job
    faults = faults_of(kind, stored, old, look_up, config)
    if faults:
        raise Invalid(faults)
    return stored


def defaulted(kind: JobKind, job: Json, look_up: Lookup, config: LifecycleConfig) -> Json:
    """Return the new job with the defaults of Kueue's mutating webhook. Raises NestingError."""
    if not enabled(kind, config) or kind.foreign(job):
        return job
    if isinstance(kind, JobWithOwnDefaults):
        return kind.own_defaults(job, look_up, config)
    job = with_default_labels(job, look_up, config)
    waits = waits_for_quota(kind, job, look_up, config)
    if waits and not kind.suspended(job):
        job = kind.suspend(job)
    if kind.managed_by and _dispatched(kind, job, look_up, config):
        job = put(job, kind.managed_by, MULTIKUEUE)
    return kind.defaulted(job, config.gates, managed=waits)


def faults_of(
    kind: JobKind, job: Json, old: Json | None, look_up: Lookup, config: LifecycleConfig
) -> list[FieldError]:
    """Return what Kueue's validating webhook rejects in a new job, or in a change from `old`."""
    if not enabled(kind, config) or kind.foreign(job):
        return []
    managed = config.manage_all or bool(queue_name(job))
    default_queue = left_default_queue(job, old, look_up)
    job, gates = resolved(kind, job, look_up), config.gates
    faults = list(kind.faults(job, old, gates, managed=managed, default_queue=default_queue))
    if isinstance(kind, JobWithRelatedRules):
        faults += kind.related_faults(job, old, look_up, config)
    return faults


def left_default_queue(job: Json, old: Json | None, look_up: Lookup) -> bool:
    """Whether a job removes its queue name in a namespace with a default LocalQueue."""
    if old is None or not queue_name(old) or queue_name(job):
        return False
    return _default_queue(job, look_up)


def with_default_labels(job: Json, look_up: Lookup, config: LifecycleConfig) -> Json:
    """Return the job with the default LocalQueue and WorkloadPriorityClass, if they apply.

    The result depends on no other job.
    """
    if owned(job, config.owners):
        return job
    if not queue_name(job) and _default_queue(job, look_up) and in_scope(job, look_up, config):
        job = _labelled(job, QUEUE_NAME, DEFAULT_QUEUE)
    if not label(job, PRIORITY_CLASS) and _default_class(look_up, config):
        job = _labelled(job, PRIORITY_CLASS, DEFAULT_CLASS)
    return job


def waits_for_quota(kind: JobKind, job: Json, look_up: Lookup, config: LifecycleConfig) -> bool:
    """Whether the new job must not start before it has quota. Raises NestingError.

    A job that is being deleted is ignored, because its owners may already be deleted.
    """
    leaving = child(job, "metadata").get("deletionTimestamp")
    if leaving and config.gates.on(Gate.SkipAncestorCheckForDeletedWorkloads):
        return False
    unqueued = not queue_name(job) and not config.manage_all
    if unqueued and not owned(job, config.owners):
        return False  # Owners of disabled kinds need not be looked up.
    if nested(kind, job, look_up, config) or unqueued:
        return False
    if queue_name(job):
        return True
    labels = namespace_labels(job, look_up)
    return managed_namespace(labels, config) and config.manages_all(labels)


def _default_queue(job: Json, look_up: Lookup) -> bool:
    return look_up(LOCAL_QUEUE, Key(namespace_of(job), DEFAULT_QUEUE)) is not None


def _default_class(look_up: Lookup, config: LifecycleConfig) -> bool:
    if not config.gates.on(Gate.WorkloadPriorityClassDefaulting):
        return False
    return look_up(WORKLOAD_PRIORITY_CLASS, Key("", DEFAULT_CLASS)) is not None


def _dispatched(kind: JobKind, job: Json, look_up: Lookup, config: LifecycleConfig) -> bool:
    """Whether the job's queue dispatches to other clusters and no other controller runs it."""
    name, native = queue_name(job), at(job, kind.managed_by) in (None, "", kind.native_manager)
    if not name or not native or not config.gates.on(Gate.MultiKueue):
        return False
    local = look_up(LOCAL_QUEUE, Key(namespace_of(job), name))
    queue = text(child(local, "spec").get("clusterQueue"))
    found = look_up(CLUSTER_QUEUE, Key("", queue)) if queue else None
    checks = elements(child(found, "spec", "admissionChecksStrategy").get("admissionChecks"))
    names = (text(mapping(each).get("name")) for each in checks)
    found_checks = (look_up(ADMISSION_CHECK, Key("", each)) for each in names if each)
    return any(child(each, "spec").get("controllerName") == MULTIKUEUE for each in found_checks)


def _labelled(job: Json, key: str, value: str) -> Json:
    meta = child(job, "metadata")
    return job | {"metadata": meta | {"labels": child(meta, "labels") | {key: value}}}
