# SPDX-License-Identifier: Apache-2.0
"""Validates Workloads as Kueue's webhook does, independently of their previous state.

Rules about the pod sets are here. Those about the status are in `workload_status`, and those that
compare with the stored object are in `workload_update`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..base import Json
from ..faults import FieldError, forbidden, invalid, required
from ..gates import Gate, Gates
from .metadata import (
    PREFIX,
    annotation,
    annotation_faults,
    annotation_path,
    elastic,
    gated_by_faults,
    label_faults,
)
from .report import child, elements, integer, mapping, nano, objects, whole
from .workload_status import status_faults
from .workload_update import update_faults

PRIORITY_BOOST = f"{PREFIX}priority-boost"
_RESERVED = "pods"


def workload_faults(obj: Json, old: Json | None, gates: Gates) -> Iterator[FieldError]:
    pod_sets = elements(child(obj, "spec").get("podSets"))
    # Unchanged pod sets were checked when they were stored. Most updates change only the status.
    unchanged = old is not None and child(obj, "spec") is child(old, "spec")
    for path, each in objects(() if unchanged else pod_sets, "spec.podSets"):
        yield from _template_faults(child(each, "template"), f"{path}.template", gates)
        if gates.on(Gate.TASValidateWorkloadSliceSize):
            yield from _slice_faults(child(each, "topologyRequest"), f"{path}.topologyRequest")
    yield from _partial_faults(obj, pod_sets, gates)
    yield from status_faults(obj, old, gates)
    yield from gated_by_faults(obj, gates)
    yield from _boost_faults(obj, gates)
    if old is not None:
        yield from update_faults(obj, old, gates)


def _template_faults(template: Json, path: str, gates: Gates) -> Iterator[FieldError]:
    if gates.on(Gate.WorkloadValidationForPodSetMetadata):
        metadata = child(template, "metadata")
        yield from label_faults(metadata.get("labels"), f"{path}.metadata.labels")
        yield from annotation_faults(metadata.get("annotations"), f"{path}.metadata.annotations")
    yield from _resource_faults(child(template, "spec"), f"{path}.spec", gates)
    for field in ("initContainers", "containers"):
        for at, container in objects(child(template, "spec").get(field), f"{path}.spec.{field}"):
            yield from _resource_faults(container, at, gates)


def _resource_faults(owner: Json, path: str, gates: Gates) -> Iterator[FieldError]:
    """Yield the faults of the `resources` of a container or of the whole pod."""
    for field in ("requests", "limits"):
        for name, quantity in child(owner, "resources", field).items():
            at = f"{path}.resources.{field}[{name}]"
            if name == _RESERVED:
                fix = "remove it: pods are counted from the pod set's count"
                yield invalid(at, name, "the resource name pods is reserved by Kueue", fix)
            amount = nano(quantity)
            if gates.on(Gate.WorkloadValidateResourcesAreNonNegative) and (amount or 0) < 0:
                yield invalid(at, quantity, f"must be 0 or more, is {quantity}")


def _slice_faults(request: Json, path: str) -> Iterator[FieldError]:
    level, size = request.get("podSetSliceRequiredTopology"), request.get("podSetSliceSize")
    at = f"{path}.podSetSliceSize"
    if level is not None and size is None:
        yield required(at, "podSetSliceRequiredTopology needs a slice size", "set podSetSliceSize")
    if size is not None and level is None:
        fix = "set podSetSliceRequiredTopology, or remove podSetSliceSize"
        yield forbidden(at, "a slice size needs a level that holds the slice", fix)
    elif size is not None and (integer(size) or 0) <= 0:
        yield invalid(at, size, f"must be 1 or more, is {size}")
    field = "podsetSliceRequiredTopologyConstraints"
    for at, each in objects(request.get(field), f"{path}.{field}"):
        layer = integer(each.get("size")) or 0
        if layer <= 0:
            yield invalid(f"{at}.size", layer, f"must be 1 or more, is {layer}")


def _partial_faults(obj: Json, pod_sets: list[object], gates: Gates) -> Iterator[FieldError]:
    count = sum(mapping(each).get("minCount") is not None for each in pod_sets)
    if count > 1:
        fix = "keep minCount on one of them"
        yield invalid(
            "spec.podSets", count, f"{count} pod sets have minCount, at most one is allowed", fix
        )
    if count and elastic(obj, gates):
        message = "minCount (partial admission) cannot be combined with an elastic workload"
        yield invalid("spec.podSets", count, message, "remove minCount")


def _boost_faults(obj: Json, gates: Gates) -> Iterator[FieldError]:
    boost = annotation(obj, PRIORITY_BOOST)
    if boost is None or not gates.on(Gate.PriorityBoost):
        return
    value = whole(boost)
    if value is None or not -(2**31) <= value < 2**31:
        fix = 'use a number such as "10" or "-5"; "0" is no boost'
        yield invalid(annotation_path(PRIORITY_BOOST), boost, "must be a whole number", fix)
