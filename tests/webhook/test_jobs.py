# SPDX-License-Identifier: Apache-2.0
"""Reviews of batch/v1 Jobs, and of kinds whose integration is disabled or not built."""

from __future__ import annotations

import pytest

from kuota.api.base import Json
from kuota.api.config.load import load
from kuota.api.config.shapes import Configuration, Integrations
from kuota.api.gates import Gates
from webhook.reviews import NAMESPACE, QUEUE_NAME, Objects, answered, job

MUTATE, VALIDATE = "/mutate-batch-v1-job", "/validate-batch-v1-job"
PRIORITY = "kueue.x-k8s.io/priority-class"
DEFAULT_QUEUE: dict[tuple[str, str], Json] = {
    ("localqueues", "default"): {"spec": {"clusterQueue": "cq"}}
}


ALL_JOBS = """
apiVersion: config.kueue.x-k8s.io/v1beta2
kind: Configuration
manageJobsWithoutQueueName: true
"""


def owner(kind: str = "Job", version: str = "batch/v1", uid: str = "u1") -> list[Json]:
    reference = {"apiVersion": version, "kind": kind, "name": "above", "uid": uid}
    return [reference | {"controller": True}]


def test_a_job_with_a_queue_is_held_back() -> None:
    said = answered(MUTATE, job(queue="q"))
    assert [{"op": "add", "path": "/spec/suspend", "value": True}] == said.patch


def test_a_job_that_was_not_to_be_suspended_is() -> None:
    said = answered(MUTATE, job(queue="q", suspend=False))
    assert [{"op": "replace", "path": "/spec/suspend", "value": True}] == said.patch


def test_a_job_without_a_queue_is_left_alone() -> None:
    assert [] == answered(MUTATE, job()).patch


def test_the_queue_called_default_takes_jobs_that_name_none() -> None:
    said = answered(MUTATE, job(), objects=Objects(DEFAULT_QUEUE))
    assert {QUEUE_NAME: "default"} == said.object["metadata"]["labels"]
    assert said.object["spec"]["suspend"]


def test_labels_are_made_where_there_are_none() -> None:
    given = job()
    del given["metadata"]["labels"]
    said = answered(MUTATE, given, objects=Objects(DEFAULT_QUEUE))
    wanted = {"op": "add", "path": "/metadata/labels", "value": {QUEUE_NAME: "default"}}
    assert wanted == said.patch[0]


def test_all_jobs_of_a_managed_namespace_are_held_back_when_the_configuration_says_so() -> None:
    config = load(ALL_JOBS)
    assert answered(MUTATE, job(), config=config).object["spec"]["suspend"]


def test_jobs_of_the_system_are_never_managed_without_a_queue() -> None:
    namespace = {"metadata": {"labels": {"kubernetes.io/metadata.name": "kube-system"}}}
    objects = Objects({("namespaces", "team"): namespace} | DEFAULT_QUEUE)
    assert [] == answered(MUTATE, job(), objects=objects).patch


def test_the_default_priority_class_is_given_even_without_a_queue() -> None:
    objects = Objects({("workloadpriorityclasses", "default"): {}})
    said = answered(MUTATE, job(), objects=objects)
    assert {PRIORITY: "default"} == said.object["metadata"]["labels"]


def test_a_failed_priority_class_lookup_rejects_no_job() -> None:
    objects = Objects()
    objects.broken.add("workloadpriorityclasses")
    assert answered(MUTATE, job(queue="q"), objects=objects).allowed


def test_a_queue_that_cannot_be_looked_up_is_reported_as_a_fault_of_ours() -> None:
    objects = Objects()
    objects.broken.add("localqueues")
    said = answered(MUTATE, job(), objects=objects)
    assert (False, 500) == (said.allowed, said.status["code"])


def test_a_job_below_a_managed_one_runs_with_it() -> None:
    above = job(queue="q", uid="u1")
    child = job(ownerReferences=owner())
    objects = Objects({("jobs", "above"): above} | DEFAULT_QUEUE)
    assert [] == answered(MUTATE, child, objects=objects).patch


def test_a_job_below_an_unmanaged_one_stands_on_its_own() -> None:
    objects = Objects({("jobs", "above"): job(uid="u1")})
    child = job(queue="q", ownerReferences=owner())
    assert answered(MUTATE, child, objects=objects).object["spec"]["suspend"]


def test_an_owner_of_the_same_name_is_another_one() -> None:
    objects = Objects({("jobs", "above"): job(queue="q", uid="u2")})
    child = job(queue="q", ownerReferences=owner())
    assert answered(MUTATE, child, objects=objects).object["spec"]["suspend"]


def test_a_job_of_a_cron_job_stands_on_its_own() -> None:
    child = job(queue="q", ownerReferences=owner("CronJob"))
    assert answered(MUTATE, child).object["spec"]["suspend"]


def test_a_job_whose_owner_is_not_found_is_refused_unless_it_is_going() -> None:
    child = job(queue="q", ownerReferences=owner())
    said = answered(MUTATE, child)
    assert (False, "Forbidden") == (said.allowed, said.status["reason"])
    going = job(queue="q", ownerReferences=owner(), deletionTimestamp="2026-01-01T00:00:00Z")
    assert answered(MUTATE, going).allowed


def test_owners_that_own_one_another_are_refused() -> None:
    objects = Objects({("jobs", "above"): job(uid="u1", ownerReferences=owner())})
    said = answered(MUTATE, job(queue="q", ownerReferences=owner()), objects=objects)
    assert not said.allowed


