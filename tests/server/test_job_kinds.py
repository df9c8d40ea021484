# SPDX-License-Identifier: Apache-2.0
"""The job kinds of other projects are served without their definitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kuota.api.base import Json
from kuota.api.core import AUTHOR, AUTHOR_ROLE, RUN_AS
from kuota.server.job_kinds import DEFINITIONS, JobKindDefinition
from kuota.server.requests import User
from server.served import MERGE, Local, namespace

ANN = User("ann", ("vision", "system:authenticated"), "1001")
BEN = User("ben", ("vision", "system:authenticated"), "1002")
JOB_SETS = "/apis/jobset.x-k8s.io/v1alpha2/namespaces/vision/jobsets"
LEADER_WORKER_SETS = "/apis/leaderworkerset.x-k8s.io/v1/namespaces/vision/leaderworkersets"
PYTORCH_JOBS = "/apis/kubeflow.org/v1/namespaces/vision/pytorchjobs"


@pytest.fixture
def api() -> Iterator[Local]:
    local = Local()
    local.ask("POST", "/api/v1/namespaces", namespace("vision", "vision"))
    yield local
    local.close()


def pod() -> Json:
    return {"spec": {"containers": [{"name": "main", "image": "x"}]}}


def job_set(**spec: Any) -> Json:
    jobs = [{"name": "a", "replicas": 2, "template": {"spec": {"template": pod()}}}]
    return {"metadata": {"name": "set"}, "spec": {"replicatedJobs": jobs, **spec}}


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda each: str(each.kind))
@pytest.mark.parametrize("spec", [{}, None, [], "x", {"suspend": "yes"}, {"runPolicy": 3}])
def test_no_spec_is_an_internal_error(
    api: Local, definition: JobKindDefinition, spec: Json
) -> None:
    where = "/namespaces/vision" if definition.namespaced else ""
    path = f"/apis/{definition.group}/{definition.version}{where}/{definition.plural}"
    answer = api.raw("POST", path, {"metadata": {"name": "one"}, "spec": spec})
    assert answer.status in (201, 400, 422)


def test_members_write_jobs_and_only_controllers_their_status(api: Local) -> None:
    api.ask("POST", JOB_SETS, job_set(), user=ANN)
    body = {"status": {"terminalState": "Completed"}}
    assert (
        403 == api.refusal("PATCH", f"{JOB_SETS}/set/status", body, media=MERGE, user=ANN)["code"]
    )
    found = api.ask("PATCH", f"{JOB_SETS}/set/status", body, media=MERGE)
    assert "Completed" == found["status"]["terminalState"]


def test_pod_templates_are_validated_like_those_of_jobs(api: Local) -> None:
    made = job_set()
    container = made["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    container["containers"].append({"name": "main", "image": "x", "resources": {}})
    status = api.refusal("POST", JOB_SETS, made, user=ANN)
    place = "spec.replicatedJobs[0].template.spec.template.spec.containers[1]"
    assert [place] == [each["field"] for each in status["details"]["causes"]]


def test_the_pods_of_a_job_that_runs_cannot_change(api: Local) -> None:
    api.ask("POST", JOB_SETS, job_set(), user=ANN)
    changed = job_set()
    template = changed["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    template["spec"]["containers"][0]["image"] = "y"
    status = api.refusal("PATCH", f"{JOB_SETS}/set", changed, media=MERGE, user=ANN)
    assert "immutable while the job is not suspended" in status["message"]
    changed["spec"]["suspend"] = True
    api.ask("PATCH", f"{JOB_SETS}/set", changed, media=MERGE, user=ANN)


def test_a_job_set_has_a_limited_number_of_jobs_with_valid_names(api: Local) -> None:
    jobs = [
        {"name": name, "replicas": 600, "template": {"spec": {"template": pod()}}}
        for name in ("a", "b", "B_")
    ]
    made = job_set(replicatedJobs=jobs)
    message = api.refusal("POST", JOB_SETS, made, user=ANN)["message"]
    assert "at most 1000 Jobs" in message
    assert "is not a DNS label" in message


def test_a_leader_worker_set_has_a_limited_number_of_replicas(api: Local) -> None:
    spec = {"replicas": 1001, "leaderWorkerTemplate": {"workerTemplate": pod()}}
    made = {"metadata": {"name": "set"}, "spec": spec}
    message = api.refusal("POST", LEADER_WORKER_SETS, made, user=ANN)["message"]
    assert "spec.replicas: Invalid value: 1001: must be 1000 or less" in message


def test_processes_run_as_the_user_who_last_changed_what_runs(api: Local) -> None:
    forged = {RUN_AS: "0", AUTHOR_ROLE: "admin"}
    made = job_set(suspend=True)
    made["metadata"]["annotations"] = forged
    found = api.ask("POST", JOB_SETS, made, user=ANN)
    assert {RUN_AS: "1001", AUTHOR: "ann"} == found["metadata"]["annotations"]
    again = {"metadata": {"annotations": forged}}
    found = api.ask("PATCH", f"{JOB_SETS}/set", again, media=MERGE, user=BEN)
    assert {RUN_AS: "1001", AUTHOR: "ann"} == found["metadata"]["annotations"]
    found = api.ask("PATCH", f"{JOB_SETS}/set", {"spec": {"suspend": False}}, media=MERGE, user=BEN)
    assert {RUN_AS: "1002", AUTHOR: "ann"} == found["metadata"]["annotations"]


def test_a_definition_replaces_ours_until_it_is_deleted(api: Local) -> None:
    names = {"kind": "PyTorchJob", "plural": "pytorchjobs"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {"group": "kubeflow.org", "names": names, "scope": "Namespaced", "versions": [version]}
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    made = {"metadata": {"name": "torch"}, "spec": {"pytorchReplicaSpecs": 3}}
    assert 422 == api.refusal("POST", PYTORCH_JOBS, made)["code"]
    api.ask("POST", crds, {"metadata": {"name": "pytorchjobs.kubeflow.org"}, "spec": spec})
    api.ask("POST", PYTORCH_JOBS, made)
    api.ask("DELETE", f"{crds}/pytorchjobs.kubeflow.org")
    assert [] == api.ask("GET", PYTORCH_JOBS)["items"]
    assert 422 == api.refusal("POST", PYTORCH_JOBS, made)["code"]
