# SPDX-License-Identifier: Apache-2.0
"""Selects the webhook rules of each kind, and contains those of Cohort and ResourceFlavor.

Kinds without a webhook in Kueue have no rules here.
"""

from __future__ import annotations

from collections.abc import Iterator

from .. import names
from ..base import Json
from ..faults import FieldError, at_most_one, duplicate, invalid, malformed
from ..gates import DEFAULT_GATES, Gates
from .cluster_queue import cluster_queue_faults
from .metadata import label_faults, toleration_faults
from .quota import QuotaOwner, resource_group_faults, weight_faults
from .report import child, elements, integer, mapping, objects, text
from .workload import workload_faults

_NEGATIVE = "a negative number of sub-groups means nothing, and will be rejected in future"


def resource_flavor_faults(obj: Json) -> Iterator[FieldError]:
    spec = child(obj, "spec")
    yield from label_faults(spec.get("nodeLabels"), "spec.nodeLabels")
    yield from _taint_faults(spec)
    yield from toleration_faults(spec.get("tolerations"), "spec.tolerations")


def _taint_faults(spec: Json) -> Iterator[FieldError]:
    seen = set()
    for path, taint in objects(spec.get("nodeTaints"), "spec.nodeTaints"):
        key, value = text(taint.get("key")), text(taint.get("value"))
        yield from malformed(f"{path}.key", key, names.qualified_name(key))
        yield from at_most_one(f"{path}.value", value, names.label_value(value))
        pair = (key, text(taint.get("effect")))
        if pair in seen:
            message = f"taint {key} with effect {pair[1]} is listed twice"
            yield duplicate(path, taint, message, "a key and effect may appear once")
        seen.add(pair)


def cohort_faults(obj: Json) -> Iterator[FieldError]:
    spec = child(obj, "spec")
    owner = QuotaOwner("parentName", bool(spec.get("parentName")), lends_at_most_nominal=False)
    yield from resource_group_faults(spec, owner)
    yield from weight_faults(spec)


def webhook_faults(
    obj: Json, old: Json | None = None, gates: Gates = DEFAULT_GATES
) -> list[FieldError]:
    """Return the faults for which Kueue's validating webhook rejects the object.

    The object should be defaulted and valid by its schema: a value of the wrong type is treated as
    absent. `old` is the stored object if this is an update.
    """
    obj = mapping(obj)
    old = None if old is None else mapping(old)
    match obj.get("kind"):
        case "Workload":
            return list(workload_faults(obj, old, gates))
        case "ClusterQueue":
            return list(cluster_queue_faults(obj, old, gates))
        case "Cohort":
            return list(cohort_faults(obj))
        case "ResourceFlavor":
            return list(resource_flavor_faults(obj))
    return []


def webhook_warnings(obj: Json) -> list[FieldError]:
    """Return what Kueue accepts with a warning: stored objects that an older version allowed."""
    if mapping(obj).get("kind") != "Workload":
        return []
    pod_sets = elements(child(obj, "spec").get("podSets"))
    counts = [child(each, "topologyRequest").get("subGroupCount") for each in pod_sets]
    return [
        invalid(f"spec.podSets[{index}].topologyRequest.subGroupCount", count, _NEGATIVE)
        for index, count in enumerate(counts)
        if (integer(count) or 0) < 0
    ]
