# SPDX-License-Identifier: Apache-2.0
"""Converts a job into its Workload: name, pod sets and priority."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import count
from typing import Any

import msgspec

from kuota.api.base import Json, Struct
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.api.core import AUTHOR, PriorityClass
from kuota.api.defaults import FINALIZER
from kuota.api.edits import edited
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import V1BETA2, WorkloadPriorityClass
from kuota.api.names import label_value
from kuota.api.priority import WORKLOAD_CLASS, pod_priority, workload_priority
from kuota.api.rules.job_common import PRIORITY_CLASS, queue_name, time_limit_s
from kuota.api.rules.metadata import (
    ADMISSION_GATED_BY,
    ELASTIC_JOB,
    PREFIX,
    elastic,
    label,
)
from kuota.api.rules.report import child, string_map, text
from kuota.api.workload import PriorityClassRef

from ..draft import StoredWorkload
from ..jobs.composable import ComposableJob
from ..jobs.kind import ElasticJob, JobKind
from .names import workload_name

JOB_UID = f"{PREFIX}job-uid"
SLICE_NAME = f"{PREFIX}workload-slice-name"
_PROVISIONING = "provreq.kueue.x-k8s.io/"


class PriorityClasses(Struct):
    """The existing priority classes by name."""

    pods: Mapping[str, PriorityClass] = {}
    workloads: Mapping[str, WorkloadPriorityClass] = {}


def workload(
    kind: JobKind,
    job: Json,
    classes: PriorityClasses | None = None,
    gates: Gates | None = None,
    taken: Collection[str] = (),
) -> Json:
    """Return the Workload that Kueue creates for a job, as v1beta2 JSON.

    That of an elastic job is the first slice of a chain; its name is none of those that are
    `taken`. Raises ClassMissing if the job names a priority class that does not exist, and
    TopologyRequestError if its topology annotations cannot be parsed. Kueue then creates none.
    """
    gates = gates or Gates()
    ref, priority = priority_of(kind, job, classes or PriorityClasses())
    spec: Json = {
        "podSets": kind.pod_sets(job, gates),
        "queueName": queue_name(job),
        "priority": priority,
        "priorityClassRef": msgspec.to_builtins(ref) if ref is not None else None,
        "maximumExecutionTimeSeconds": time_limit_s(job),
    }
    return {
        "apiVersion": V1BETA2,
        "kind": "Workload",
        "metadata": _metadata(kind, job, gates, taken),
        "spec": _present(spec),
    }


def owned_by(kind: JobKind, job: Json) -> Json:
    """Return the metadata that links a Workload to the job."""
    meta = child(job, "metadata")
    name, uid = text(meta.get("name")), text(meta.get("uid"))
    owner: Json = {
        "apiVersion": kind.api_version,
        "kind": kind.gvk.kind,
        "name": name,
        "uid": uid,
    }
    tied: Json = {"ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}]}
    return tied | ({"labels": {JOB_UID: uid}} if uid and not label_value(uid) else {})


def _metadata(kind: JobKind, job: Json, gates: Gates, taken: Collection[str]) -> Json:
    meta = child(job, "metadata")
    sliced = isinstance(kind, ElasticJob) and elastic(job, gates)
    made = name_of(kind, job, gates, taken)
    slice_notes = {ELASTIC_JOB: "true", SLICE_NAME: made} if sliced else {}
    notes = _annotations(kind, job, gates) | slice_notes
    own = {"name": made, "annotations": {}, **owned_by(kind, job)}
    if isinstance(kind, ComposableJob):
        own = kind.workload_metadata(job)
    return _present(
        {
            "namespace": text(meta.get("namespace")) or None,
            "creationTimestamp": meta.get("creationTimestamp"),
            **own,
            "annotations": notes | own["annotations"] or None,
            "finalizers": [FINALIZER],
        }
    )


def name_of(kind: JobKind, job: Json, gates: Gates, taken: Collection[str] = ()) -> str:
    """Return the name of the next Workload of a job, which does not depend on its pods.

    That of an elastic job is none of those that are `taken`.
    """
    meta = child(job, "metadata")
    if not (isinstance(kind, ElasticJob) and elastic(job, gates)):
        return _name(kind, meta, "", gates)
    suffixes = _slice_suffixes(kind.slice_suffix(job))
    names = (_name(kind, meta, suffix, gates) for suffix in suffixes)
    return next(each for each in names if each not in taken)


def _name(kind: JobKind, meta: Json, suffix: str, gates: Gates) -> str:
    name, uid = text(meta.get("name")), text(meta.get("uid"))
    short = gates.on(Gate.ShortWorkloadNames)
    return workload_name(kind.gvk.kind, kind.gvk.group, name, uid, suffix, short=short)


def _slice_suffixes(first: str) -> Iterator[str]:
    """Yield what distinguishes slices of one size of a job."""
    yield first
    for number in count(1):
        yield f"{first}.{number}"


_REVIEWED = frozenset((each.group, each.kind) for each in FRAMEWORKS.values())
"""Kinds whose new objects are reviewed, so that users cannot choose the author."""


def _annotations(kind: JobKind, job: Json, gates: Gates) -> dict[str, str]:
    given = string_map(child(job, "metadata", "annotations"))
    copied = [ADMISSION_GATED_BY] if gates.on(Gate.AdmissionGatedBy) else []
    if kind.objects in _REVIEWED:
        copied.append(AUTHOR)
    return {k: value for k, value in given.items() if k.startswith(_PROVISIONING) or k in copied}


def priority_of(
    kind: JobKind, job: Json, classes: PriorityClasses
) -> tuple[PriorityClassRef | None, int]:
    """Return the class and the priority of a job. Raises ClassMissing."""
    name = label(job, PRIORITY_CLASS) or ""
    if name:
        return workload_priority(name, classes.workloads)
    return pod_priority(kind.pod_priority_class(job), classes.pods)


def outdated_priorities(
    kind: JobKind, job: Json, classes: PriorityClasses, workloads: Iterable[StoredWorkload]
) -> list[tuple[StoredWorkload, Json]]:
    """Return the Workloads of a job whose priority has to change, and what changes in their spec.

    The class is looked up only if a Workload has another one than the job. Then all Workloads get
    its value, those that have the class already first, so that an interrupted change is repeated.
    Raises ClassMissing.
    """
    name = label(job, PRIORITY_CLASS) or ""
    following = [each for each in workloads if _follows_label(each)]
    if all(_class_of(each) == name for each in following):
        return []
    ref, value = priority_of(kind, job, classes)
    spec = {
        "priority": value,
        "priorityClassRef": msgspec.to_builtins(ref) if ref is not None else None,
    }
    return [
        (each, spec)
        for each in sorted(following, key=lambda each: _class_of(each) != name)
        if (each.obj.spec.priority_class_ref, each.obj.spec.priority) != (ref, value)
    ]


def _follows_label(stored: StoredWorkload) -> bool:
    """Whether the priority follows the label of the job.

    It does not if it comes from a PriorityClass. A Workload with quota cannot get a class.
    """
    ref = stored.obj.spec.priority_class_ref
    return ref.kind == WORKLOAD_CLASS if ref is not None else not stored.reserved


def _class_of(stored: StoredWorkload) -> str:
    ref = stored.obj.spec.priority_class_ref
    return ref.name if ref is not None else ""


def _present(fields: dict[str, Any]) -> Json:
    return {field: value for field, value in fields.items() if value is not None}


def sanitized(pod_sets: Iterable[Json]) -> list[Json]:
    """Return the pod sets with unique environment variables; the last value counts."""
    return [_clean(each) for each in pod_sets]


def _clean(pod_set: Json) -> Json:
    for field in ("containers", "initContainers"):
        pod_set = edited(pod_set, f"template.spec.{field}[]", _once)
    return pod_set


def _once(container: Json) -> Json:
    listed = container.get("env")
    if not isinstance(listed, list):
        return container
    last: dict[str, Json] = {
        text(each.get("name")): each for each in listed if isinstance(each, dict)
    }
    return container if len(last) == len(listed) else container | {"env": list(last.values())}
