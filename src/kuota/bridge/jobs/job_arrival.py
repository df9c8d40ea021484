# SPDX-License-Identifier: Apache-2.0
"""What a batch/v1 Job is given when it is created: a queue, a priority class, and patience."""

from __future__ import annotations

from collections.abc import Mapping

from kuota.api.base import Json
from kuota.api.gates import Gate
from kuota.api.match import matches
from kuota.api.priority import DEFAULT_CLASS
from kuota.api.rules.job_common import PRIORITY_CLASS, QUEUE_NAME, queue_name, suspended
from kuota.api.rules.metadata import elastic, label
from kuota.api.rules.report import child, elements, mapping
from kuota.engine.activity import MULTIKUEUE
from kuota.engine.model import Struct

from ..lifecycle_view import Rules
from .ancestor import Lookup, OwnerMissing, ancestor
from .batch_job import DEFAULT_QUEUE

NATIVE = "kubernetes.io/job-controller"
ELASTIC_GATE = "kueue.x-k8s.io/elastic-job"


class Arrival(Struct):
    """What a new job finds.

    `default_queue` and `default_class` say whether there is a LocalQueue, or a
    WorkloadPriorityClass, called default; `owned` that a managed kind controls the job, `nested`
    that a managed job is above it; `sent_away` that its queue sends jobs to other clusters.
    """

    namespace: Mapping[str, str] | None = None
    default_queue: bool = False
    default_class: bool = False
    owned: bool = False
    nested: bool = False
    sent_away: bool = False
    rules: Rules = Rules()


def arrived(job: Json, found: Arrival) -> Json:
    """The job as Kueue's webhook would have it stored."""
    gates = found.rules.gates
    if found.default_queue and not queue_name(job) and not found.owned and _managed(found):
        job = _labelled(job, QUEUE_NAME, DEFAULT_QUEUE)
    defaulting = gates.on(Gate.WorkloadPriorityClassDefaulting) and found.default_class
    if defaulting and not label(job, PRIORITY_CLASS) and not found.owned:
        job = _labelled(job, PRIORITY_CLASS, DEFAULT_CLASS)
    if held_back(job, found) and not suspended(job):
        job = _with(job, suspend=True)
    native = child(job, "spec").get("managedBy") in (None, "", NATIVE)
    if gates.on(Gate.MultiKueue) and found.sent_away and native:
        job = _with(job, managedBy=MULTIKUEUE)
    return _gated(job) if elastic(job, gates) else job


def nested(job: Json, rules: Rules, look_up: Lookup, *, lenient: bool = False) -> bool:
    """Whether a managed job is above this one. Raises Nesting.

    `lenient` does not ask for the owners of a job on its way out, who may be gone before it.
    """
    leaving = bool(child(job, "metadata").get("deletionTimestamp"))
    tolerated = lenient and rules.gates.on(Gate.SkipAncestorCheckForDeletedWorkloads)
    try:
        return ancestor(job, rules.owners, look_up, manage_all=rules.manage_all) is not None
    except OwnerMissing:
        if leaving and tolerated:
            return True
        raise


def held_back(job: Json, found: Arrival) -> bool:
    """Whether the job may not start before it has quota."""
    if found.nested:
        return False
    return bool(queue_name(job)) or (found.rules.manage_all and _managed(found))


def _managed(found: Arrival) -> bool:
    return found.namespace is not None and matches(found.rules.namespaces, found.namespace)


def _labelled(job: Json, key: str, value: str) -> Json:
    meta = child(job, "metadata")
    return job | {"metadata": meta | {"labels": child(meta, "labels") | {key: value}}}


def _with(job: Json, **fields: object) -> Json:
    return job | {"spec": child(job, "spec") | fields}


def _gated(job: Json) -> Json:
    """An elastic job's pods wait at a gate of their own, which opens as its slices are admitted."""
    template = child(job, "spec", "template")
    spec = child(template, "spec")
    gates = elements(spec.get("schedulingGates"))
    if any(mapping(each).get("name") == ELASTIC_GATE for each in gates):
        return job
    added = spec | {"schedulingGates": [*gates, {"name": ELASTIC_GATE}]}
    return _with(job, template=template | {"spec": added})
