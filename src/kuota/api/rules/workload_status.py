# SPDX-License-Identifier: Apache-2.0
"""Validates the status of a Workload: admission, admission checks, reclaimable pods."""

from __future__ import annotations

from collections.abc import Iterator

from ..base import Json
from ..faults import FieldError, invalid, not_found, not_supported, quoted, required
from ..gates import Gates
from ..quantity import QuantityError, units
from .metadata import (
    annotation_faults,
    condition_faults,
    elastic,
    label_faults,
    toleration_faults,
)
from .report import child, elements, integer, mapping, objects, text


def reserved(obj: Json | None) -> bool:
    """Whether the workload has reserved quota, according to its QuotaReserved condition."""
    return condition_true(obj, "QuotaReserved")


def condition_true(obj: Json | None, kind: str) -> bool:
    conditions = map(mapping, elements(child(obj, "status").get("conditions")))
    return any(each.get("type") == kind and each.get("status") == "True" for each in conditions)


def pod_set_counts(obj: Json) -> dict[str, int]:
    """Return the number of pods of each pod set, by name."""
    pod_sets = map(mapping, elements(child(obj, "spec").get("podSets")))
    return {text(each.get("name")): integer(each.get("count")) or 0 for each in pod_sets}


def reclaimable_counts(obj: Json | None) -> dict[str, int]:
    entries = map(mapping, elements(child(obj, "status").get("reclaimablePods")))
    return {text(each.get("name")): integer(each.get("count")) or 0 for each in entries}


def pod_set_updates(status: Json) -> Iterator[tuple[str, Json]]:
    """Yield the path of each pod set update that admission checks request, and the update."""
    for path, check in objects(status.get("admissionChecks"), "status.admissionChecks"):
        yield from objects(check.get("podSetUpdates"), f"{path}.podSetUpdates")


def status_faults(obj: Json, old: Json | None, gates: Gates) -> Iterator[FieldError]:
    status, counts = child(obj, "status"), pod_set_counts(obj)
    if _lacks_admission(obj) and not (old is not None and _lacks_admission(old)):
        fix = "set status.admission together with the condition"
        yield required("status.admission", "must be set while QuotaReserved is True", fix)
    if reserved(obj):
        yield from _assignment_faults(child(status, "admission"), counts)
    yield from condition_faults(status.get("conditions"), "status.conditions")
    yield from _reclaimable_faults(obj, old, counts, gates)
    for path, update in pod_set_updates(status):
        yield from _pod_set_update_faults(update, path, counts)


def _lacks_admission(obj: Json) -> bool:
    return reserved(obj) and child(obj, "status").get("admission") is None


def _assignment_faults(admission: Json, counts: dict[str, int]) -> Iterator[FieldError]:
    assignments = admission.get("podSetAssignments")
    for path, assignment in objects(assignments, "status.admission.podSetAssignments"):
        name, count = text(assignment.get("name")), integer(assignment.get("count")) or 0
        if name not in counts:
            fix = f"use one of: {', '.join(counts)}"
            yield not_found(f"{path}.name", name, f"no pod set is called {quoted(name)}", fix)
        for resource, quantity in child(assignment, "resourceUsage").items():
            if count > 0 and _units(quantity, resource) % count:
                message = f"{quantity} cannot be shared equally by {count} pods"
                yield invalid(f"{path}.resourceUsage[{resource}]", quantity, message)


def _units(quantity: object, resource: str) -> int:
    """Return the amount as Kueue counts it, or 0 if the quantity is invalid."""
    if isinstance(quantity, bool) or not isinstance(quantity, str | int | float):
        return 0
    try:
        return units(quantity, resource)
    except QuantityError:
        return 0


def _reclaimable_faults(
    obj: Json, old: Json | None, counts: dict[str, int], gates: Gates
) -> Iterator[FieldError]:
    # An elastic workload may shrink below its reclaimable count. Kueue accepts the old count.
    stale = reclaimable_counts(old) if elastic(obj, gates) else {}
    for name, count in reclaimable_counts(obj).items():
        path = f"status.reclaimablePods[{name}]"
        if name not in counts:
            yield not_supported(f"{path}.name", name, counts, "a pod set of this workload")
        elif count > counts[name] and stale.get(name) != count:
            message = f"{count} pods are reclaimable, but the pod set has {counts[name]}"
            yield invalid(f"{path}.count", count, message)


def _pod_set_update_faults(update: Json, path: str, counts: dict[str, int]) -> Iterator[FieldError]:
    name = text(update.get("name"))
    if name not in counts:
        yield not_supported(f"{path}.name", name, counts, "a pod set of this workload")
    yield from toleration_faults(update.get("tolerations"), f"{path}.tolerations")
    yield from annotation_faults(update.get("annotations"), f"{path}.annotations")
    yield from label_faults(update.get("nodeSelector"), f"{path}.nodeSelector")
    yield from label_faults(update.get("labels"), f"{path}.labels")
