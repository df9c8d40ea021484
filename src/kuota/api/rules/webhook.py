# SPDX-License-Identifier: Apache-2.0
"""Picks the webhook rules of a kind. Kinds without a webhook in Kueue have none here either."""

from __future__ import annotations

from ..base import Json
from ..faults import FieldError, invalid
from ..gates import Gates
from .cluster_queue import cluster_queue_faults
from .cohort import cohort_faults
from .report import child, elements, integer, mapping
from .resource_flavor import resource_flavor_faults
from .workload import workload_faults

_DEFAULT_GATES = Gates()
_NEGATIVE = "a negative number of sub-groups means nothing, and will be refused in future"


def webhook_faults(
    obj: Json, old: Json | None = None, gates: Gates = _DEFAULT_GATES
) -> list[FieldError]:
    """What Kueue's validating webhook would refuse, taking the object as it stands.

    The object should be defaulted and have passed the schema: a node of the wrong type is
    treated as absent. `old` is the stored object when this is an update.
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
    """What Kueue accepts but warns about: objects that an older version let in and still stores."""
    if mapping(obj).get("kind") != "Workload":
        return []
    pod_sets = elements(child(obj, "spec").get("podSets"))
    counts = [child(each, "topologyRequest").get("subGroupCount") for each in pod_sets]
    return [
        invalid(f"spec.podSets[{index}].topologyRequest.subGroupCount", count, _NEGATIVE)
        for index, count in enumerate(counts)
        if (integer(count) or 0) < 0
    ]
