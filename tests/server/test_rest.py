# SPDX-License-Identifier: Apache-2.0
"""Creating, replacing, patching and deleting objects, by Kubernetes' API conventions."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.base import Json
from kuota.api.faults import ErrorType, FieldError, Invalid
from kuota.server.admission import Review
from server.served import (
    APPLY,
    JOBS,
    KUEUE,
    MAPS,
    MERGE,
    PODS,
    Local,
    config_map,
    job,
    namespace,
    pod,
)

JSON_PATCH = "application/json-patch+json"


def test_a_created_object_has_identity_and_time(api: Local) -> None:
    made = api.ask("POST", MAPS, config_map("a", x="1"))
    assert "2026-11-15T12:00:00Z" == made["metadata"]["creationTimestamp"]
    assert made["metadata"]["uid"]
    assert "default" == made["metadata"]["namespace"]
    assert made == api.ask("GET", f"{MAPS}/a")


def test_a_name_that_is_taken_is_refused(api: Local) -> None:
    api.ask("POST", MAPS, config_map("a"))
    status = api.refusal("POST", MAPS, config_map("a"))
    assert (409, "AlreadyExists") == (status["code"], status["reason"])
    assert {"name": "a", "kind": "configmaps"} == status["details"]


def test_names_are_made_up_from_their_beginning(api: Local) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}}
    names = {api.ask("POST", MAPS, body)["metadata"]["name"] for _ in range(3)}
    assert 3 == len(names)
    assert all(name.startswith("made-") and len(name) == 10 for name in names)


def test_what_is_not_there_is_not_found(api: Local) -> None:
    status = api.refusal("GET", f"{JOBS}/none")
    assert 'jobs.batch "none" not found' == status["message"]
    assert {"name": "none", "group": "batch", "kind": "jobs"} == status["details"]
    assert 404 == api.refusal("DELETE", f"{JOBS}/none")["code"]


def test_objects_need_a_namespace_that_exists(api: Local) -> None:
    status = api.refusal("POST", "/api/v1/namespaces/none/configmaps", config_map("a"))
    assert (404, 'namespaces "none" not found') == (status["code"], status["message"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"apiVersion": "v2"}, "does not match the expected apiVersion"),
        ({"kind": "Secret"}, "does not match the expected kind"),
        ({"metadata": {"name": "a", "namespace": "other"}}, "does not match the namespace"),
        ({"metadata": {"name": "a", "resourceVersion": "1"}}, "should not be set"),
    ],
)
def test_an_object_must_agree_with_its_path(api: Local, change: Json, said: str) -> None:
    status = api.refusal("POST", MAPS, config_map("a") | change)
    assert 400 == status["code"]
    assert said in status["message"]


def test_a_stale_replacement_is_a_conflict(api: Local) -> None:
    made = api.ask("POST", MAPS, config_map("a", x="1"))
    api.ask("PUT", f"{MAPS}/a", made | {"data": {"x": "2"}})
    status = api.refusal("PUT", f"{MAPS}/a", made | {"data": {"x": "3"}})
    assert (409, "Conflict") == (status["code"], status["reason"])
    made["metadata"].pop("resourceVersion")
    assert {"x": "4"} == api.ask("PUT", f"{MAPS}/a", made | {"data": {"x": "4"}})["data"]


def test_identity_cannot_be_changed(api: Local) -> None:
    made = api.ask("POST", MAPS, config_map("a"))
    patch = {"metadata": {"creationTimestamp": "2000-01-01T00:00:00Z", "generation": 9}}
    found = api.ask("PATCH", f"{MAPS}/a", patch, media=MERGE)
    assert made["metadata"]["creationTimestamp"] == found["metadata"]["creationTimestamp"]
    assert 409 == api.refusal("PATCH", f"{MAPS}/a", {"metadata": {"uid": "x"}}, media=MERGE)["code"]
    status = api.refusal("PATCH", f"{MAPS}/a", {"metadata": {"name": "b"}}, media=MERGE)
    assert 400 == status["code"]


def test_a_write_that_changes_nothing_writes_nothing(api: Local) -> None:
    made = api.ask("POST", JOBS, job("a"))
    again = api.ask("PUT", f"{JOBS}/a", made)
    assert made == again


def test_generation_counts_changes_of_the_spec_only(api: Local) -> None:
    api.ask("POST", JOBS, job("a"))
    api.ask("PATCH", f"{JOBS}/a", {"metadata": {"labels": {"x": "y"}}}, media=MERGE)
    api.ask("PATCH", f"{JOBS}/a/status", {"status": {"active": 1}}, media=MERGE)
    assert 1 == api.ask("GET", f"{JOBS}/a")["metadata"]["generation"]
    api.ask("PATCH", f"{JOBS}/a", {"spec": {"parallelism": 2}}, media=MERGE)
    assert 2 == api.ask("GET", f"{JOBS}/a")["metadata"]["generation"]


def test_status_and_the_rest_are_written_apart(api: Local) -> None:
    made = api.ask("POST", JOBS, job("a") | {"status": {"active": 5}})
    assert {} == made["status"]
    both = {"spec": {"parallelism": 3}, "status": {"active": 2}}
    through_status = api.ask("PATCH", f"{JOBS}/a/status", both, media=MERGE)
    assert (1, {"active": 2}) == (through_status["spec"]["parallelism"], through_status["status"])
    through_main = api.ask("PATCH", f"{JOBS}/a", both | {"status": {"active": 9}}, media=MERGE)
    assert (3, {"active": 2}) == (through_main["spec"]["parallelism"], through_main["status"])


def test_dry_runs_answer_and_store_nothing(api: Local) -> None:
    before = api.store.revision
    made = api.ask("POST", JOBS, job("a"), dryRun="All")
    assert 6 == made["spec"]["backoffLimit"]
    assert 404 == api.refusal("GET", f"{JOBS}/a")["code"]
    api.ask("POST", JOBS, job("b"))
    patched = api.ask("PATCH", f"{JOBS}/b", {"spec": {"parallelism": 4}}, media=MERGE, dryRun="All")
    assert 4 == patched["spec"]["parallelism"]
    api.ask("DELETE", f"{JOBS}/b", dryRun="All")
    assert before + 1 == api.store.revision
    assert 400 == api.refusal("POST", JOBS, job("c"), dryRun="Some")["code"]


def test_unknown_fields_are_dropped_warned_of_or_refused(api: Local) -> None:
    body = job("a", paralelism=1)
    answer = api.raw("POST", JOBS, body)
    assert ('unknown field "spec.paralelism"',) == answer.warnings
    assert "paralelism" not in api.ask("GET", f"{JOBS}/a")["spec"]
    assert () == api.raw("POST", JOBS, job("b", x=1), fieldValidation="Ignore").warnings
    status = api.refusal("POST", JOBS, job("c", x=1), fieldValidation="Strict")
    assert 'strict decoding error: unknown field "spec.x"' in status["message"]
    twice = b'{"metadata":{"name":"d"},"data":{"a":"1","a":"2"}}'
    status = api.refusal("POST", MAPS, twice, fieldValidation="Strict")
    assert 'duplicate field "data.a"' in status["message"]


def test_fields_of_the_wrong_type_are_refused(api: Local) -> None:
    status = api.refusal("POST", JOBS, job("a", parallelism="two"))
    assert 400 == status["code"]
    assert "spec.parallelism: must be a whole number" in status["message"]
    status = api.refusal("POST", f"{KUEUE}/clusterqueues", {"metadata": {"name": "a"}, "spec": 5})
    assert (422, "Invalid") == (status["code"], status["reason"])


def test_all_faults_of_an_object_are_causes(api: Local) -> None:
    body = job("a", parallelism=-1)
    body["spec"]["template"]["spec"]["restartPolicy"] = "Always"
    status = api.refusal("POST", JOBS, body)
    fields = [each["field"] for each in status["details"]["causes"]]
    assert ["spec.parallelism", "spec.template.spec.restartPolicy"] == fields
    assert "FieldValueNotSupported" == status["details"]["causes"][1]["reason"]


def test_a_json_patch_applies_and_its_test_can_fail(api: Local) -> None:
    api.ask("POST", MAPS, config_map("a", x="1"))
    ops: list[Any] = [{"op": "test", "path": "/data/x", "value": "1"}]
    api.ask(
        "PATCH",
        f"{MAPS}/a",
        [*ops, {"op": "add", "path": "/data/y", "value": "2"}],
        media=JSON_PATCH,
    )
    assert {"x": "1", "y": "2"} == api.ask("GET", f"{MAPS}/a")["data"]
    ops = [{"op": "test", "path": "/data/x", "value": "9"}]
    assert 422 == api.refusal("PATCH", f"{MAPS}/a", ops, media=JSON_PATCH)["code"]


def test_patches_of_unknown_media_are_refused(api: Local) -> None:
    api.ask("POST", f"{KUEUE}/resourceflavors", {"metadata": {"name": "f"}})
    strategic = "application/strategic-merge-patch+json"
    status = api.refusal("PATCH", f"{KUEUE}/resourceflavors/f", {}, media=strategic)
    assert (415, "UnsupportedMediaType") == (status["code"], status["reason"])


def test_applying_creates_and_conflicts_have_causes(api: Local) -> None:
    config = config_map("a", x="1")
    answer = api.raw("PATCH", f"{MAPS}/a", config, media=APPLY, fieldManager="one")
    assert 201 == answer.status
    config["data"]["x"] = "2"
    status = api.refusal("PATCH", f"{MAPS}/a", config, media=APPLY, fieldManager="two")
    assert [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.x"}
    ] == status["details"]["causes"]
    forced = api.ask("PATCH", f"{MAPS}/a", config, media=APPLY, fieldManager="two", force="true")
    assert {"x": "2"} == forced["data"]


def test_preconditions_guard_a_deletion(api: Local) -> None:
    made = api.ask("POST", MAPS, config_map("a"))
    other = {"preconditions": {"uid": "another"}}
    assert 409 == api.refusal("DELETE", f"{MAPS}/a", other)["code"]
    same = {"preconditions": {"uid": made["metadata"]["uid"]}}
    status = api.ask("DELETE", f"{MAPS}/a", same)
    assert ("Success", made["metadata"]["uid"]) == (status["status"], status["details"]["uid"])


def test_finalizers_hold_an_object_and_none_can_be_added_then(api: Local) -> None:
    body = config_map("a")
    body["metadata"]["finalizers"] = ["x/one", "x/two"]
    api.ask("POST", MAPS, body)
    marked = api.ask("DELETE", f"{MAPS}/a")
    assert "2026-11-15T12:00:00Z" == marked["metadata"]["deletionTimestamp"]
    more = {"metadata": {"finalizers": ["x/one", "x/two", "x/three"]}}
    assert 422 == api.refusal("PATCH", f"{MAPS}/a", more, media=MERGE)["code"]
    api.ask("PATCH", f"{MAPS}/a", {"metadata": {"finalizers": ["x/two"]}}, media=MERGE)
    api.ask("PATCH", f"{MAPS}/a", {"metadata": {"finalizers": None}}, media=MERGE)
    assert 404 == api.refusal("GET", f"{MAPS}/a")["code"]


def test_a_collection_is_deleted_by_selector(api: Local) -> None:
    for name in ("a", "b", "c"):
        body = config_map(name)
        body["metadata"]["labels"] = {"keep": str(name == "b").lower()}
        api.ask("POST", MAPS, body)
    api.ask("DELETE", MAPS, labelSelector="keep!=true")
    assert ["b"] == [each["metadata"]["name"] for each in api.ask("GET", MAPS)["items"]]


def test_a_bound_pod_waits_for_its_node_and_a_free_one_does_not(api: Local) -> None:
    api.ask("POST", PODS, pod("free"))
    api.ask("DELETE", f"{PODS}/free")
    assert 404 == api.refusal("GET", f"{PODS}/free")["code"]
    api.ask("POST", PODS, pod("bound"))
    api.ask("POST", f"{PODS}/bound/binding", {"target": {"kind": "Node", "name": "here"}})
    assert (
        409 == api.refusal("POST", f"{PODS}/bound/binding", {"target": {"name": "there"}})["code"]
    )
    marked = api.ask("DELETE", f"{PODS}/bound")
    assert "2026-11-15T12:00:30Z" == marked["metadata"]["deletionTimestamp"]
    sooner = api.ask("DELETE", f"{PODS}/bound", {"gracePeriodSeconds": 5})
    assert "2026-11-15T12:00:05Z" == sooner["metadata"]["deletionTimestamp"]
    api.ask("DELETE", f"{PODS}/bound", {"gracePeriodSeconds": 0})
    assert 404 == api.refusal("GET", f"{PODS}/bound")["code"]


def test_of_a_pod_only_little_may_change(api: Local) -> None:
    api.ask("POST", PODS, pod("a"))
    for spec in ({"nodeName": "here"}, {"hostNetwork": True}, {"restartPolicy": "Never"}):
        status = api.refusal("PATCH", f"{PODS}/a", {"spec": spec}, media=MERGE)
        assert (422, "Invalid") == (status["code"], status["reason"])
    more = {"spec": {"tolerations": [{"key": "gpu", "operator": "Exists"}]}}
    api.ask("PATCH", f"{PODS}/a", more, media=MERGE)
    less: Json = {"spec": {"tolerations": []}}
    assert 422 == api.refusal("PATCH", f"{PODS}/a", less, media=MERGE)["code"]
    gated = pod("gated", schedulingGates=[{"name": "kueue.x-k8s.io/admission"}])
    api.ask("POST", PODS, gated)
    release = {"spec": {"schedulingGates": None, "nodeSelector": {"gpu": "h100"}}}
    assert "schedulingGates" not in api.ask("PATCH", f"{PODS}/gated", release, media=MERGE)["spec"]


def test_a_pod_with_a_finalizer_outlives_its_process(api: Local) -> None:
    body = pod("a", nodeName="here")
    body["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    api.ask("POST", PODS, body)
    api.ask("DELETE", f"{PODS}/a")
    api.ask("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, media=MERGE)
    held = api.ask("DELETE", f"{PODS}/a", {"gracePeriodSeconds": 0})
    assert 0 == held["metadata"]["deletionGracePeriodSeconds"]
    api.ask("PATCH", f"{PODS}/a", {"metadata": {"finalizers": None}}, media=MERGE)
    assert 404 == api.refusal("GET", f"{PODS}/a")["code"]


def test_a_namespace_goes_when_its_content_has_gone(api: Local) -> None:
    api.ask("POST", "/api/v1/namespaces", namespace("team"))
    held = config_map("held")
    held["metadata"]["finalizers"] = ["x/held"]
    inside = "/api/v1/namespaces/team/configmaps"
    api.ask("POST", inside, held)
    api.ask("POST", inside, config_map("free"))
    marked = api.ask("DELETE", "/api/v1/namespaces/team")
    assert "Terminating" == marked["status"]["phase"]
    api.settle()
    assert ["held"] == [each["metadata"]["name"] for each in api.ask("GET", inside)["items"]]
    status = api.refusal("POST", inside, config_map("late"))
    assert "NamespaceTerminating" == status["details"]["causes"][0]["reason"]
    api.ask("PATCH", f"{inside}/held", {"metadata": {"finalizers": None}}, media=MERGE)
    api.settle()
    assert 404 == api.refusal("GET", "/api/v1/namespaces/team")["code"]
    assert 403 == api.refusal("DELETE", "/api/v1/namespaces/default")["code"]


def test_a_suspended_job_may_get_a_node_selector_and_a_running_one_not(api: Local) -> None:
    api.ask("POST", JOBS, job("a", suspend=True))
    placed = {"spec": {"template": {"spec": {"nodeSelector": {"gpu": "h100"}}}}}
    api.ask("PATCH", f"{JOBS}/a", placed, media=MERGE)
    images = {"spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}}
    assert 422 == api.refusal("PATCH", f"{JOBS}/a", images, media=MERGE)["code"]
    api.ask("PATCH", f"{JOBS}/a", {"spec": {"suspend": False}}, media=MERGE)
    moved = {"spec": {"template": {"spec": {"nodeSelector": {"gpu": "t4"}}}}}
    status = api.refusal("PATCH", f"{JOBS}/a", moved, media=MERGE)
    assert ["spec.template"] == [each["field"] for each in status["details"]["causes"]]


def test_an_indexed_job_may_grow_with_its_parallelism(api: Local) -> None:
    api.ask("POST", JOBS, job("a", completionMode="Indexed", completions=2, parallelism=2))
    alone = {"spec": {"completions": 3}}
    assert 422 == api.refusal("PATCH", f"{JOBS}/a", alone, media=MERGE)["code"]
    api.ask("PATCH", f"{JOBS}/a", {"spec": {"completions": 3, "parallelism": 3}}, media=MERGE)


def test_a_job_finds_its_pods_by_generated_labels(api: Local) -> None:
    made = api.ask("POST", JOBS, job("a"))
    uid, labels = made["metadata"]["uid"], made["spec"]["template"]["metadata"]["labels"]
    assert {"batch.kubernetes.io/controller-uid": uid} == made["spec"]["selector"]["matchLabels"]
    assert {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "a",
        "controller-uid": uid,
        "job-name": "a",
    } == labels
    own = job("b", manualSelector=True, selector={"matchLabels": {"x": "y"}})
    assert 422 == api.refusal("POST", JOBS, own)["code"]
    own["spec"]["template"]["metadata"] = {"labels": {"x": "y"}}
    assert {"x": "y"} == api.ask("POST", JOBS, own)["spec"]["template"]["metadata"]["labels"]


def test_a_pods_priority_comes_from_its_class(api: Local) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    api.ask("POST", classes, {"metadata": {"name": "high"}, "value": 1000})
    assert 1000 == api.ask("POST", PODS, pod("a", priorityClassName="high"))["spec"]["priority"]
    assert 0 == api.ask("POST", PODS, pod("b"))["spec"]["priority"]
    status = api.refusal("POST", PODS, pod("c", priorityClassName="none"))
    assert (403, True) == (status["code"], "no PriorityClass" in status["message"])


def test_of_several_default_classes_the_lowest_counts(api: Local) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name, value in (("a", 1000), ("b", 10), ("c", 100)):
        named = {"metadata": {"name": name}, "value": value, "globalDefault": True}
        api.ask("POST", classes, named)
    assert 10 == api.ask("POST", PODS, pod("p"))["spec"]["priority"]


def test_quantities_are_spelt_in_one_way(api: Local) -> None:
    container = {
        "name": "main",
        "image": "x",
        "resources": {"limits": {"cpu": 0.5, "memory": 1024}},
    }
    made = api.ask("POST", PODS, pod("a", containers=[container]))
    wanted = {"cpu": "500m", "memory": "1024"}
    assert {"limits": wanted, "requests": wanted} == made["spec"]["containers"][0]["resources"]


def test_hooks_change_and_refuse(api: Local) -> None:
    def hook(review: Review) -> Json:
        if review.kind.kind != "ConfigMap":
            return review.object
        if review.object.get("data", {}).get("bad"):
            fault = FieldError(path="data.bad", type=ErrorType.FORBIDDEN, message="no")
            raise Invalid([fault])
        return review.object | {"data": {"by": review.user.name, "new": str(review.old is None)}}

    local = Local(hooks=[hook])
    assert {"by": "root", "new": "True"} == local.ask("POST", MAPS, config_map("a"))["data"]
    found = local.ask("PATCH", f"{MAPS}/a", {"data": {"x": "y"}}, media=MERGE)
    assert {"by": "root", "new": "False"} == found["data"]
    status = local.refusal("POST", MAPS, config_map("b", bad="yes"))
    assert ["data.bad"] == [each["field"] for each in status["details"]["causes"]]
    local.close()


def test_an_older_version_can_write_status_without_losing_the_spec(api: Local) -> None:
    queue = {"metadata": {"name": "q"}, "spec": {"cohortName": "lab"}}
    api.ask("POST", f"{KUEUE}/clusterqueues", queue)
    old = "/apis/kueue.x-k8s.io/v1beta1/clusterqueues/q"
    api.ask("PATCH", f"{old}/status", {"status": {"pendingWorkloads": 3}}, media=MERGE)
    found = api.ask("GET", f"{KUEUE}/clusterqueues/q")
    assert ("lab", 3) == (found["spec"]["cohortName"], found["status"]["pendingWorkloads"])
    assert (
        "lab"
        == api.ask("PATCH", old, {"spec": {"stopPolicy": "Hold"}}, media=MERGE)["spec"]["cohort"]
    )
    assert "lab" == api.ask("GET", f"{KUEUE}/clusterqueues/q")["spec"]["cohortName"]


def test_empty_lists_and_maps_are_as_good_as_absent(api: Local) -> None:
    body = pod("a", tolerations=[], nodeSelector={})
    body["metadata"] |= {"labels": {}, "finalizers": []}
    made = api.ask("POST", PODS, body)
    assert not {"tolerations", "nodeSelector"} & set(made["spec"])
    assert not {"labels", "finalizers"} & set(made["metadata"])
