# SPDX-License-Identifier: Apache-2.0
"""Validation of Kubernetes kinds without a server agrees with the server."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.base import Json
from kuota.server.builtin_kinds import native_kinds
from kuota.server.kinds import Kind
from kuota.server.native_faults import native_faults, native_kind
from server.full_objects import FULL
from server.served import JOBS, Local, job


def path_of(kind: Kind) -> str:
    root = f"/apis/{kind.group}" if kind.group else "/api"
    return f"{root}/{kind.stored}{'/namespaces/default' * kind.namespaced}/{kind.plural}"


@pytest.mark.parametrize("kind", native_kinds(), ids=lambda each: each.resource)
def test_unknown_fields_of_every_kind_are_those_the_server_refuses(kind: Kind, api: Local) -> None:
    obj = {
        "apiVersion": kind.api_version(kind.stored),
        "kind": kind.kind,
        "metadata": {"name": "a", "nmae": "b"},
        "spce": {"c": 1},
    }
    unknown = [each.path for each in native_faults(obj) if "unknown field" in each.message]
    assert ["metadata.nmae", "spce"] == unknown
    said = api.refusal("POST", path_of(kind), obj, fieldValidation="Strict")["message"]
    assert all(f'unknown field "{path}"' in said for path in unknown)


WRONG: list[Json] = [
    job("a", parallelism=-1),
    job("A_b"),
    job("a", template={"spec": {"containers": [{"name": "x"}]}}),
    job("a", completionMode="Indexd"),
    job("a", template=None),
]


@pytest.mark.parametrize("obj", WRONG)
def test_values_are_judged_as_the_server_judges_them(obj: Json, api: Local) -> None:
    causes = api.refusal("POST", JOBS, obj)["details"]["causes"]
    assert [each["field"] for each in causes] == [each.path for each in native_faults(obj)]


@pytest.mark.parametrize(("path", "obj"), FULL)
def test_objects_that_the_server_stores_have_no_faults(path: str, obj: Any) -> None:
    assert [] == native_faults(obj)


def test_an_object_may_leave_its_name_to_the_server() -> None:
    assert [] == native_faults(job("") | {"metadata": {"generateName": "train-"}})
    assert ["metadata.name"] == [each.path for each in native_faults(job(""))]


def test_restart_rules_may_list_an_exit_code_twice() -> None:
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [3, 3]}}
    container = {"name": "c", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [rule]}
    spec = {"restartPolicy": "Never", "containers": [container]}
    assert [] == native_faults(job("a", template={"spec": spec}))


def test_what_is_nested_without_end_is_a_fault() -> None:
    obj = job("a")
    for _ in range(2000):
        obj = {"apiVersion": "batch/v1", "kind": "Job", "spec": obj}
    assert "nested" in native_faults(obj)[0].message


def test_kinds_are_known_by_version_and_name() -> None:
    assert native_kind("batch/v1", "Job")
    assert not native_kind("v1", "Job")
    assert not native_kind("apps/v1", "DaemonSet")
