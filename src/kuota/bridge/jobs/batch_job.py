# SPDX-License-Identifier: Apache-2.0
"""Converts a batch/v1 Job into its Workload: name, pod sets and priority."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from kuota.api.base import Json, Struct
from kuota.api.core import PriorityClass
from kuota.api.defaults import FINALIZER
from kuota.api.edits import edited
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import GROUP, V1BETA2, WorkloadPriorityClass
from kuota.api.names import label_value
from kuota.api.priority import ClassMissing, pod_priority, workload_priority
from kuota.api.rules.job import MIN_PARALLELISM, pod_count
from kuota.api.rules.job_common import PRIORITY_CLASS, queue_name, time_limit_s
from kuota.api.rules.metadata import (
    ADMISSION_GATED_BY,
    ELASTIC_JOB,
    PREFIX,
    annotation,
    elastic,
    label,
)
from kuota.api.rules.report import child, integer, string_map, text, whole
from kuota.api.workload import PriorityClassRef

from .topology_request import topology_request

LONGEST = 253
LONGEST_SHORT = 63
_HASH = 5


def workload_name(
    kind: str, group: str, owner: str, uid: str, extra: str = "", *, short: bool = False
) -> str:
    """Return the Workload's name: stable for one job, different for another with the same name.

    `extra` distinguishes workloads of one job. `short` is the gate ShortWorkloadNames, which makes
    the name fit into a label.
    """
    parts = [kind, group, owner, uid, *([extra] if extra else [])]
    return _hashed(f"{kind.lower()}-{owner}", parts, short)


def variant_name(parent: str, uid: str, flavor: str, *, short: bool = False) -> str:
    """Return the name of the variant of a workload for one flavor."""
    base = parent.rpartition("-")[0] or parent
    return _hashed(f"{base}-variant-{flavor}", ["Workload", GROUP, parent, uid, flavor], short)


def _hashed(prefix: str, parts: list[str], short: bool) -> str:
    digest = hashlib.sha1("\n".join(parts).encode(), usedforsecurity=False).hexdigest()
    room = (LONGEST_SHORT if short else LONGEST) - _HASH - 1
    return f"{prefix[:room]}-{digest[:_HASH]}"


MAIN = "main"
DEFAULT_QUEUE = "default"
RANKS = {"podIndexLabel": "batch.kubernetes.io/job-completion-index"}
"""The fields of a topology request that define the order of the pods of a Job."""

JOB_UID = f"{PREFIX}job-uid"
SLICE_NAME = f"{PREFIX}workload-slice-name"
_PROVISIONING = "provreq.kueue.x-k8s.io/"
_IDENTITY = frozenset({"controller-uid", "batch.kubernetes.io/controller-uid", "job-name"})

__all__ = ["ClassMissing", "Classes", "pod_sets", "workload"]


class Classes(Struct):
    """The existing priority classes by name."""

    pods: Mapping[str, PriorityClass] = {}
    workloads: Mapping[str, WorkloadPriorityClass] = {}


def workload(job: Json, classes: Classes | None = None, gates: Gates | None = None) -> Json:
    """Return the Workload that Kueue creates for a Job, as v1beta2 JSON.

    Raises ClassMissing if the job names a priority class that does not exist, and
    TopologyRequestError if its topology annotations cannot be parsed. Kueue then creates none.
    """
    gates = gates or Gates()
    ref, priority = _priority(job, classes or Classes())
    spec: Json = {
        "podSets": pod_sets(job, gates),
        "queueName": queue_name(job),
        "priority": priority,
        "priorityClassRef": msgspec.to_builtins(ref) if ref is not None else None,
        "maximumExecutionTimeSeconds": time_limit_s(job),
    }
    return {
        "apiVersion": V1BETA2,
        "kind": "Workload",
        "metadata": _metadata(job, gates),
        "spec": _present(spec),
    }


def pod_sets(job: Json, gates: Gates | None = None) -> list[Json]:
    """Return the only pod set of a Job, with its parallelism. Raises TopologyRequestError."""
    gates = gates or Gates()
    template = child(job, "spec", "template")
    minimum = annotation(job, MIN_PARALLELISM) if gates.on(Gate.PartialAdmission) else None
    topology = gates.on(Gate.TopologyAwareScheduling)
    return [
        _present(
            {
                "name": MAIN,
                "count": pod_count(job),
                "minCount": whole(minimum) if minimum else None,
                "template": _without_identity(template),
                "topologyRequest": topology_request(template, gates, RANKS) if topology else None,
            }
        )
    ]


def _without_identity(template: Json) -> Json:
    """Return the template without the labels that the job controller added."""
    labels = child(template, "metadata").get("labels")
    if not isinstance(labels, dict) or _IDENTITY.isdisjoint(labels):
        return template
    kept = {key: value for key, value in labels.items() if key not in _IDENTITY}
    return template | {"metadata": child(template, "metadata") | {"labels": kept}}


def owned_by(job: Json) -> Json:
    """Return the metadata that links a Workload to the job."""
    meta = child(job, "metadata")
    name, uid = text(meta.get("name")), text(meta.get("uid"))
    owner: Json = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}
    tied: Json = {"ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}]}
    return tied | ({"labels": {JOB_UID: uid}} if uid and not label_value(uid) else {})


def _metadata(job: Json, gates: Gates) -> Json:
    meta = child(job, "metadata")
    name, uid = text(meta.get("name")), text(meta.get("uid"))
    slices = elastic(job, gates)
    extra = str(integer(meta.get("generation")) or 0) if slices else ""
    short = gates.on(Gate.ShortWorkloadNames)
    made = workload_name("Job", "batch", name, uid, extra, short=short)
    notes = _annotations(job, gates) | ({ELASTIC_JOB: "true", SLICE_NAME: made} if slices else {})
    return _present(
        {
            "name": made,
            "namespace": text(meta.get("namespace")) or None,
            "creationTimestamp": meta.get("creationTimestamp"),
            "annotations": notes or None,
            **owned_by(job),
            "finalizers": [FINALIZER],
        }
    )


def _annotations(job: Json, gates: Gates) -> dict[str, str]:
    given = string_map(child(job, "metadata", "annotations"))
    gate = ADMISSION_GATED_BY if gates.on(Gate.AdmissionGatedBy) else None
    return {k: value for k, value in given.items() if k.startswith(_PROVISIONING) or k == gate}


def _priority(job: Json, classes: Classes) -> tuple[PriorityClassRef | None, int]:
    name = label(job, PRIORITY_CLASS) or ""
    if name:
        return workload_priority(name, classes.workloads)
    spec = child(job, "spec", "template", "spec")
    return pod_priority(text(spec.get("priorityClassName")), classes.pods)


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
    last: dict[Any, Json] = {each.get("name"): each for each in listed if isinstance(each, dict)}
    return container if len(last) == len(listed) else container | {"env": list(last.values())}
