# SPDX-License-Identifier: Apache-2.0
"""The author of a job is the user who created it, whatever its manifest says."""

from __future__ import annotations

import pytest

from kuota.api.base import Json
from kuota.api.config.shapes import Configuration, Integrations
from kuota.api.core import AUTHOR
from kuota.kube.access import AccessRequest, UserInfo
from kuota.kube.errors import Unreachable
from webhook.reviews import answered, job, workload

JOB = "batch-v1-job"
POD = "-v1-pod"
WORKLOAD = "kueue-x-k8s-io-v1beta2-workload"
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "x", "uid": "u", "controller": True}
PODS = Configuration(integrations=Integrations(frameworks=["batch/job", "pod"]))


class Controllers:
    """An `Authorizer`: only one user may write the status of Workloads of the namespace team."""

    async def allows(self, user: UserInfo, access: AccessRequest) -> bool:
        asked = access.verb, access.resource, access.subresource, access.namespace
        assert ("patch", "workloads", "status", "team") == asked
        return user.name == "controller"


class Nobody:
    """An `Authorizer` that cannot be reached."""

    async def allows(self, user: UserInfo, access: AccessRequest) -> bool:
        raise Unreachable("nobody answers")


def _with(obj: Json, author: str | None, **metadata: object) -> Json:
    annotations = {"other": "x"} | ({AUTHOR: author} if author is not None else {})
    return obj | {"metadata": obj["metadata"] | {"annotations": annotations, **metadata}}


def _author(obj: Json) -> str | None:
    found: str | None = (obj["metadata"].get("annotations") or {}).get(AUTHOR)
    return found


def _pod(queue: str = "") -> Json:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    named = {"name": "p", "namespace": "team", "labels": labels}
    spec = {"containers": [{"name": "c", "image": "i"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec}


@pytest.mark.parametrize("claimed", [None, "ben", "", "ann"])
@pytest.mark.parametrize("queue", ["", "q"])
def test_a_new_job_names_who_created_it(queue: str, claimed: str | None) -> None:
    given = _with(job(queue=queue), claimed)
    found = answered(f"/mutate-{JOB}", given, authorizer=Controllers()).object
    assert {"other": "x", AUTHOR: "ann"} == found["metadata"]["annotations"]


def test_a_job_that_claims_an_owner_names_who_created_it() -> None:
    owner = OWNER | {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    given = _with(job(), "ben", ownerReferences=[owner])
    assert "ann" == _author(answered(f"/mutate-{JOB}", given, authorizer=Controllers()).object)


def test_a_job_without_annotations_gets_one() -> None:
    assert "ann" == _author(answered(f"/mutate-{JOB}", job(), authorizer=Controllers()).object)


def test_pods_that_wait_for_quota_name_who_created_them_and_others_stay_as_they_are() -> None:
    queued = answered(f"/mutate-{POD}", _with(_pod("q"), "ben"), config=PODS, authorizer=Nobody())
    assert "ann" == _author(queued.object)
    assert [] == answered(f"/mutate-{POD}", _pod(), config=PODS, authorizer=Nobody()).patch


def test_without_the_setting_nothing_is_recorded() -> None:
    assert _author(answered(f"/mutate-{JOB}", job(queue="q")).object) is None
    assert _author(answered(f"/mutate-{WORKLOAD}", workload()).object) is None
    changed = answered(f"/validate-{WORKLOAD}", _with(workload(), "b"), _with(workload(), "a"))
    assert changed.allowed


@pytest.mark.parametrize("path", [JOB, POD, WORKLOAD])
@pytest.mark.parametrize(
    ("before", "after"), [("ann", "ben"), ("ann", None), (None, "ann"), ("ann", "")]
)
def test_an_author_cannot_be_changed(path: str, before: str | None, after: str | None) -> None:
    obj = {JOB: job(queue="q", suspend=True), POD: _pod(), WORKLOAD: workload()}[path]
    new, old = _with(obj, after), _with(obj, before)
    found = answered(f"/validate-{path}", new, old, config=PODS, authorizer=Controllers())
    assert {(f"metadata.annotations[{AUTHOR}]", "FieldValueInvalid")} == found.faults
    kept = answered(f"/validate-{path}", old, old, config=PODS, authorizer=Controllers())
    assert kept.allowed


@pytest.mark.parametrize(
    ("user", "owners", "expected"),
    [
        ("controller", [OWNER], "ben"),
        ("controller", [], "controller"),
        ("ann", [OWNER], "ann"),
        ("ann", [], "ann"),
    ],
)
def test_only_controllers_copy_the_author_of_a_job_to_its_workload(
    user: str, owners: list[Json], expected: str
) -> None:
    given = _with(workload(), "ben", ownerReferences=owners)
    sent = {"username": user}
    found = answered(f"/mutate-{WORKLOAD}", given, authorizer=Controllers(), userInfo=sent)
    assert expected == _author(found.object)


def test_a_workload_is_rejected_while_permissions_cannot_be_read() -> None:
    given = _with(workload(), "ben", ownerReferences=[OWNER])
    found = answered(f"/mutate-{WORKLOAD}", given, authorizer=Nobody())
    assert (False, 500) == (found.allowed, found.status["code"])
