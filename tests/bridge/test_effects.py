# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.objects import condition, workload
from kuota.api.base import Json, Key
from kuota.api.kueue import WorkloadPriorityClass
from kuota.bridge.draft import Seen
from kuota.bridge.effects import (
    Effect,
    Event,
    Patch,
    StatusPatch,
    combined,
    difference,
    merged,
    spared,
)
from kuota.bridge.lifecycle_class import followers

A, B = Key("ml", "a"), Key("ml", "b")
_JSON = st.recursive(
    st.integers(0, 3), lambda inner: st.dictionaries(st.sampled_from("xyz"), inner, max_size=3)
)
_OBJECTS = st.dictionaries(st.sampled_from("xyz"), _JSON, max_size=3)
_FIELDS = st.dictionaries(st.sampled_from("xy"), st.none() | st.integers(0, 3))
_PATCHES = st.builds(lambda plain, nested: plain | {"z": nested}, _FIELDS, _FIELDS)


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


@settings(max_examples=60)
@given(_OBJECTS, _OBJECTS)
def test_a_difference_leads_from_one_object_to_the_other(before: Json, after: Json) -> None:
    assert after == merged(before, difference(before, after))


@settings(max_examples=60)
@given(_OBJECTS, _PATCHES, _PATCHES)
def test_two_patches_in_one_do_what_they_do_one_after_the_other(
    target: Json, first: Json, second: Json
) -> None:
    assert merged(merged(target, first), second) == merged(target, combined(first, second))


def test_unfinished_workloads_of_a_class_follow_its_value() -> None:
    def seen(name: str, class_: str, priority: int, *conditions: Json) -> Seen:
        ref = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": class_}
        obj = workload(name, conditions=list(conditions), priorityClassRef=ref, priority=priority)
        return Seen.of(msgspec.to_builtins(obj))

    high = msgspec.convert({"metadata": {"name": "high"}, "value": 9}, WorkloadPriorityClass)
    found = followers(
        high,
        [
            seen("waits", "high", 1),
            seen("runs", "high", 1, condition("QuotaReserved")),
            seen("over", "high", 1, condition("Finished")),
            seen("there already", "high", 9),
            seen("another", "low", 1),
        ],
    )
    assert ["waits", "runs"] == [each.key.name for each in found]
    assert all(isinstance(e, Patch) and e.body == {"spec": {"priority": 9}} for e in found)
