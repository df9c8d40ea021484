# SPDX-License-Identifier: Apache-2.0
"""Defaults that are set when an object is created."""

from __future__ import annotations

import copy

from api.rule_examples import V1BETA1, kueue, pod_set, workload
from kuota.api.base import Json
from kuota.api.defaults import FINALIZER, defaulted, schema_defaulted
from kuota.api.gates import Gates


def spec_of(kind: str, spec: Json) -> Json:
    found: Json = defaulted(kueue(kind, spec))["spec"]
    return found


def test_a_cluster_queue_gets_its_policies_and_a_finalizer() -> None:
    filled = defaulted(kueue("ClusterQueue", {}))
    assert {
        "queueingStrategy": "BestEffortFIFO",
        "stopPolicy": "None",
        "flavorFungibility": {
            "whenCanBorrow": "MayStopSearch",
            "whenCanPreempt": "TryNextFlavor",
        },
        "preemption": {
            "reclaimWithinCohort": "Never",
            "withinClusterQueue": "Never",
            "borrowWithinCohort": {"policy": "Never"},
        },
    } == filled["spec"]
    assert [FINALIZER] == filled["metadata"]["finalizers"]


def test_what_is_set_is_kept_and_null_counts_as_unset() -> None:
    spec = spec_of("ClusterQueue", {"queueingStrategy": "StrictFIFO", "stopPolicy": None})
    assert "StrictFIFO" == spec["queueingStrategy"]
    assert "None" == spec["stopPolicy"]


def test_a_workload_gets_defaults_in_each_pod_set() -> None:
    spec = spec_of("Workload", {"podSets": [{"template": {}}, {"name": "b", "count": 0}]})
    assert spec["active"] is True
    assert [("main", 1), ("b", 0)] == [(each["name"], each["count"]) for each in spec["podSets"]]


def test_a_weight_is_filled_in_only_where_fair_sharing_is_mentioned() -> None:
    for kind in ("ClusterQueue", "Cohort", "LocalQueue"):
        assert {"weight": 1} == spec_of(kind, {"fairSharing": {}})["fairSharing"]
        assert "fairSharing" not in spec_of(kind, {})


def test_the_checks_configuration_gets_its_retries_and_location_type() -> None:
    retries = {"backoffBaseSeconds": 60, "backoffLimitCount": 3, "backoffMaxSeconds": 1800}
    assert retries == spec_of("ProvisioningRequestConfig", {})["retryStrategy"]
    partial = spec_of("ProvisioningRequestConfig", {"retryStrategy": {"backoffBaseSeconds": 5}})
    assert retries | {"backoffBaseSeconds": 5} == partial["retryStrategy"]
    cluster = spec_of("MultiKueueCluster", {"clusterSource": {"kubeConfig": {"location": "x"}}})
    assert "Secret" == cluster["clusterSource"]["kubeConfig"]["locationType"]


def test_a_finalizer_is_added_once_and_only_when_created() -> None:
    flavor = kueue("ResourceFlavor", {})
    once = defaulted(flavor)
    assert [FINALIZER] == once["metadata"]["finalizers"]
    assert once == defaulted(once)
    assert "finalizers" not in schema_defaulted(flavor)["metadata"]


def test_minimums_are_dropped_when_partial_admission_is_off() -> None:
    obj = workload(podSets=[pod_set(minCount=1)])
    assert 1 == defaulted(obj)["spec"]["podSets"][0]["minCount"]
    off = defaulted(obj, Gates.of({"PartialAdmission": False}, check=False))
    assert "minCount" not in off["spec"]["podSets"][0]


def test_the_older_version_has_defaults_of_its_own() -> None:
    check = defaulted(kueue("AdmissionCheck", {"controllerName": "x"}, V1BETA1))
    assert 15 == check["spec"]["retryDelayMinutes"]


def test_objects_of_others_are_left_alone() -> None:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}
    assert obj is defaulted(obj)


def test_what_needs_no_default_is_shared_and_the_argument_never_changed() -> None:
    obj = kueue("ClusterQueue", {"resourceGroups": [{"flavors": []}]})
    before = copy.deepcopy(obj)
    filled = defaulted(obj)
    assert before == obj
    assert obj["spec"]["resourceGroups"] is filled["spec"]["resourceGroups"]
    assert filled is schema_defaulted(filled)
