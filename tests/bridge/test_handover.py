# SPDX-License-Identifier: Apache-2.0
"""The owners of status fields after a handover to Kueue."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kuota.api import fieldsets, managed_fields
from kuota.api.base import Json
from kuota.api.convert import SECONDS, SECONDS_MISSPELT
from kuota.api.workload import WorkloadStatus
from kuota.bridge.handover import handed_over, has_stale_admission, is_finished

APPLIER, PODS_READY = "kueue-admission", "kueue-job-controller-PodsReady"
ADMISSION: Json = {"f:admission": {".": {}, "f:clusterQueue": {}}}
V1BETA1, V1BETA2 = "kueue.x-k8s.io/v1beta1", "kueue.x-k8s.io/v1beta2"


def entry(
    manager: str,
    operation: str,
    status: Json,
    *,
    version: str = V1BETA2,
    time: str = "2026-01-02T12:00:00Z",
    subresource: str = "status",
) -> Json:
    made = {
        "manager": manager,
        "operation": operation,
        "apiVersion": version,
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:status": status},
    }
    return made | ({"subresource": subresource} if subresource else {})


def kuotas(status: Json, **more: Any) -> Json:
    return entry("kuota", "Update", status, **more)


def kueues(status: Json, manager: str = APPLIER, **more: Any) -> Json:
    return entry(manager, "Apply", status, **more)


def a_condition(*types: str) -> Json:
    return {f'k:{{"type":"{each}"}}': {".": {}, "f:status": {}, "f:type": {}} for each in types}


def test_what_kuota_admitted_is_kueues_to_take_back() -> None:
    status = {".": {}, **ADMISSION, "f:conditions": {".": {}, **a_condition("QuotaReserved")}}
    assert [kueues(status)] == handed_over([kuotas(status)])


def test_every_area_goes_to_the_one_who_applies_it() -> None:
    conditions = a_condition("Admitted", "PodsReady")
    mixed = kuotas({**ADMISSION, "f:reclaimablePods": {}, "f:conditions": conditions})
    assert [
        kueues({**ADMISSION, "f:conditions": a_condition("Admitted")}),
        kueues({"f:conditions": a_condition("PodsReady")}, PODS_READY),
        kueues({"f:reclaimablePods": {}}, "kueue-reclaimable-pods"),
    ] == handed_over([mixed])


def test_what_kueue_owned_before_it_owns_still() -> None:
    before = [
        kueues({"f:conditions": a_condition("Evicted")}, time="2026-01-01T00:00:00Z"),
        kuotas({"f:conditions": a_condition("Admitted")}, time="2026-01-02T00:00:00Z"),
    ]
    both = {"f:conditions": a_condition("Admitted", "Evicted")}
    assert [kueues(both, time="2026-01-02T00:00:00Z")] == handed_over(before)


def test_what_is_in_no_area_stays_with_kuota() -> None:
    status = {**ADMISSION, "f:novelty": {}, "f:conditions": a_condition("Novel")}
    assert [
        kueues(ADMISSION),
        kuotas({"f:novelty": {}, "f:conditions": a_condition("Novel")}),
    ] == handed_over([kuotas(status)])


def test_an_older_entry_of_kueue_is_brought_to_the_version_it_applies_now() -> None:
    older = kueues({f"f:{SECONDS_MISSPELT}": {}}, version=V1BETA1)
    assert [kueues({**ADMISSION, f"f:{SECONDS}": {}})] == handed_over([older, kuotas(ADMISSION)])


def test_an_entry_of_the_version_that_kueue_applies_keeps_its_names() -> None:
    current = kueues({f"f:{SECONDS_MISSPELT}": {}}, version=V1BETA2)
    both = kueues({**ADMISSION, f"f:{SECONDS_MISSPELT}": {}})
    assert [both] == handed_over([current, kuotas(ADMISSION)])


def test_no_field_of_a_status_is_without_an_area() -> None:
    names = {each.encode_name for each in msgspec.structs.fields(WorkloadStatus)} - {"conditions"}
    status: Json = {f"f:{name}": {} for name in names}
    assert all(each["operation"] == "Apply" for each in handed_over([kuotas(status)]))


@pytest.mark.parametrize(
    "others",
    [
        entry("kuota", "Update", ADMISSION, subresource=""),
        entry("somebody", "Update", ADMISSION),
        entry("kuota", "Apply", ADMISSION),
        kueues(ADMISSION),
    ],
)
def test_what_others_own_is_left_alone(others: Json) -> None:
    assert [others] == handed_over([others])
    assert others in handed_over([others, kuotas({"f:reclaimablePods": {}})])


_LEAVES = st.sampled_from(
    [
        ("f:admission", "f:clusterQueue"),
        ("f:admission",),
        ("f:conditions", 'k:{"type":"QuotaReserved"}', "f:status"),
        ("f:conditions", 'k:{"type":"PodsReady"}', "f:reason"),
        ("f:conditions", 'k:{"type":"PodsReady"}'),
        ("f:conditions", 'k:{"type":"Novel"}'),
        ("f:conditions",),
        ("f:reclaimablePods", 'k:{"name":"main"}', "f:count"),
        ("f:novelty",),
        (),
    ]
)
_OWNERS = st.sampled_from(
    [
        ("kuota", "Update", "status"),
        ("kuota", "Update", ""),
        ("checker", "Update", "status"),
        (APPLIER, "Apply", "status"),
        (PODS_READY, "Apply", "status"),
    ]
)


def _wire(paths: set[tuple[str, ...]]) -> Json:
    fields: Json = {}
    for path in paths:
        fieldsets.insert(fields, path)
    return fieldsets.to_wire(fields)


_managed = st.dictionaries(_OWNERS, st.sets(_LEAVES, min_size=1).map(_wire)).map(
    lambda owned: [
        entry(owner[0], owner[1], status, subresource=owner[2]) for owner, status in owned.items()
    ]
)


@given(_managed)
def test_no_field_loses_its_last_owner_and_none_gets_one(managed: list[Json]) -> None:
    def owned(entries: list[Json]) -> Json:
        return managed_fields.owned(managed_fields.read(entries).values())

    assert owned(managed) == owned(handed_over(managed))


@given(_managed)
def test_a_second_time_there_is_nothing_to_hand_over(managed: list[Json]) -> None:
    once = handed_over(managed)
    assert once == handed_over(once)


@given(_managed)
def test_only_kuota_loses_and_only_kueue_gains(managed: list[Json]) -> None:
    before, after = managed_fields.read(managed), managed_fields.read(handed_over(managed))
    for owner, now in after.items():
        gained = fieldsets.difference(now.fields, before[owner].fields if owner in before else {})
        assert not gained or owner.operation == "Apply"
    for owner, then in before.items():
        lost = fieldsets.difference(then.fields, after[owner].fields if owner in after else {})
        assert not lost or (owner.manager, owner.subresource) == ("kuota", "status")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ({}, False),
        ({"admission": {}, "conditions": [{"type": "QuotaReserved", "status": "True"}]}, False),
        ({"conditions": [{"type": "QuotaReserved", "status": "False"}]}, False),
        ({"admission": {}, "conditions": [{"type": "QuotaReserved", "status": "False"}]}, True),
    ],
)
def test_an_admission_without_quota_is_left_over(status: Json, expected: bool) -> None:
    assert expected == has_stale_admission({"status": status})


def test_a_workload_is_over_when_it_says_so() -> None:
    finished = {"type": "Finished", "status": "True"}
    assert is_finished({"status": {"conditions": [finished]}})
    assert not is_finished({"status": {"conditions": [finished | {"status": "False"}]}})
    assert not is_finished({})
