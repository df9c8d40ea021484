# SPDX-License-Identifier: Apache-2.0
"""Pods of a running workload whose quota is not needed any more, by pod set."""

from __future__ import annotations

from collections.abc import Sequence

from kuota.api.base import Json
from kuota.api.workload import ReclaimablePod, Workload

Pods = Sequence[ReclaimablePod]


def counts(pods: Pods | None) -> dict[str, int]:
    return {each.name: each.count for each in pods or ()}


def same_pods(some: Pods | None, others: Pods | None) -> bool:
    """Whether both lists say the same, in whatever order."""
    return len(some or ()) == len(others or ()) and counts(some) == counts(others)


def limited(pods: Pods, obj: Workload) -> list[ReclaimablePod]:
    """The list with no pod set above its size. A name the workload does not know is left alone."""
    sizes = {each.name: each.count for each in obj.spec.pod_sets or ()}
    return [
        ReclaimablePod(name=each.name, count=min(each.count, sizes.get(each.name, each.count)))
        for each in pods
    ]


def reclaimable_status(obj: Workload, pods: Pods) -> Json:
    """The status patch that records the list; empty when it is recorded already."""
    if same_pods(obj.status.reclaimable_pods, pods):
        return {}
    return {"reclaimablePods": [{"name": each.name, "count": each.count} for each in pods]}