def test_children_of_what_somebody_else_manages_get_no_default_queue() -> None:
    config = Configuration(
        integrations=Integrations(
            frameworks=["batch/job"], external_frameworks=["Flow.v1.example.com"]
        )
    )
    child = job(ownerReferences=owner("Flow", "example.com/v1"))
    assert [] == answered(MUTATE, child, objects=Objects(DEFAULT_QUEUE), config=config).patch


def test_a_queue_that_sends_jobs_away_says_who_manages_them() -> None:
    checks = {"admissionChecksStrategy": {"admissionChecks": [{"name": "far"}]}}
    objects = Objects(
        DEFAULT_QUEUE
        | {
            ("clusterqueues", "cq"): {"spec": checks},
            ("admissionchecks", "far"): {"spec": {"controllerName": "kueue.x-k8s.io/multikueue"}},
        }
    )
    said = answered(MUTATE, job(queue="default"), objects=objects)
    assert "kueue.x-k8s.io/multikueue" == said.object["spec"]["managedBy"]
    off = Gates.of({"MultiKueue": False})
    said = answered(MUTATE, job(queue="default"), objects=objects, gates=off)
    assert "managedBy" not in said.object["spec"]


def test_changed_jobs_are_not_mutated() -> None:
    assert [] == answered(MUTATE, job(queue="q"), job()).patch


def test_a_bad_queue_name_is_refused() -> None:
    said = answered(VALIDATE, job(queue="Not_A_Name"))
    assert {(f"metadata.labels[{QUEUE_NAME}]", "FieldValueInvalid")} == said.faults


def test_the_queue_of_a_running_job_stays() -> None:
    said = answered(VALIDATE, job(queue="b", suspend=False), job(queue="a", suspend=True))
    assert {(f"metadata.labels[{QUEUE_NAME}]", "FieldValueInvalid")} == said.faults
    assert answered(VALIDATE, job(queue="b", suspend=True), job(queue="a", suspend=True)).allowed


def test_a_queue_cannot_be_taken_off_where_there_is_a_default_one() -> None:
    before, after = job(queue="a", suspend=True), job(suspend=True)
    assert answered(VALIDATE, after, before).allowed
    assert not answered(VALIDATE, after, before, objects=Objects(DEFAULT_QUEUE)).allowed


def test_deletions_and_status_updates_are_ignored() -> None:
    bad = job(queue="Not_A_Name")
    assert answered(VALIDATE, bad, operation="DELETE").allowed
    assert answered(VALIDATE, bad, bad, subResource="status").allowed


@pytest.mark.parametrize("spoil", [{"kind": "CronJob"}, {"apiVersion": "batch/v2"}, {"kind": []}])
def test_what_is_no_job_is_refused(spoil: Json) -> None:
    said = answered(VALIDATE, job() | spoil)
    assert (False, 400) == (said.allowed, said.status["code"])


def test_jobs_pass_when_their_integration_is_off() -> None:
    config = Configuration(integrations=Integrations(frameworks=["pod"]))
    assert [] == answered(MUTATE, job(queue="q"), config=config).patch
    assert answered(VALIDATE, job(queue="Not_A_Name"), config=config).allowed


@pytest.mark.parametrize(
    "path",
    [
        "/mutate--v1-pod",
        "/validate--v1-pod",
        "/mutate-jobset-x-k8s-io-v1alpha2-jobset",
        "/validate-ray-io-v1-raycluster",
        "/mutate-apps-v1-deployment",
    ],
)
def test_kinds_whose_integration_is_not_built_pass_untouched(path: str) -> None:
    config = load(ALL_JOBS)
    thing = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {QUEUE_NAME: "q"}}}
    said = answered(path, thing, config=config)
    assert (True, []) == (said.allowed, said.patch)


def test_a_namespace_that_is_not_known_is_not_managed() -> None:
    objects = Objects(DEFAULT_QUEUE)
    del objects.found["namespaces", "team"]
    assert [] == answered(MUTATE, job(), objects=objects).patch
    assert NAMESPACE is Objects().found["namespaces", "team"]


def test_a_job_whose_label_is_misspelt_is_accepted_with_a_warning() -> None:
    wrong = job() | {"metadata": {"name": "x", "labels": {"kueue.x-k8s.io/queue_name": "q"}}}
    said = answered(VALIDATE, wrong)
    assert said.allowed
    assert "did you mean kueue.x-k8s.io/queue-name?" in said.warnings[0]


def test_a_kind_whose_integration_is_disabled_is_accepted_with_a_warning() -> None:
    labels = {"labels": {QUEUE_NAME: "q"}}
    group = "leaderworkerset.x-k8s.io"
    workers = {"apiVersion": f"{group}/v1", "kind": "LeaderWorkerSet", "metadata": labels}
    said = answered("/validate-leaderworkerset-x-k8s-io-v1-leaderworkerset", workers)
    assert said.allowed
    framework = f"{group}/leaderworkerset"
    assert f"the integration {framework} is disabled" in said.warnings[0]


def test_a_required_topology_level_without_a_topology_is_warned_about() -> None:
    asking = job(queue="q")
    meta = {"annotations": {"kueue.x-k8s.io/podset-required-topology": "block"}}
    asking["spec"]["template"]["metadata"] = meta
    said = answered(VALIDATE, asking, topology_levels=lambda: {"rack"})
    assert "no Topology has the level block" in said.warnings[0]
    assert [] == answered(VALIDATE, asking).warnings
    said = answered(VALIDATE, asking, node_labels=lambda: {"rack"})
    assert "no node has the label block" in said.warnings[0]
