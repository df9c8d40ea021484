# SPDX-License-Identifier: Apache-2.0
"""Reviews of Pods: validated if their integration is enabled, and not changed."""

from __future__ import annotations

from typing import Any

import pytest

from kuota.api.base import Json, LabelSelector
from kuota.api.config.shapes import Configuration, Integrations
from kuota.api.gates import Gates
from webhook.reviews import QUEUE_NAME, Answer, Objects, answered

MUTATE, VALIDATE = "/mutate--v1-pod", "/validate--v1-pod"
PREFIX = "kueue.x-k8s.io/"
QUEUE_AT = f"metadata.labels[{QUEUE_NAME}]"
GATED = [{"name": f"{PREFIX}admission"}]


def pod(*, queue: str = "", gated: bool = False, **metadata: Any) -> Json:
    labels = {QUEUE_NAME: queue} if queue else {}
    spec: Json = {"containers": [], "schedulingGates": GATED if gated else []}
    named = {"name": "x", "namespace": "team", "labels": labels} | metadata
    return {"apiVersion": "v1", "kind": "Pod", "metadata": named, "spec": spec}


def asked(obj: Json, old: Json | None = None, path: str = VALIDATE, **more: Any) -> Answer:
    """The answer where Jobs and Pods are managed."""
    config = Configuration(integrations=Integrations(frameworks=["batch/job", "pod"]))
    return answered(path, obj, old, config=config, **more)


def test_pods_pass_when_their_integration_is_off() -> None:
    assert answered(VALIDATE, pod(queue="Not_A_Name")).allowed


def test_a_pod_is_not_gated_while_the_pod_integration_is_off() -> None:
    assert [] == asked(pod(queue="q"), path=MUTATE).patch


def test_a_pod_with_a_bad_queue_name_is_refused() -> None:
    assert {(QUEUE_AT, "FieldValueInvalid")} == asked(pod(queue="Not_A_Name")).faults
    assert asked(pod(queue="q")).allowed


def test_a_pod_of_a_group_has_to_say_how_large_that_is() -> None:
    said = asked(pod(labels={f"{PREFIX}pod-group-name": "g"}))
    at = f"metadata.annotations[{PREFIX}pod-group-total-count]"
    assert {(at, "FieldValueRequired")} == said.faults


def test_the_queue_of_a_pod_changes_only_while_it_is_gated() -> None:
    assert {(QUEUE_AT, "FieldValueInvalid")} == asked(pod(queue="b"), pod(queue="a")).faults
    assert asked(pod(queue="b", gated=True), pod(queue="a", gated=True)).allowed


def test_a_queue_cannot_be_taken_off_where_there_is_a_default_one() -> None:
    before, after = pod(queue="a", gated=True), pod(gated=True)
    assert asked(after, before).allowed
    objects = Objects({("localqueues", "default"): {"spec": {"clusterQueue": "cq"}}})
    assert not asked(after, before, objects=objects).allowed


def test_a_managed_pod_whose_job_is_managed_is_worth_a_warning() -> None:
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    said = asked(pod(labels={f"{PREFIX}managed": "true"}, ownerReferences=[owner]))
    assert (True, 1) == (said.allowed, len(said.warnings))


def _below(kind: str, api_version: str, name: str) -> list[Json]:
    owner = {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{name}"}
    return [owner | {"controller": True}]


def _stored(name: str, *, queue: str = "", owners: list[Json] | None = None) -> Json:
    labels = {QUEUE_NAME: queue} if queue else {}
    meta = {"name": name, "uid": f"uid-{name}", "labels": labels, "ownerReferences": owners or []}
    return {"metadata": meta}


@pytest.mark.parametrize("queue", ["", "q"])
def test_a_pod_below_a_disabled_kind_runs_on_the_quota_of_the_outermost_owner(queue: str) -> None:
    wrapper = _below("AppWrapper", "workload.codeflare.dev/v1beta2", "top")
    training = _below("PyTorchJob", "kubeflow.org/v1", "middle")
    found = {
        ("localqueues", "default"): {"spec": {"clusterQueue": "cq"}},
        ("appwrappers", "top"): _stored("top", queue="q"),
        ("pytorchjobs", "middle"): _stored("middle", owners=wrapper),
        ("replicasets", "replicas"): _stored("replicas", owners=training),
    }
    frameworks = ["workload.codeflare.dev/appwrapper", "pod"]
    config = Configuration(
        integrations=Integrations(frameworks=frameworks),
        managed_jobs_namespace_selector=LabelSelector(),
    )
    for owners in (training, _below("ReplicaSet", "apps/v1", "replicas")):
        new = pod(queue=queue, ownerReferences=owners)
        assert [] == answered(MUTATE, new, config=config, objects=Objects(found)).patch
    del found["appwrappers", "top"]["metadata"]["labels"][QUEUE_NAME]
    assert [] != answered(MUTATE, new, config=config, objects=Objects(found)).patch


def test_replica_sets_of_pods_that_are_not_queued_are_not_looked_up() -> None:
    objects = Objects()
    objects.broken = {"replicasets"}
    config = Configuration(
        integrations=Integrations(frameworks=["pod"]),
        managed_jobs_namespace_selector=LabelSelector(),
    )
    new = pod(ownerReferences=_below("ReplicaSet", "apps/v1", "x"))
    said = answered(MUTATE, new, config=config, objects=objects)
    assert (True, []) == (said.allowed, said.patch)


def test_topology_requests_are_validated_whatever_the_gates() -> None:
    annotations = {f"{PREFIX}podset-unconstrained-topology": "maybe"}
    assert not asked(pod(annotations=annotations)).allowed
    off = Gates.of({"TopologyAwareScheduling": False}, check=False)
    assert not asked(pod(annotations=annotations), gates=off).allowed


def test_deletions_and_status_updates_are_ignored() -> None:
    bad = pod(queue="Not_A_Name")
    assert asked(bad, operation="DELETE").allowed
    assert asked(bad, bad, subResource="status").allowed


@pytest.mark.parametrize("spoil", [{"kind": "Job"}, {"apiVersion": "v2"}, {"metadata": []}])
def test_whatever_is_sent_is_answered(spoil: Json) -> None:
    said = asked(pod() | spoil)
    assert said.allowed is ("metadata" in spoil)
