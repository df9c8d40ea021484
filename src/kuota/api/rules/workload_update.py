# SPDX-License-Identifier: Apache-2.0
"""Validates updates of Workloads. Most fields are immutable while quota is reserved."""

from __future__ import annotations

from collections.abc import Iterator

from ..base import Json
from ..faults import FieldError, immutable, invalid, quoted, required
from ..gates import Gate, Gates
from .metadata import PREFIX, annotation, elastic, gated_by_update_faults
from .report import child, elements, integer, mapping, objects, same, text
from .workload_status import pod_set_counts, reclaimable_counts, reserved

REPLACEMENT_FOR = f"{PREFIX}workload-slice-replacement-for"
_REDO = "deactivate the workload (spec.active: false) first, or create a new one"
# The scheduler sets these fields after admission, so only they may change.
_ASSIGNED_LATER = frozenset({"topologyAssignment", "delayedTopologyRequest"})


def update_faults(obj: Json, old: Json, gates: Gates) -> Iterator[FieldError]:
    if reserved(old):
        yield from _pod_set_faults(obj, old, gates)
    if reserved(old) and reserved(obj):
        yield from _reclaimable_faults(obj, old, gates)
    yield from _admission_faults(child(obj, "status"), child(old, "status"), gates)
    yield from _check_faults(child(obj, "status"), child(old, "status"))
    yield from _cluster_faults(obj, old, gates)
    yield from gated_by_update_faults(obj, old, gates)


def _pod_set_faults(obj: Json, old: Json, gates: Gates) -> Iterator[FieldError]:
    if child(obj, "spec") is child(old, "spec"):
        return
    before = [mapping(each) for each in elements(child(old, "spec").get("podSets"))]
    after = [mapping(each) for each in elements(child(obj, "spec").get("podSets"))]
    why = "while quota is reserved"
    if len(before) != len(after):
        yield immutable("spec.podSets", None, why, _REDO)
        return
    for index, (one, other) in enumerate(zip(before, after, strict=True)):
        if not _same_pod_set(one, other, gates):
            # Kueue reports this index after a dot, not in brackets.
            yield immutable(f"spec.podSets.{index}", other, why, _REDO)


def _same_pod_set(before: Json, after: Json, gates: Gates) -> bool:
    shrinks = (integer(after.get("count")) or 0) < (integer(before.get("count")) or 0)
    if shrinks and gates.on(Gate.ElasticJobsViaWorkloadSlices):
        return same(before | {"count": None}, after | {"count": None})
    return same(before, after)


def _reclaimable_faults(obj: Json, old: Json, gates: Gates) -> Iterator[FieldError]:
    after = reclaimable_counts(obj)
    for name, before in reclaimable_counts(old).items():
        path = f"status.reclaimablePods[{name}]"
        if _scaled_down(obj, name, gates):
            continue
        if name not in after:
            message = "cannot be removed while quota is reserved"
            yield required(path, message, f"keep it with a count of {before} or more")
        elif after[name] < before:
            message = f"cannot decrease from {before} to {after[name]} while quota is reserved"
            yield invalid(f"{path}.count", after[name], message)


def _scaled_down(obj: Json, name: str, gates: Gates) -> bool:
    """Whether an elastic workload requests fewer pods than it was admitted with."""
    if not elastic(obj, gates):
        return False
    assignments = elements(child(obj, "status", "admission").get("podSetAssignments"))
    admitted = {
        text(mapping(each).get("name")): integer(mapping(each).get("count")) or 0
        for each in assignments
    }
    return pod_set_counts(obj).get(name, 0) < admitted.get(name, 0)


def _admission_faults(status: Json, old: Json, gates: Gates) -> Iterator[FieldError]:
    before, after = old.get("admission"), status.get("admission")
    if before is None or after is None:
        return
    if gates.on(Gate.TopologyAwareScheduling):
        unchanged = same(_settled(mapping(before)), _settled(mapping(after)))
    else:
        unchanged = same(before, after)
    if not unchanged:
        fix = "evict the workload first: an admission is taken back, never rewritten"
        yield immutable("status.admission", after, "once it is set", fix)


def _settled(admission: Json) -> Json:
    """Return the admission without the fields that are set later."""
    assignments = elements(admission.get("podSetAssignments"))
    kept = [
        {key: value for key, value in mapping(each).items() if key not in _ASSIGNED_LATER}
        for each in assignments
    ]
    return admission | {"podSetAssignments": kept}


def _check_faults(status: Json, old: Json) -> Iterator[FieldError]:
    after = {
        text(each.get("name")): each
        for each in map(mapping, elements(status.get("admissionChecks")))
    }
    for path, before in objects(old.get("admissionChecks"), "status.admissionChecks"):
        now = after.get(text(before.get("name")), {})
        if before.get("state") != "Ready" or now.get("state") != "Ready":
            continue
        if not same(before.get("podSetUpdates"), now.get("podSetUpdates")):
            fix = "the check must leave Ready before it asks for other changes"
            updates = now.get("podSetUpdates")
            yield immutable(f"{path}.podSetUpdates", updates, "while the check is Ready", fix)


def _cluster_faults(obj: Json, old: Json, gates: Gates) -> Iterator[FieldError]:
    name = child(obj, "status").get("clusterName")
    if not name or child(old, "status").get("clusterName") or _replaces_slice(obj, gates):
        return
    nominated = elements(child(old, "status").get("nominatedClusterNames"))
    if name not in nominated:
        message = f"{quoted(name)} was not among the nominated clusters"
        fix = f"use one of: {', '.join(map(str, nominated)) or '(none was nominated)'}"
        yield invalid("status.clusterName", name, message, fix)


def _replaces_slice(obj: Json, gates: Gates) -> bool:
    on = gates.on(Gate.ElasticJobsViaWorkloadSlices)
    return on and annotation(obj, REPLACEMENT_FOR) is not None
