# SPDX-License-Identifier: Apache-2.0
"""What an admission injects into the pods of each pod set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from kuota.api.gates import Gate, Gates
from kuota.api.kueue import ResourceFlavor
from kuota.api.names import dns_label
from kuota.api.podset import (
    SLICE_ANNOTATION,
    WORKLOAD_ANNOTATION,
    Injection,
    MergeConflict,
    injection,
    joined,
    labelled,
)
from kuota.api.rules.metadata import ELASTIC_JOB, PREFIX
from kuota.api.workload import PodSet, Workload

POD_SET_LABEL = f"{PREFIX}podset"
LOCAL_QUEUE_LABEL = f"{PREFIX}local-queue-name"
CLUSTER_QUEUE_LABEL = f"{PREFIX}cluster-queue-name"
MULTI_KUEUE_ORIGIN = f"{PREFIX}multikueue-origin"
Labels = Mapping[str, str]

MULTI_KUEUE_POD = f"{PREFIX}multikueue-worker-workload-pod"


def injections(
    obj: Workload, flavors: Mapping[str, ResourceFlavor], gates: Gates
) -> list[Injection]:
    """Return what is injected into each pod set: flavors, labels, and updates by admission checks.

    Raises FlavorMissing, and MergeConflict if two checks disagree.
    """
    topology = gates.on(Gate.TopologyAwareScheduling)
    found = []
    for at, each in enumerate(obj.assignments):
        added = injection(each, _pod_set(obj, each.name, at), flavors, topology=topology)
        named = _names(obj, gates)
        if named:
            annotations = {**(added.annotations or {}), **named}
            added = msgspec.structs.replace(added, annotations=annotations)
        found.append(_updated(_labelled(added, obj, gates), obj))
    return found


def _names(obj: Workload, gates: Gates) -> dict[str, str]:
    """Return the annotations that name the Workload and its chain of slices."""
    meta, found = obj.metadata, {}
    if gates.on(Gate.TopologyAwareScheduling):
        found[WORKLOAD_ANNOTATION] = meta.name
    if gates.on(Gate.ElasticJobsViaWorkloadSlices) and meta.annotation(ELASTIC_JOB) == "true":
        found[SLICE_ANNOTATION] = meta.annotation(SLICE_ANNOTATION) or meta.name
    return found


def attributed(given: Iterable[Injection], obj: Workload, labels: Labels) -> list[Injection]:
    """Return the injections with labels that attribute the costs of pods.

    A label that the pod template has already is not changed.
    """
    sets = {each.name: each.template.metadata.labels or {} for each in obj.spec.pod_sets or ()}
    found = []
    for each in given:
        taken = {**sets.get(each.name, {}), **(each.labels or {})}
        missing = {key: value for key, value in labels.items() if key not in taken}
        found.append(msgspec.structs.replace(each, labels={**(each.labels or {}), **missing}))
    return found


def cost_labels(keys: Iterable[str], job: Labels, local_queue: Labels) -> dict[str, str]:
    """Return the labels with these keys: those of the job, and else of its LocalQueue."""
    known = {**local_queue, **job}
    return {key: known[key] for key in keys if key in known}


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
