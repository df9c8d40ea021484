# SPDX-License-Identifier: Apache-2.0
"""Reviews of Kueue's kinds."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import msgspec
import pytest

from kuota.api.base import Json
from kuota.api.gates import Gates
from kuota.webhook.review import InvalidReview
from kuota.webhook.reviews import AdmissionReviews
from webhook.reviews import Objects, answered, cluster_queue, review, workload

FINALIZER = "kueue.x-k8s.io/resource-in-use"
MUTATE = "/mutate-kueue-x-k8s-io-v1beta2-"
VALIDATE = "/validate-kueue-x-k8s-io-v1beta2-"
WORKLOAD = f"{VALIDATE}workload"
QUEUE = f"{VALIDATE}clusterqueue"


def reserved(count: int = 2, **more: Any) -> Json:
    condition = {
        "type": "QuotaReserved",
        "status": "True",
        "reason": "QuotaReserved",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    assignment = {"name": "main", "count": count, "resourceUsage": {"cpu": "2"}}
    admission = {"clusterQueue": "cq", "podSetAssignments": [assignment]}
    return workload() | {"status": {"conditions": [condition], "admission": admission} | more}


def test_a_new_cluster_queue_gets_its_finalizer_in_one_operation() -> None:
    said = answered(f"{MUTATE}clusterqueue", cluster_queue())
    wanted = {"op": "add", "path": "/metadata/finalizers", "value": [FINALIZER]}
    assert (True, [wanted]) == (said.allowed, said.patch)


def test_finalizers_of_others_stay() -> None:
    flavor = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ResourceFlavor",
        "metadata": {"name": "x", "finalizers": ["other"]},
    }
    said = answered(f"{MUTATE}resourceflavor", flavor)
    assert ["other", FINALIZER] == said.object["metadata"]["finalizers"]


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_both_versions_are_given_the_same(version: str) -> None:
    said = answered(f"{MUTATE}clusterqueue", cluster_queue(version))
    assert [FINALIZER] == said.object["metadata"]["finalizers"]


def test_minimum_counts_go_when_partial_admission_is_off() -> None:
    given = workload()
    given["spec"]["podSets"][0]["minCount"] = 1
    assert [] == answered(f"{MUTATE}workload", given).patch
    off = Gates.of({"PartialAdmission": False})
    said = answered(f"{MUTATE}workload", given, gates=off)
    assert [{"op": "remove", "path": "/spec/podSets/0/minCount"}] == said.patch


def test_a_sound_object_is_allowed_without_a_word() -> None:
    for path, obj in ((WORKLOAD, workload()), (QUEUE, cluster_queue())):
        said = answered(path, obj)
        assert (True, [], {}, []) == (said.allowed, said.patch, said.status, said.warnings)


def test_every_fault_is_a_cause_of_the_refusal() -> None:
    bad = cluster_queue(flavorFungibility={"preference": "BorrowingOverPreemption"})
    bad["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["borrowingLimit"] = "1"
    said = answered(QUEUE, bad)
    assert not said.allowed
    assert (403, "Forbidden", "Failure") == tuple(
        said.status[each] for each in ("code", "reason", "status")
    )
    limit = "spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit"
    assert {
        (limit, "FieldValueInvalid"),
        ("spec.flavorFungibility.preference", "FieldValueInvalid"),
    } == (said.faults)
    assert limit in said.status["message"]
    assert "ClusterQueue" == said.status["details"]["kind"]


def test_faults_of_the_older_version_are_reported_in_its_words() -> None:
    bad = cluster_queue("v1beta1", cohort="c")
    bad["spec"]["resourceGroups"][0]["flavors"][0]["resources"][0]["lendingLimit"] = "5"
    assert not answered(QUEUE, bad).allowed
    lonely = copy.deepcopy(bad)
    del lonely["spec"]["cohort"]
    assert "spec.cohortName" not in answered(QUEUE, lonely).status["message"]


def test_an_update_is_judged_against_the_old_object() -> None:
    old, new = reserved(), reserved()
    new["spec"]["podSets"][0]["count"] = 3
    said = answered(WORKLOAD, new, old)
    assert {("spec.podSets.0", "FieldValueInvalid")} <= said.faults
    assert answered(WORKLOAD, old, old).allowed


def test_the_status_subresource_is_judged_as_a_whole() -> None:
    wrong = reserved()
    wrong["status"]["admission"]["podSetAssignments"][0]["name"] = "other"
    said = answered(WORKLOAD, wrong, workload(), subResource="status")
    path = "status.admission.podSetAssignments[0].name"
    assert {(path, "FieldValueNotFound")} == said.faults
    assert answered(WORKLOAD, reserved(), workload(), subResource="status").allowed


def test_objects_of_both_versions_meet_in_one_update() -> None:
    old = reserved()
    new = workload("v1beta1") | {"status": old["status"]}
    assert answered(WORKLOAD, new, old).allowed


def test_deletions_pass() -> None:
    bad = cluster_queue(preemption={"reclaimWithinCohort": 7})
    assert answered(QUEUE, bad, operation="DELETE").allowed


def test_a_dry_run_is_answered_like_the_real_thing() -> None:
    for dry in (True, False):
        said = answered(f"{MUTATE}clusterqueue", cluster_queue(), dryRun=dry)
        assert 1 == len(said.patch)


def test_what_a_newer_release_may_refuse_is_a_warning() -> None:
    given = workload()
    given["spec"]["podSets"][0]["topologyRequest"] = {"required": "a", "subGroupCount": -1}
    said = answered(WORKLOAD, given)
    assert (True, 1) == (said.allowed, len(said.warnings))


@pytest.mark.parametrize(
    "spoil",
    [
        {"spec": []},
        {"spec": {"podSets": "x"}},
        {"metadata": 3},
        {"metadata": {"labels": {"a": {}}}},
        {"status": {"conditions": [None]}},
        {"kind": "Cohort"},
        {"apiVersion": "kueue.x-k8s.io/v1"},
        {"apiVersion": None},
    ],
)
def test_an_object_that_cannot_be_read_is_refused_with_a_status(spoil: Json) -> None:
    said = answered(WORKLOAD, workload() | spoil)
    assert (False, 400, "BadRequest") == (said.allowed, said.status["code"], said.status["reason"])


def test_an_update_without_the_old_object_is_refused() -> None:
    said = answered(WORKLOAD, workload(), operation="UPDATE")
    assert "oldObject" in said.status["message"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"apiVersion": "admission.k8s.io/v1beta1"}, "admission.k8s.io/v1beta1"),
        ({"apiVersion": "admission.k8s.io/v2"}, "expected an AdmissionReview"),
        ({"kind": "Status"}, "expected an AdmissionReview"),
        ({"request": None}, "no request"),
        ({"request": {"uid": ""}}, "no request"),
        ({"request": 5}, "not an AdmissionReview"),
    ],
)
def test_what_is_no_review_in_v1_is_not_answered_as_one(change: Json, words: str) -> None:
    body = msgspec.json.decode(review(workload())) | change
    with pytest.raises(InvalidReview, match=words):
        asyncio.run(AdmissionReviews(Objects()).answer(WORKLOAD, msgspec.json.encode(body)))


def test_a_thousand_faults_make_a_message_of_some_length_and_no_more() -> None:
    given = workload()
    requests = {f"-{each}": "-1" for each in range(1000)} | {"pods": "1"}
    given["spec"]["podSets"][0]["template"]["spec"]["containers"][0]["resources"] = {
        "requests": requests
    }
    said = answered(WORKLOAD, given)
    assert 100 == len(said.status["details"]["causes"])
    assert len(said.status["message"]) <= 8192


def test_a_cluster_queue_that_matches_no_namespace_is_accepted_with_a_warning() -> None:
    queue = cluster_queue()
    queue["spec"].pop("namespaceSelector", None)
    said = answered(QUEUE, queue)
    assert said.allowed
    assert "spec.namespaceSelector: is not set" in said.warnings[0]
