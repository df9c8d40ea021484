# SPDX-License-Identifier: Apache-2.0
"""Objects that an older version stored with faults can still be suspended, changed and deleted."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kuota.api.base import Json
from kuota.server import pod_faults

from .served import JOBS, MERGE, PODS, Local, job, pod

JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/default/jobsets"
FAULTY = [{"name": "A=B", "value": "x"}]


def job_set(name: str, spec: Json) -> Json:
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {"replicatedJobs": [{"name": "w", "template": {"spec": spec}}]},
    }


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[Local]:
    """A server with a Pod, a Job and a JobSet whose variable has an invalid name."""
    local = Local()
    one, many = pod("a"), job("a")
    for spec in (one["spec"], many["spec"]["template"]["spec"]):
        spec["containers"][0]["env"] = FAULTY
    one["metadata"]["finalizers"] = ["example.com/kept"]
    with monkeypatch.context() as older:
        older.setattr(pod_faults, "process_faults", lambda spec, path: ())
        local.ask("POST", JOB_SETS, job_set("a", many["spec"]))
        local.ask("POST", PODS, one)
        local.ask("POST", JOBS, many)
    yield local
    local.close()


@pytest.mark.parametrize("path", [f"{JOBS}/a", f"{JOB_SETS}/a"])
def test_a_job_with_a_stored_fault_can_be_suspended(api: Local, path: str) -> None:
    assert api.ask("PATCH", path, {"spec": {"suspend": True}}, media=MERGE)["spec"]["suspend"]


def test_a_pod_with_a_stored_fault_can_be_replaced_and_deleted(api: Local) -> None:
    whole = api.ask("GET", f"{PODS}/a")
    whole["metadata"]["finalizers"] = []
    whole["spec"]["activeDeadlineSeconds"] = 60
    api.ask("PUT", f"{PODS}/a", whole)
    api.ask("DELETE", f"{PODS}/a", gracePeriodSeconds="0")


def test_a_change_adds_no_fault_to_a_stored_one(api: Local) -> None:
    whole = api.ask("GET", f"{JOB_SETS}/a")
    spec = whole["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    whole["spec"]["suspend"] = True
    spec["containers"][0]["env"] = [*FAULTY, {"name": "C=D"}]
    status = api.refusal("PUT", f"{JOB_SETS}/a", whole)
    (cause,) = status["details"]["causes"]
    assert cause["field"].endswith("containers[0].env[1].name")
    spec["containers"][0]["env"] = [{"name": "OTHER=NAME"}]
    assert 422 == api.refusal("PUT", f"{JOB_SETS}/a", whole)["code"]
