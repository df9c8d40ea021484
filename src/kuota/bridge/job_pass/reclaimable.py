# SPDX-License-Identifier: Apache-2.0
"""The pods of a Workload that will not run again, as its status records them."""

from __future__ import annotations

from collections.abc import Sequence

from kuota.api.base import Json
from kuota.api.workload import ReclaimablePod, Workload

Pods = Sequence[ReclaimablePod]


def counts(pods: Pods | None) -> dict[str, int]:
    return {each.name: each.count for each in pods or ()}


def same_pods(some: Pods | None, others: Pods | None) -> bool:
    """Whether both lists are equal in any order."""
    return len(some or ()) == len(others or ()) and counts(some) == counts(others)


def limited(pods: Pods, obj: Workload) -> list[ReclaimablePod]:
    """Limit every entry to the size of its pod set. Unknown names are left unchanged."""
    sizes = {each.name: each.count for each in obj.spec.pod_sets or ()}
    return [
        ReclaimablePod(name=each.name, count=min(each.count, sizes.get(each.name, each.count)))
        for each in pods
    ]


def reclaimable_status(obj: Workload, pods: Pods) -> Json:
    """Return the status patch that records the list; empty if it is recorded."""
    if same_pods(obj.status.reclaimable_pods, pods):
        return {}
    return {"reclaimablePods": [{"name": each.name, "count": each.count} for each in pods]}
