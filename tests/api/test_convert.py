# SPDX-License-Identifier: Apache-2.0
"""Conversion between the API versions, for each field that differs."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from kuota.api import topology_codec
from kuota.api.base import Json
from kuota.api.convert import convert
from kuota.api.kueue import KINDS


def old(kind: str, **parts: Any) -> Json:
    return {"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": kind, **parts}


def new(kind: str, **parts: Any) -> Json:
    return {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": kind, **parts}


def workload_assignment(assignment: Json) -> Json:
    return {
        "admission": {"podSetAssignments": [{"name": "main", "topologyAssignment": assignment}]}
    }


POD_CLASS = {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "high"}
WORKLOAD_CLASS = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}
DOMAINS = {
    "levels": ["rack", "kubernetes.io/hostname"],
    "domains": [{"values": ["r1", "n-1"], "count": 2}, {"values": ["r1", "n-2"], "count": 2}],
}
SLICES = {
    "levels": ["rack", "kubernetes.io/hostname"],
    "slices": [
        {
            "domainCount": 2,
            "valuesPerLevel": [
                {"universal": "r1"},
                {"individual": {"prefix": "n-", "roots": ["1", "2"]}},
            ],
            "podCounts": {"universal": 2},
        }
    ],
}

BOTH_WAYS = [
    ("ClusterQueue", {"spec": {"cohort": "eng"}}, {"spec": {"cohortName": "eng"}}),
    (
        "ClusterQueue",
        {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]}}},
        {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}]}}},
    ),
    (
        "LocalQueue",
        {"status": {"flavorUsage": [{"name": "gpu"}], "flavorsReservation": []}},
        {"status": {"flavorsUsage": [{"name": "gpu"}], "flavorsReservation": []}},
    ),
    (
        "LocalQueue",
        {"status": {"fairSharing": {"admissionFairSharingStatus": {"consumedResources": {}}}}},
        {"status": {"fairSharing": {"admissionFairSharingStatus": {"consumedResources": {}}}}},
    ),
    (
        "MultiKueueCluster",
        {"spec": {"kubeConfig": {"location": "secret", "locationType": "Secret"}}},
        {
            "spec": {
                "clusterSource": {"kubeConfig": {"location": "secret", "locationType": "Secret"}}
            }
        },
    ),
    (
        "MultiKueueCluster",
        {"spec": {"kubeConfig": {"location": ""}, "clusterProfileRef": {"name": "p"}}},
        {"spec": {"clusterSource": {"clusterProfileRef": {"name": "p"}}}},
    ),
    (
        "Workload",
        {
            "spec": {
                "priorityClassName": "high",
                "priorityClassSource": "scheduling.k8s.io/priorityclass",
            }
        },
        {"spec": {"priorityClassRef": POD_CLASS}},
    ),
    (
        "Workload",
        {
            "spec": {
                "priorityClassName": "high",
                "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass",
            }
        },
        {"spec": {"priorityClassRef": WORKLOAD_CLASS}},
    ),
    (
        "Workload",
        {"status": {"accumulatedPastExexcutionTimeSeconds": 7}},
        {"status": {"accumulatedPastExecutionTimeSeconds": 7}},
    ),
    ("Workload", {"status": workload_assignment(DOMAINS)}, {"status": workload_assignment(SLICES)}),
    ("ResourceFlavor", {"spec": {"topologyName": "t"}}, {"spec": {"topologyName": "t"}}),
    ("WorkloadPriorityClass", {"value": 3}, {"value": 3}),
]

UP_ONLY = [
    (
        "ClusterQueue",
        {
            "spec": {
                "admissionChecks": ["a", "b"],
                "admissionChecksStrategy": {"admissionChecks": [{"name": "c"}]},
            }
        },
        {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "a"}, {"name": "b"}]}}},
    ),
    ("ClusterQueue", {"spec": {"admissionChecks": []}}, {"spec": {}}),
    (
        "ClusterQueue",
        {"spec": {"flavorFungibility": {"whenCanBorrow": "Borrow", "whenCanPreempt": "Preempt"}}},
        {
            "spec": {
                "flavorFungibility": {
                    "whenCanBorrow": "MayStopSearch",
                    "whenCanPreempt": "MayStopSearch",
                }
            }
        },
    ),
    (
        "ClusterQueue",
        {"status": {"pendingWorkloadsStatus": {}, "pendingWorkloads": 1}},
        {"status": {"pendingWorkloads": 1}},
    ),
    (
        "ClusterQueue",
        {"status": {"fairSharing": {"weightedShare": 1, "admissionFairSharingStatus": {}}}},
        {"status": {"fairSharing": {"weightedShare": 1}}},
    ),
    (
        "Cohort",
        {"status": {"fairSharing": {"weightedShare": 1, "admissionFairSharingStatus": {}}}},
        {"status": {"fairSharing": {"weightedShare": 1}}},
    ),
    ("LocalQueue", {"status": {"flavors": [{"name": "gpu"}]}}, {"status": {}}),
    (
        "AdmissionCheck",
        {"spec": {"controllerName": "c", "retryDelayMinutes": 15}},
        {"spec": {"controllerName": "c"}},
    ),
    (
        "MultiKueueCluster",
        {"spec": {"kubeConfig": {"location": ""}}},
        {"spec": {"clusterSource": {}}},
    ),
    ("Workload", {"spec": {"priorityClassName": "high"}}, {"spec": {}}),
    ("Workload", {"spec": {"priorityClassName": "high", "priorityClassSource": ""}}, {"spec": {}}),
]

DOWN_ONLY = [
    ("ClusterQueue", {"spec": {"concurrentAdmissionPolicy": {"migration": {}}}}, {"spec": {}}),
    (
        "MultiKueueConfig",
        {"spec": {"clusters": ["a"], "quotaManagement": "Manual"}},
        {"spec": {"clusters": ["a"]}},
    ),
    (
        "Workload",
        {
            "spec": {
                "podSets": [
                    {
                        "topologyRequest": {
                            "required": "rack",
                            "podsetSliceRequiredTopologyConstraints": [],
                        }
                    }
                ]
            }
        },
        {"spec": {"podSets": [{"topologyRequest": {"required": "rack"}}]}},
    ),
    (
        "Workload",
        {"spec": {"preemptionGates": [{"name": "g"}]}, "status": {"preemptionGates": []}},
        {"spec": {}, "status": {}},
    ),
]


@pytest.mark.parametrize(("kind", "before", "after"), BOTH_WAYS + UP_ONLY)
def test_v1beta1_is_written_as_v1beta2(kind: str, before: Json, after: Json) -> None:
    assert new(kind, **after) == convert(old(kind, **before), "v1beta2")


@pytest.mark.parametrize(("kind", "after", "before"), BOTH_WAYS)
def test_v1beta2_is_written_as_v1beta1(kind: str, before: Json, after: Json) -> None:
    assert old(kind, **after) == convert(new(kind, **before), "v1beta1")


@pytest.mark.parametrize(("kind", "before", "after"), DOWN_ONLY)
def test_what_v1beta1_cannot_say_is_dropped(kind: str, before: Json, after: Json) -> None:
    assert old(kind, **after) == convert(new(kind, **before), "v1beta1")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gets_the_other_apiversion_and_keeps_the_rest(kind: str) -> None:
    parts = {"metadata": {"name": "x", "labels": {"a": "b"}}, "unknown": {"kept": [1]}}
    assert new(kind, **parts) == convert(old(kind, **parts), "v1beta2")
    assert old(kind, **parts) == convert(new(kind, **parts), "v1beta1")


def test_unknown_fields_inside_converted_parts_are_kept() -> None:
    before = old("ClusterQueue", spec={"cohort": "eng", "future": 1})
    assert new("ClusterQueue", spec={"cohortName": "eng", "future": 1}) == convert(
        before, "v1beta2"
    )


def test_conversion_leaves_its_argument_alone() -> None:
    obj = old("Workload", spec={"priorityClassName": "x"}, status=workload_assignment(DOMAINS))
    before = deepcopy(obj)
    convert(obj, "v1beta2")
    assert before == obj


def test_objects_of_the_wanted_version_or_of_another_group_come_back_unchanged() -> None:
    for obj in (
        new("Workload", spec={"priorityClassName": "x"}),
        {"apiVersion": "v1", "kind": "Pod"},
    ):
        assert obj is convert(obj, "v1beta2")


@pytest.mark.parametrize("value", [None, [], [None], {}, "text", 7])
@pytest.mark.parametrize("kind", KINDS)
def test_odd_values_do_not_stop_a_conversion(kind: str, value: Any) -> None:
    for make, version in ((old, "v1beta2"), (new, "v1beta1")):
        assert kind == convert(make(kind, spec=value, status=value), version)["kind"]
        nested = {"fairSharing": value, "admission": {"podSetAssignments": value}}
        spec = {"podSets": value, "admissionChecks": value, "priorityClassRef": value}
        assert kind == convert(make(kind, spec=spec, status=nested), version)["kind"]


@pytest.mark.parametrize("assignment", [{"domains": [{"values": 1}]}, {"slices": "none"}])
def test_an_assignment_in_no_known_form_is_kept(assignment: Json) -> None:
    status = workload_assignment(assignment)
    assert status == convert(old("Workload", status=status), "v1beta2")["status"]
    assert status == convert(new("Workload", status=status), "v1beta1")["status"]


def test_a_version_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="v1beta1 and v1beta2"):
        convert(old("Workload"), "v1")


def test_repetitions_of_one_domain_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topology_codec, "MOST_EXPANDED", 3)
    repeated = {
        "domainCount": 2**31 - 1,
        "valuesPerLevel": [{"universal": "n-1"}],
        "podCounts": {"universal": 1},
    }
    stored = {"levels": ["kubernetes.io/hostname"], "slices": [repeated, repeated]}
    found = convert(new("Workload", status=workload_assignment(stored)), "v1beta1")
    (assignment,) = found["status"]["admission"]["podSetAssignments"]
    assert 3 * [{"values": ["n-1"], "count": 1}] == assignment["topologyAssignment"]["domains"]
