# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec

from bridge.objects import condition, workload
from kuota.api.base import Json
from kuota.api.kueue import WorkloadPriorityClass
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Patch
from kuota.bridge.lifecycle_checks import priority_updates


def test_unfinished_workloads_of_a_class_follow_its_value() -> None:
    def stored(name: str, class_: str, priority: int, *conditions: Json) -> StoredWorkload:
        ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": class_}
        obj = workload(name, conditions=list(conditions), priorityClassRef=ref, priority=priority)
        return StoredWorkload.of(msgspec.to_builtins(obj))

    high = msgspec.convert({"metadata": {"name": "high"}, "value": 9}, WorkloadPriorityClass)
    found = priority_updates(
        high,
        [
            stored("waits", "high", 1),
            stored("runs", "high", 1, condition("QuotaReserved")),
            stored("over", "high", 1, condition("Finished")),
            stored("there already", "high", 9),
            stored("another", "low", 1),
        ],
    )
    assert ["waits", "runs"] == [each.key.name for each in found]
    assert all(isinstance(e, Patch) and e.body == {"spec": {"priority": 9}} for e in found)
