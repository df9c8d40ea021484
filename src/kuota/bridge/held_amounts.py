# SPDX-License-Identifier: Apache-2.0
"""The quota that an admitted Workload holds, without the pods that it has given back."""

from __future__ import annotations

from kuota.api.quantity import units
from kuota.api.workload import PodSetAssignment, Workload

HeldAmounts = dict[str, dict[str, int]]
"""Amounts in the units of the engine, by flavor and resource."""


def held_amounts(workload: Workload) -> HeldAmounts:
    """Return what the workload holds: its admission without reclaimable pods."""
    admission = workload.status.admission
    found: HeldAmounts = {}
    for each in (admission.pod_set_assignments or []) if admission is not None else []:
        left = _left(workload, each)
        for resource, usage in (each.resource_usage or {}).items():
            flavor = (each.flavors or {}).get(resource, "")
            held = found.setdefault(flavor, {})
            amount = units(usage, resource)
            held[resource] = held.get(resource, 0) + amount * left // max(each.count or 0, 1)
    return found


def _left(workload: Workload, assigned: PodSetAssignment) -> int:
    """Return the number of pods of the pod set that still hold quota."""
    count = max(assigned.count or 0, 1)
    gone = sum(
        each.count for each in workload.status.reclaimable_pods or [] if each.name == assigned.name
    )
    return max(0, count - gone)
