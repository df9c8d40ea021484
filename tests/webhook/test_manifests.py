# SPDX-License-Identifier: Apache-2.0
"""The webhook configurations match the specification."""

from __future__ import annotations

import asyncio

import pytest

from kuota.api.base import Json
from kuota.api.config.frameworks import FRAMEWORKS
from kuota.webhook.manifests import configurations
from kuota.webhook.reviews import AdmissionReviews
from webhook.reviews import Objects, review

KUEUE = {"ClusterQueue", "Cohort", "ResourceFlavor", "Workload"}


def by_name(configuration: Json) -> dict[str, Json]:
    return {each["name"]: each for each in configuration["webhooks"]}


def test_there_are_as_many_entries_as_kueue_ships() -> None:
    mutating, validating = configurations()
    assert 21 == len(by_name(mutating))
    assert 22 == len(by_name(validating))
    assert "kueue-mutating-webhook-configuration" == mutating["metadata"]["name"]
    assert "kueue-validating-webhook-configuration" == validating["metadata"]["name"]


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ("mjob.kb.io", "/mutate-batch-v1-job"),
        ("mpod.kb.io", "/mutate--v1-pod"),
        ("mjobset.kb.io", "/mutate-jobset-x-k8s-io-v1alpha2-jobset"),
        ("mmpijob.kb.io", "/mutate-kubeflow-org-v2beta1-mpijob"),
        ("mdeployment.kb.io", "/mutate-apps-v1-deployment"),
        ("mclusterqueue.kb.io", "/mutate-kueue-x-k8s-io-v1beta2-clusterqueue"),
        ("mworkload.kb.io", "/mutate-kueue-x-k8s-io-v1beta2-workload"),
    ],
)
def test_paths_are_those_that_kueue_asks_at(entry: str, path: str) -> None:
    found = by_name(configurations()[0])[entry]
    service = {"namespace": "kueue-system", "name": "kueue-webhook-service", "path": path}
    assert {"service": service} == found["clientConfig"]


def test_every_entry_fails_closed_and_has_no_side_effects() -> None:
    for configuration in configurations():
        for each in configuration["webhooks"]:
            said = each["failurePolicy"], each["sideEffects"], each["admissionReviewVersions"]
            assert ("Fail", "None", ["v1"]) == said


def test_only_serving_kinds_are_mutated_when_they_change() -> None:
    changing = {
        name
        for name, each in by_name(configurations()[0]).items()
        if each["rules"][0]["operations"] != ["CREATE"]
    }
    assert {"mdeployment.kb.io", "mstatefulset.kb.io", "mleaderworkerset.kb.io"} == changing


def test_deletions_are_never_asked_about() -> None:
    for each in configurations()[1]["webhooks"]:
        assert ["CREATE", "UPDATE"] == each["rules"][0]["operations"]


def test_the_status_of_a_workload_is_validated_and_not_mutated() -> None:
    mutating, validating = map(by_name, configurations())
    assert ["workloads"] == mutating["mworkload.kb.io"]["rules"][0]["resources"]
    resources = validating["vworkload.kb.io"]["rules"][0]["resources"]
    assert ["workloads", "workloads/status"] == resources


def test_jobs_of_the_system_and_of_our_own_namespace_are_not_asked_about() -> None:
    names = {"vcohort.kb.io", "vworkload.kb.io", "vclusterqueue.kb.io", "vresourceflavor.kb.io"}
    for name, each in by_name(configurations("queues")[1]).items():
        if name in names:
            assert "namespaceSelector" not in each
        else:
            (only,) = each["namespaceSelector"]["matchExpressions"]
            assert ("NotIn", ["kube-system", "queues"]) == (only["operator"], only["values"])


def test_namespaces_and_integrations_can_be_narrowed() -> None:
    selector = {"matchLabels": {"team": "yes"}}
    mutating, validating = configurations(
        integrations=["batch/job"], namespace_selector=selector, url="https://127.0.0.1:9443"
    )
    assert {"mjob.kb.io", "mclusterqueue.kb.io", "mresourceflavor.kb.io", "mworkload.kb.io"} == set(
        by_name(mutating)
    )
    job = by_name(validating)["vjob.kb.io"]
    assert selector == job["namespaceSelector"]
    assert {"url": "https://127.0.0.1:9443/validate-batch-v1-job"} == job["clientConfig"]


def test_an_integration_that_does_not_exist_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="unknown job integration batch/jobs"):
        configurations(integrations=["batch/jobs"])


def test_every_path_that_is_asked_at_is_answered() -> None:
    webhooks = AdmissionReviews(Objects())
    for configuration in configurations():
        for each in configuration["webhooks"]:
            path = each["clientConfig"]["service"]["path"]
            body = review({"apiVersion": "v1", "kind": "Anything"}, operation="DELETE")
            assert b'"allowed":true' in asyncio.run(webhooks.answer(path, body))


def test_every_integration_has_both_webhooks() -> None:
    kinds = {each.kind.lower() for each in FRAMEWORKS.values()}
    mutating, validating = (
        {name.removesuffix(".kb.io")[1:] for name in by_name(each)} for each in configurations()
    )
    own = {each.lower() for each in KUEUE}
    assert kinds == mutating - own
    assert kinds == validating - own
