# SPDX-License-Identifier: Apache-2.0
"""Defaulting and validation of batch/v1 Jobs, and which stored Jobs get a Workload.

The webhook, the embedded API server and the planner all call these functions, each with its own
lookup of other objects. An object is looked up only if the result depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from kuota.api.base import Json, Key
from kuota.api.faults import FieldError, Invalid
from kuota.api.gates import Gate
from kuota.api.kueue import GROUP, MULTIKUEUE
from kuota.api.match import matches
from kuota.api.priority import DEFAULT_CLASS
from kuota.api.rules.job import job_faults
from kuota.api.rules.job_common import PRIORITY_CLASS, QUEUE_NAME, queue_name, suspended
from kuota.api.rules.metadata import elastic, label
from kuota.api.rules.report import child, elements, mapping, text

from ..lifecycle_view import LifecycleConfig
from .ancestor import JOB, GroupKind, Lookup, ancestor, namespace_of, owned
from .batch_job import DEFAULT_QUEUE

NAMESPACE: GroupKind = ("", "Namespace")


class Unqueued(StrEnum):
    """Why a stored job gets no Workload of its own."""

    INTEGRATION = "the batch/job integration is disabled"
    NAMESPACE = "managedJobsNamespaceSelector does not select its namespace"
    NESTED = "a managed Job owns it and is queued for both"
    NO_QUEUE = "it has no queue name, and manageJobsWithoutQueueName is not set"


def unqueued(job: Json, look_up: Lookup, config: LifecycleConfig) -> Unqueued | None:
    """Return why a stored job gets no Workload; None if it gets one. Raises NestingError."""
    if not enabled(config):
        return Unqueued.INTEGRATION
    if not in_scope(job, look_up, config):
        return Unqueued.NAMESPACE
    if ancestor(job, config.owners, look_up, manage_all=config.manage_all) is not None:
        return Unqueued.NESTED
    return None if claimed(job, _namespace_labels(job, look_up), config) else Unqueued.NO_QUEUE


def enabled(config: LifecycleConfig) -> bool:
    """Whether the batch/job integration is enabled."""
    return JOB in config.owners.managed


def claimed(job: Json, labels: Mapping[str, str] | None, config: LifecycleConfig) -> bool:
    """Whether a job in a managed namespace with these labels is queued.

    A job with a managed ancestor is not.
    """
    return enabled(config) and (bool(queue_name(job)) or _manages_all(labels, config))


def _manages_all(labels: Mapping[str, str] | None, config: LifecycleConfig) -> bool:
    """Whether jobs without a queue name are managed in a namespace with these labels."""
    if not config.manage_all or config.manage_all_in is None:
        return config.manage_all
    return labels is not None and matches(config.manage_all_in, labels)


def in_scope(job: Json, look_up: Lookup, config: LifecycleConfig) -> bool:
    """Whether the jobs of the job's namespace are managed."""
    return managed_namespace(_namespace_labels(job, look_up), config)


def _namespace_labels(job: Json, look_up: Lookup) -> Mapping[str, str] | None:
    """Return the labels of the job's namespace; None if it does not exist."""
    found = look_up(NAMESPACE, Key("", namespace_of(job)))
    return None if found is None else child(found, "metadata", "labels")


def managed_namespace(labels: Mapping[str, str] | None, config: LifecycleConfig) -> bool:
    """Whether a namespace with these labels is managed. None means that it does not exist."""
    return labels is not None and matches(config.namespaces, labels)


NATIVE = "kubernetes.io/job-controller"
ELASTIC_GATE = "kueue.x-k8s.io/elastic-job"
LOCAL_QUEUE: GroupKind = (GROUP, "LocalQueue")
CLUSTER_QUEUE: GroupKind = (GROUP, "ClusterQueue")
ADMISSION_CHECK: GroupKind = (GROUP, "AdmissionCheck")
WORKLOAD_PRIORITY_CLASS: GroupKind = (GROUP, "WorkloadPriorityClass")
LOOKED_UP = (
    JOB,
    NAMESPACE,
    LOCAL_QUEUE,
    CLUSTER_QUEUE,
    ADMISSION_CHECK,
    WORKLOAD_PRIORITY_CLASS,
)
"""Every kind that these functions look up with a `LifecycleConfig` from a configuration."""


def reviewed(job: Json, old: Json | None, look_up: Lookup, config: LifecycleConfig) -> Json:
    """Return the job as stored after its creation, or its change from `old`.

    Raises Invalid if it has faults, and NestingError if its owners cannot be followed.
    """
    stored = job if old is not None else defaulted(job, look_up, config)
    faults = faults_of(stored, old, look_up, config)
    if faults:
        raise Invalid(faults)
    return stored


def defaulted(job: Json, look_up: Lookup, config: LifecycleConfig) -> Json:
    """Return the new job with the defaults of Kueue's mutating webhook. Raises NestingError."""
    if not enabled(config):
        return job
    job = with_default_labels(job, look_up, config)
    if waits_for_quota(job, look_up, config) and not suspended(job):
        job = _with(job, suspend=True)
    if _dispatched(job, look_up, config):
        job = _with(job, managedBy=MULTIKUEUE)
    return _gated(job) if elastic(job, config.gates) else job


def faults_of(
    job: Json, old: Json | None, look_up: Lookup, config: LifecycleConfig
) -> list[FieldError]:
    """Return what Kueue's validating webhook rejects in a new job, or in a change from `old`."""
    if not enabled(config):
        return []
    default_queue = left_default_queue(job, old, look_up)
    return job_faults(job, old, config.gates, default_queue=default_queue)


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


def waits_for_quota(job: Json, look_up: Lookup, config: LifecycleConfig) -> bool:
    """Whether the new job must not start before it has quota. Raises NestingError.

    A job that is being deleted is ignored, because its owners may already be deleted.
    """
    leaving = child(job, "metadata").get("deletionTimestamp")
    if leaving and config.gates.on(Gate.SkipAncestorCheckForDeletedWorkloads):
        return False
    if ancestor(job, config.owners, look_up, manage_all=config.manage_all) is not None:
        return False
    if queue_name(job):
        return True
    if not config.manage_all:
        return False
    labels = _namespace_labels(job, look_up)
    return managed_namespace(labels, config) and _manages_all(labels, config)


def _default_queue(job: Json, look_up: Lookup) -> bool:
    return look_up(LOCAL_QUEUE, Key(namespace_of(job), DEFAULT_QUEUE)) is not None


def _default_class(look_up: Lookup, config: LifecycleConfig) -> bool:
    if not config.gates.on(Gate.WorkloadPriorityClassDefaulting):
        return False
    return look_up(WORKLOAD_PRIORITY_CLASS, Key("", DEFAULT_CLASS)) is not None


def _dispatched(job: Json, look_up: Lookup, config: LifecycleConfig) -> bool:
    """Whether the job's queue dispatches to other clusters and no other controller runs it."""
    name, native = queue_name(job), child(job, "spec").get("managedBy") in (None, "", NATIVE)
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


def _with(job: Json, **fields: object) -> Json:
    return job | {"spec": child(job, "spec") | fields}


def _gated(job: Json) -> Json:
    """Gate the pods of an elastic job until its slices are admitted."""
    template = child(job, "spec", "template")
    spec = child(template, "spec")
    gates = elements(spec.get("schedulingGates"))
    if any(mapping(each).get("name") == ELASTIC_GATE for each in gates):
        return job
    added = spec | {"schedulingGates": [*gates, {"name": ELASTIC_GATE}]}
    return _with(job, template=template | {"spec": added})
