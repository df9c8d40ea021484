# SPDX-License-Identifier: Apache-2.0
"""What follows when the value of a WorkloadPriorityClass is not that of its Workloads."""

from __future__ import annotations

from collections.abc import Iterable

from kuota.api.kueue import WorkloadPriorityClass

from .draft import Seen
from .effects import Effect, Patch

KIND = "WorkloadPriorityClass"


def followers(value: WorkloadPriorityClass, workloads: Iterable[Seen]) -> list[Effect]:
    """Give every unfinished Workload of the class its value, whether it holds quota or not."""
    return [
        Patch(
            key=seen.key,
            resource_version=seen.obj.metadata.resource_version,
            body={"spec": {"priority": value.value}},
        )
        for seen in workloads
        if not seen.true("Finished")
        and named(seen) == value.metadata.name
        and seen.obj.spec.priority != value.value
    ]


def named(seen: Seen) -> str:
    """The WorkloadPriorityClass that a Workload has its priority from, "" for none."""
    ref = seen.obj.spec.priority_class_ref
    return ref.name if ref is not None and ref.kind == KIND else ""
