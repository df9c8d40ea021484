# SPDX-License-Identifier: Apache-2.0
"""What is injected into a batch/v1 Job when it starts, and how it is removed when it stops.

Only the fields that an admission affects are written; the rest of the template is the user's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kuota.api.base import Json
from kuota.api.core import PodTemplateSpec
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import ResourceFlavor
from kuota.api.names import dns_label
from kuota.api.podset import (
    WORKLOAD_ANNOTATION,
    Injection,
    MergeConflict,
    injection,
    joined,
    labelled,
    merged,
    restored,
)
from kuota.api.rules.job import EQUAL_COMPLETIONS, MIN_PARALLELISM
from kuota.api.rules.job_common import STOPPING
from kuota.api.rules.metadata import ELASTIC_JOB, PREFIX, annotation
from kuota.api.rules.report import child, elements, integer, mapping, truth
from kuota.api.workload import PodSet, Workload

POD_SET_LABEL = f"{PREFIX}podset"
LOCAL_QUEUE_LABEL = f"{PREFIX}local-queue-name"
CLUSTER_QUEUE_LABEL = f"{PREFIX}cluster-queue-name"
MULTI_KUEUE_ORIGIN = f"{PREFIX}multikueue-origin"
MULTI_KUEUE_POD = f"{PREFIX}multikueue-worker-workload-pod"
_KEPT = (
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
    "job-name",
    "batch.kubernetes.io/job-name",
)


def injections(
    obj: Workload, flavors: Mapping[str, ResourceFlavor], gates: Gates
) -> list[Injection]:
    """Return what is injected into each pod set: flavors, labels, and updates by admission checks.

    Raises FlavorMissing, and MergeConflict if two checks disagree.
    """
    admission = obj.status.admission
    topology = gates.on(Gate.TopologyAwareScheduling)
    found = []
    assigned = (admission.pod_set_assignments if admission is not None else None) or ()
    for at, each in enumerate(assigned):
        added = injection(each, _pod_set(obj, each.name, at), flavors, topology=topology)
        if topology:
            named = {**(added.annotations or {}), WORKLOAD_ANNOTATION: obj.metadata.name}
            added = msgspec.structs.replace(added, annotations=named)
        found.append(_updated(_labelled(added, obj, gates), obj))
    return found


def _pod_set(obj: Workload, name: str, at: int) -> PodSet:
    """Return the pod set of an assignment: by name or, if no pod set has that name, by position.

    Raises MergeConflict if there is neither.
    """
    sets = obj.spec.pod_sets or []
    named = next((each for each in sets if each.name == name), None)
    if named is None and at >= len(sets):
        raise MergeConflict(f"the admission names the pod set {name!r}, which does not exist")
    return named or sets[at]


def _labelled(added: Injection, obj: Workload, gates: Gates) -> Injection:
    added = labelled(added, POD_SET_LABEL, added.name)
    if MULTI_KUEUE_ORIGIN in (obj.metadata.labels or {}):
        added = labelled(added, MULTI_KUEUE_POD, "true")
    if not gates.on(Gate.AssignQueueLabelsForPods):
        return added
    if obj.spec.queue_name:
        added = labelled(added, LOCAL_QUEUE_LABEL, obj.spec.queue_name)
    queue = obj.status.admission.cluster_queue if obj.status.admission is not None else ""
    if queue and not dns_label(queue):
        added = labelled(added, CLUSTER_QUEUE_LABEL, queue)
    return added


def _updated(added: Injection, obj: Workload) -> Injection:
    for check in obj.status.admission_checks or ():
        for update in check.pod_set_updates or ():
            if update.name == added.name:
                added = joined(added, update)
                break
    return added


def started(job: Json, given: Sequence[Injection], gates: Gates) -> Json:
    """Return the Job with its injection, unsuspended. Raises MergeConflict."""
    if len(given) != 1:
        raise MergeConflict(f"a Job has 1 pod set, the admission has {len(given)}")
    added = given[0]
    elastic = gates.on(Gate.ElasticJobsViaWorkloadSlices)
    template = merged(_template(job), added, elastic=elastic)
    spec = child(job, "spec") | {"suspend": False, "template": _ungated(_written(job, template))}
    return job | {"spec": spec | _sized(job, added.count)}


def _ungated(template: Json) -> Json:
    """Return the template without the scheduling gate of elastic jobs."""
    spec = child(template, "spec")
    gates = elements(spec.get("schedulingGates"))
    left = [each for each in gates if mapping(each).get("name") != ELASTIC_JOB]
    if len(left) == len(gates):
        return template
    rest = {name: value for name, value in spec.items() if name != "schedulingGates"}
    return template | {"spec": rest | ({"schedulingGates": left} if left else {})}


def stopping(job: Json) -> Json:
    """Return the job for the first step of a stop: suspended, and marked as not restored."""
    meta = child(job, "metadata")
    annotations = child(meta, "annotations") | {STOPPING: "true"}
    spec = child(job, "spec") | {"suspend": True}
    return job | {"metadata": meta | {"annotations": annotations}, "spec": spec}


def as_before(job: Json, pod_sets: Sequence[Json] | None) -> Json:
    """Return the job for the last step of a stop: restored, and without the mark.

    Without exactly one pod set, the template stays as it is.
    """
    if pod_sets is not None and len(pod_sets) == 1:
        job = _restored(job, pod_sets[0])
    meta = child(job, "metadata")
    annotations = dict(child(meta, "annotations"))
    if annotations.pop(STOPPING, None) is None:
        return job
    return job | {"metadata": meta | {"annotations": annotations}}


def _restored(job: Json, pod_set: Json) -> Json:
    template = _template(job)
    original = msgspec.convert(child(pod_set, "template"), PodTemplateSpec)
    own = {k: v for k, v in (template.metadata.labels or {}).items() if k in _KEPT}
    labels = {**(original.metadata.labels or {}), **own}
    meta = msgspec.structs.replace(original.metadata, labels=labels)
    original = msgspec.structs.replace(original, metadata=meta)
    spec = child(job, "spec") | {"template": _written(job, restored(template, original))}
    return job | {"spec": spec | _sized(job, integer(pod_set.get("count")))}


def _sized(job: Json, count: int | None) -> Json:
    """Return the size of a Job with partial admission; empty for any other."""
    if annotation(job, MIN_PARALLELISM) is None or count is None:
        return {}
    equal = truth(annotation(job, EQUAL_COMPLETIONS) or "")
    return {"parallelism": count} | ({"completions": count} if equal else {})


def _template(job: Json) -> PodTemplateSpec:
    return msgspec.convert(child(job, "spec", "template"), PodTemplateSpec)


def _written(job: Json, new: PodTemplateSpec) -> Json:
    """Return the job's template with the fields of `new` that an admission may change."""
    template = child(job, "spec", "template")
    meta, spec = dict(child(template, "metadata")), dict(child(template, "spec"))
    _put(meta, "labels", new.metadata.labels)
    _put(meta, "annotations", new.metadata.annotations)
    _put(spec, "nodeSelector", new.spec.node_selector)
    _put(spec, "tolerations", msgspec.to_builtins(new.spec.tolerations))
    _put(spec, "schedulingGates", new.spec.scheduling_gates)
    return template | {"metadata": meta, "spec": spec}


def _put(into: Json, field: str, value: object) -> None:
    """Set a field. An empty value is omitted unless it was present before."""
    if value or (value is not None and field in into and not into[field]):
        into[field] = value
    elif into.get(field):
        del into[field]
