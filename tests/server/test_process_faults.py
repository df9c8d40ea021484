# SPDX-License-Identifier: Apache-2.0
"""Arguments and variables that no process can receive are rejected with the reason."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from kuota.api.base import Json
from kuota.server.native_faults import native_faults

from .served import JOBS, PODS, Local, job, pod

CONTAINER = {"name": "main", "image": "x", "command": ["true"]}


@pytest.fixture
def api() -> Iterator[Local]:
    local = Local()
    yield local
    local.close()


def run(**fields: Any) -> Json:
    return {"containers": [CONTAINER | fields]}


def prepared(**fields: Any) -> Json:
    return {"initContainers": [CONTAINER | {"name": "init"} | fields]}


def variable(name: str, value: str = "") -> Json:
    return run(env=[{"name": name, "value": value}])


FAULTY: dict[str, tuple[str, Json]] = {
    "an equals sign": ("containers[0].env[0].name", variable("A=B")),
    "a null in a name": ("containers[0].env[0].name", variable("A\0")),
    "a control character": ("containers[0].env[0].name", variable("A\n")),
    "a name that is not ASCII": ("containers[0].env[0].name", variable("GRÖSSE")),
    "no name": ("containers[0].env[0].name", variable("")),
    "a prefix": ("containers[0].envFrom[0].prefix", run(envFrom=[{"prefix": "A="}])),
    "a null in a value": ("containers[0].env[0].value", variable("A", "a\0b")),
    "a null in a command": ("containers[0].command[1]", run(command=["a", "\0"])),
    "a null in an argument": ("containers[0].args[0]", run(args=["\0"])),
    "a null in a directory": ("containers[0].workingDir", run(workingDir="/tmp\0")),
    "a null in a host name": ("hostname", {"hostname": "a\0"}),
    "an init container": ("initContainers[0].args[0]", prepared(args=["\0"])),
}


@pytest.mark.parametrize("case", FAULTY)
def test_what_no_process_can_receive_is_rejected(api: Local, case: str) -> None:
    field, spec = FAULTY[case]
    one, many = pod("a", **copy.deepcopy(spec)), job("a")
    many["spec"]["template"]["spec"] |= copy.deepcopy(spec)
    for path, obj, place in ((PODS, one, "spec"), (JOBS, many, "spec.template.spec")):
        status = api.refusal("POST", path, copy.deepcopy(obj))
        assert 422 == status["code"], status
        assert [f"{place}.{field}"] == [each["field"] for each in status["details"]["causes"]]
        assert [f"{place}.{field}"] == [each.path for each in native_faults(obj)]


@pytest.mark.parametrize("name", ["A", "a.b-c", "1", "with space", "!%~", "<>"])
def test_names_of_variables_are_printable_ascii(api: Local, name: str) -> None:
    api.ask("POST", PODS, pod("a", **variable(name, "größe\n=")), dryRun="All")


def test_the_remedy_is_part_of_the_message(api: Local) -> None:
    status = api.refusal("POST", PODS, pod("a", **variable("A=B")))
    assert "write for example MY_VARIABLE" in status["message"]


@pytest.mark.parametrize(
    ("seconds", "accepted"), [(0, False), (-1, False), (1, True), (2**31, False)]
)
def test_the_time_limit_of_a_pod_is_positive(api: Local, seconds: int, accepted: bool) -> None:
    one, many = pod("a", activeDeadlineSeconds=seconds), job("a")
    many["spec"]["template"]["spec"]["activeDeadlineSeconds"] = seconds
    for path, obj in ((PODS, one), (JOBS, many)):
        assert accepted is (api.raw("POST", path, obj, dryRun="All").status == 201)
        faults = [each.path.rpartition(".")[2] for each in native_faults(obj)]
        assert ([] if accepted else ["activeDeadlineSeconds"]) == faults
