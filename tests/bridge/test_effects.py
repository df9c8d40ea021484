# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec

from bridge.objects import condition, workload
from kuota.api.base import Json, Key
from kuota.api.kueue import WorkloadPriorityClass
from kuota.bridge.draft import StoredWorkload
from kuota.bridge.effects import Effect, Event, Patch, StatusPatch, spared
from kuota.bridge.lifecycle_checks import followers

A, B = Key("ml", "a"), Key("ml", "b")


def test_that_quota_was_reserved_goes_without_saying_for_who_is_admitted_at_once() -> None:
    patch = StatusPatch(key=A, resource_version="1", status={})
    both: list[Effect] = [
        patch,
        Event.about(A, "QuotaReserved", ""),
        Event.about(A, "Admitted", ""),
    ]
    assert [patch, both[2]] == spared(both)


def test_what_others_are_told_is_said_all_the_same() -> None:
    two = [Event.about(A, "QuotaReserved", ""), Event.about(B, "Admitted", "")]
    assert two == spared(two)


def test_unfinished_workloads_of_a_class_follow_its_value() -> None:
    def stored(name: str, class_: str, priority: int, *conditions: Json) -> StoredWorkload:
        ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": class_}
        obj = workload(name, conditions=list(conditions), priorityClassRef=ref, priority=priority)
        return StoredWorkload.of(msgspec.to_builtins(obj))

    high = msgspec.convert({"metadata": {"name": "high"}, "value": 9}, WorkloadPriorityClass)
    found = followers(
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
