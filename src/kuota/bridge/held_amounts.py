# SPDX-License-Identifier: Apache-2.0
"""The quota that an admitted Workload holds, without the pods that it has given back."""

from __future__ import annotations

from kuota.api.gates import Gates
from kuota.api.workload import Workload

from .inbound_workload import assigned_pod_sets, usage_of

HeldAmounts = dict[str, dict[str, int]]
"""Amounts in the units of the engine, by flavor and resource."""


def held_amounts(workload: Workload) -> HeldAmounts:
    """Return what the workload is charged: its admission without reclaimable pods."""
    found: HeldAmounts = {}
    for column, amount in usage_of(assigned_pod_sets(workload, Gates())).items():
        found.setdefault(column.flavor, {})[column.resource] = amount
    return found
