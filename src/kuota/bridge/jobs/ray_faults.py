# SPDX-License-Identifier: Apache-2.0
"""The rules of Kueue's webhooks about the clusters of managed Ray jobs."""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api.base import Json
from kuota.api.faults import FieldError, forbidden, invalid, too_many
from kuota.api.gates import Gates
from kuota.api.kueue import MULTIKUEUE
from kuota.api.rules.metadata import ELASTIC_JOB, elastic
from kuota.api.rules.report import child

from .ray_spec import HEAD, group_name, has_gate, worker_groups

MAX_POD_SETS = 18


def cluster_faults(spec: Json, job: Json, path: str, gates: Gates) -> Iterator[FieldError]:
    """Yield the faults of the cluster of a managed job. `path` is where the job describes it."""
    if spec.get("enableInTreeAutoscaling") is True and not elastic(job, gates):
        message = "a queued job can be autoscaled only if it is elastic"
        fix = f'set the annotation {ELASTIC_JOB}: "true" when you create the job'
        yield invalid(f"{path}.enableInTreeAutoscaling", True, message, fix)
    groups = worker_groups(spec)
    if len(groups) + 1 > MAX_POD_SETS:
        message = f"has {len(groups)} groups; with the head, {MAX_POD_SETS} pod sets are allowed"
        yield too_many(f"{path}.workerGroupSpecs", len(groups) + 1, message)
    for index, group in enumerate(groups):
        if group_name(group) == HEAD:
            message = f'"{HEAD}" is the name of the pod set of the head'
            at_name = f"{path}.workerGroupSpecs[{index}].groupName"
            yield forbidden(at_name, message, "choose another name")


def elastic_cluster_faults(job: Json, gates: Gates) -> Iterator[FieldError]:
    """Yield the faults of an elastic RayCluster."""
    if not elastic(job, gates):
        return
    spec = child(job, "spec")
    pods = [
        (f"spec.workerGroupSpecs[{index}]", group)
        for index, group in enumerate(worker_groups(spec))
    ]
    for path, group in [*pods, ("spec.headGroupSpec", child(spec, "headGroupSpec"))]:
        if not has_gate(group.get("template")):
            gates_given = child(group, "template", "spec").get("schedulingGates")
            at_gates = f"{path}.template.spec.schedulingGates"
            message = f"the pods of an elastic job need the gate {ELASTIC_JOB}"
            yield invalid(at_gates, gates_given, message, "leave the gate in place")
    scaled = spec.get("enableInTreeAutoscaling") is True
    if scaled and spec.get("managedBy") == MULTIKUEUE:
        message = "MultiKueue does not dispatch clusters that are autoscaled"
        yield forbidden("spec.enableInTreeAutoscaling", message, "set it to false")
