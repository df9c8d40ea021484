# SPDX-License-Identifier: Apache-2.0
"""Which records of pod templates Deployments and StatefulSets have."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.base import Json
from kuota.api.merge_patch import merged
from kuota.runner.deployment_rules import deployment_step
from kuota.runner.revisions import (
    CONTROLLER_REVISION_RECORDS,
    NUMBER,
    REPLICA_SET_RECORDS,
    RecordKind,
    RecordWrite,
    record_step,
)
from runner.test_replica_rules import NOW, deployment, made, pods_of

KINDS = {"Deployment": REPLICA_SET_RECORDS, "StatefulSet": CONTROLLER_REVISION_RECORDS}


def after(
    kind: RecordKind, obj: Json, records: list[Json], pods: list[Json] | None = None
) -> list[Json]:
    """The records after a step."""
    found = written(records, record_step(kind, obj, records, pods or []).writes)
    again = record_step(kind, obj, found, pods or []).writes
    assert [] == [each for each in again if each.verb == "patch"]
    return found


def written(records: list[Json], writes: list[RecordWrite]) -> list[Json]:
    """The records after these writes."""
    for each in writes:
        match each.verb:
            case "create":
                records = [*records, each.record]
            case "patch":
                changed = merged(each.record, each.patch)
                records = [changed if old is each.record else old for old in records]
            case "delete":
                records = [old for old in records if old is not each.record]
    return records


def numbers(kind: RecordKind, records: list[Json]) -> dict[str, int]:
    """The number of the record with each image."""
    return {kind.template(e)["spec"]["containers"][0]["image"]: kind.number(e) for e in records}


@pytest.mark.parametrize("name", KINDS)
def test_a_template_that_returns_is_the_newest_revision(name: str) -> None:
    kind = KINDS[name]
    records: list[Json] = []
    for image in ("one", "two", "one"):
        records = after(kind, made(name, 1, image), records)
    assert {"one": 3, "two": 2} == numbers(kind, records)


@pytest.mark.parametrize("name", KINDS)
def test_old_records_are_deleted_above_the_limit(name: str) -> None:
    kind = KINDS[name]
    records: list[Json] = []
    for at in range(5):
        records = after(kind, made(name, 1, str(at), revisionHistoryLimit=2), records)
    assert {"2": 3, "3": 4, "4": 5} == numbers(kind, records)


@pytest.mark.parametrize("name", KINDS)
def test_the_record_of_a_deleted_object_of_the_same_name_is_replaced(name: str) -> None:
    kind, obj = KINDS[name], made(name, 1)
    stale = after(kind, obj | {"metadata": obj["metadata"] | {"uid": "previous"}}, [])
    writes = record_step(kind, obj, stale, []).writes
    assert ["delete", "create"] == [each.verb for each in writes]
    assert stale == [writes[0].record]


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("limit", [0, 1])
@pytest.mark.parametrize("images", [("one", "two"), ("one", "two", "one")], ids=["new", "returns"])
def test_an_interruption_after_any_write_changes_no_number(
    name: str, limit: int, images: tuple[str, ...]
) -> None:
    kind = KINDS[name]
    records: list[Json] = []
    for image in images[:-1]:
        records = after(kind, made(name, 0, image), records)
    obj = made(name, 0, images[-1], revisionHistoryLimit=limit)
    writes = record_step(kind, obj, records, []).writes
    expected = numbers(kind, after(kind, obj, records))
    assert len(images) == expected[images[-1]]
    for at in range(len(writes)):
        interrupted = written(records, writes[:at])
        assert expected == numbers(kind, after(kind, obj, interrupted)), f"after {at} writes"


def counts(records: list[Json]) -> list[tuple[Any, Any]]:
    return [(each["spec"]["replicas"], each["status"].get("readyReplicas")) for each in records]


def test_replica_sets_count_the_pods_of_their_template() -> None:
    first, second = deployment(2), deployment(2, "two")
    pods = pods_of(deployment_step(first, [], NOW))
    records = after(REPLICA_SET_RECORDS, first, after(REPLICA_SET_RECORDS, first, []), pods)
    assert [(2, 2)] == counts(records)
    pods = pods[:1] + pods_of(deployment_step(second, pods, NOW), ready=False)
    records = after(REPLICA_SET_RECORDS, second, after(REPLICA_SET_RECORDS, second, records), pods)
    assert [(1, 1), (1, 0)] == counts(records)


def test_a_record_in_use_is_kept_whatever_the_limit() -> None:
    first, second = deployment(1), deployment(1, "two")
    second["spec"]["revisionHistoryLimit"] = 0
    pods = pods_of(deployment_step(first, [], NOW))
    records = after(REPLICA_SET_RECORDS, first, [], pods)
    records = after(REPLICA_SET_RECORDS, second, records, pods)
    assert 2 == len(records)
    assert 1 == len(after(REPLICA_SET_RECORDS, second, records))


def test_annotations_that_kubectl_restores_are_recorded() -> None:
    obj = deployment(1)
    cause = {"kubernetes.io/change-cause": "first try"}
    obj["metadata"]["annotations"] = cause | {NUMBER: "7"}
    (record,) = after(REPLICA_SET_RECORDS, obj, [])
    assert cause | {NUMBER: "1"} == record["metadata"]["annotations"]
