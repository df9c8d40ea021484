# SPDX-License-Identifier: Apache-2.0
"""What Kueue's webhooks reject, beyond the recorded cases."""

from __future__ import annotations

from typing import Any

import pytest

from api.rule_examples import (
    SOUND,
    admitted,
    group,
    kueue,
    pod_set,
    said,
    spoilt,
    workload,
)
from kuota.api.base import Json
from kuota.api.gates import Gates
from kuota.api.rules import webhook_faults, webhook_warnings

ELASTIC = {"kueue.x-k8s.io/elastic-job": "true"}
BOOST = "kueue.x-k8s.io/priority-boost"
GATED = "kueue.x-k8s.io/admission-gated-by"
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
FIRST = "spec.resourceGroups[0].flavors[0].resources[0]"


def queue(**spec: Any) -> Json:
    return kueue("ClusterQueue", {"resourceGroups": [group()]} | spec)


QUEUES = [
    (queue(cohortName="c", resourceGroups=[group(lendingLimit=5)]), f"{FIRST}.lendingLimit",
     "Invalid"),
    (queue(resourceGroups=[group(lendingLimit=1)]), f"{FIRST}.lendingLimit", "Invalid"),
    (queue(fairSharing={"weight": "-1"}), "spec.fairSharing", "Invalid"),
    (queue(fairSharing={"weight": "1n"}), "spec.fairSharing", "Invalid"),
    (queue(preemption={"reclaimWithinCohort": "Never",
                       "borrowWithinCohort": {"policy": "LowerPriority"}}),
     "spec.preemption", "Invalid"),
    (queue(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}),
     "spec.namespaceSelector.matchExpressions[0].values", "Required"),
    (queue(namespaceSelector={"matchExpressions": [
        {"key": "a", "operator": "Exists", "values": ["b"]}]}),
     "spec.namespaceSelector.matchExpressions[0].values", "Forbidden"),
    (queue(namespaceSelector={"matchExpressions": [{"key": "a", "operator": "Like"}]}),
     "spec.namespaceSelector.matchExpressions[0].operator", "Invalid"),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "path", "kind"), QUEUES)
def test_a_queue_that_makes_no_sense_is_refused(obj: Json, path: str, kind: str) -> None:
    assert {(path, kind)} == said(webhook_faults(obj))


def test_a_weight_of_zero_or_above_a_billionth_is_fine() -> None:
    for weight in ("0", "2n", 1):
        assert [] == webhook_faults(queue(fairSharing={"weight": weight}))


def test_more_than_512_quotas_in_one_group_are_too_many() -> None:
    names = [f"r{number}" for number in range(64)]
    quotas = [{"name": name, "nominalQuota": 1} for name in names]
    flavors = [{"name": f"f{number}", "resources": quotas} for number in range(9)]
    obj = queue(resourceGroups=[{"coveredResources": names, "flavors": flavors}])
    assert {("spec.resourceGroups[0]", "Invalid")} == said(webhook_faults(obj))


def test_quotas_count_as_they_are_listed() -> None:
    """A group of 600 pairs by its size, of which 200 are listed, is not too large."""
    names = [f"r{number}" for number in range(60)]
    quotas = [{"name": name, "nominalQuota": 1} for name in names[:20]]
    flavors = [{"name": f"f{number}", "resources": quotas} for number in range(10)]
    obj = queue(resourceGroups=[{"coveredResources": names, "flavors": flavors}])
    assert [] == webhook_faults(obj)


def test_quotas_of_resources_that_are_not_covered_are_for_the_schema() -> None:
    obj = queue()
    quotas = obj["spec"]["resourceGroups"][0]["flavors"][0]["resources"]
    quotas.append({"name": "other", "nominalQuota": "-1", "borrowingLimit": "1"})
    assert [] == webhook_faults(obj)


def test_a_policy_of_borrowing_must_be_never_where_nothing_is_reclaimed() -> None:
    def said_of(borrowing: Any) -> set[tuple[str, str]]:
        rules = {"reclaimWithinCohort": "Never", "borrowWithinCohort": borrowing}
        return said(webhook_faults(queue(preemption=rules)))

    assert set() == said_of(None) == said_of({"policy": "Never"})
    assert {("spec.preemption", "Invalid")} == said_of({}) == said_of({"policy": ""})


def test_the_flavors_of_several_groups_are_not_counted_for_concurrent_admission() -> None:
    groups = [group(*(f"f{n}" for n in range(17))), group("other") | {"coveredResources": ["gpu"]}]
    groups[1]["flavors"][0]["resources"][0]["name"] = "gpu"
    obj = queue(resourceGroups=groups, concurrentAdmissionPolicy={"migration": {}})
    found = webhook_faults(obj, None, Gates.of({"ConcurrentAdmission": True}))
    assert [("spec.resourceGroups", "Invalid")] == sorted(said(found))


@pytest.mark.parametrize(
    ("value", "faults"),
    [
        ("bad,bad", ["Invalid", "Invalid"]),
        ("a.io/x,a.io/x,a.io/x", ["Invalid", "Invalid"]),
        ("   ", []),
        (" , ", ["Invalid", "Invalid"]),
    ],
)
def test_each_fault_of_an_admission_gate_is_reported_once(value: str, faults: list[str]) -> None:
    obj = spoilt(workload(), "metadata.annotations", {GATED: value})
    assert faults == [each.type.removeprefix("FieldValue") for each in webhook_faults(obj)]


@pytest.mark.parametrize(
    ("before", "after", "faults"),
    [
        ("a.io/x", "a.io/x,", ["Forbidden", "Invalid"]),
        ("", "a.io/x", ["Forbidden"]),
        ("a.io/x,a.io/y", "a.io/y", []),
        ("a.io/x", "", []),
    ],
)
def test_admission_gates_can_only_be_removed(before: str, after: str, faults: list[str]) -> None:
    old, new = (spoilt(workload(), "metadata.annotations", {GATED: v}) for v in (before, after))
    found = [each.type.removeprefix("FieldValue") for each in webhook_faults(new, old)]
    assert faults == sorted(found)


def test_constraints_of_a_mode_that_never_migrates_are_not_looked_into() -> None:
    migration = {"mode": "RetainFirstAdmission", "constraints": {"lastAcceptableFlavorName": "x"}}
    obj = queue(concurrentAdmissionPolicy={"migration": migration})
    path = "spec.concurrentAdmissionPolicy.migration.constraints"
    found = webhook_faults(obj, None, Gates.of({"ConcurrentAdmission": True}))
    assert [(path, "Forbidden")] == sorted(said(found))


def test_flavors_are_counted_only_if_concurrent_admission_has_its_one_group() -> None:
    gates = Gates.of({"ConcurrentAdmission": True})
    many, other = group(*(f"f{number}" for number in range(17))), group("other")
    other["coveredResources"] = ["memory"]
    other["flavors"][0]["resources"] = [{"name": "memory", "nominalQuota": 1}]

    def faulty(*groups: Json) -> set[tuple[str, str]]:
        return said(
            webhook_faults(
                queue(concurrentAdmissionPolicy={}, resourceGroups=list(groups)), None, gates
            )
        )

    assert {("spec.resourceGroups[0].flavors", "Invalid")} == faulty(many)
    assert {("spec.resourceGroups", "Invalid")} == faulty(many, other)


def test_all_that_is_wrong_with_the_value_of_a_taint_is_one_fault() -> None:
    taint = {"key": "a", "value": "x " * 40, "effect": "NoSchedule"}
    found = webhook_faults(kueue("ResourceFlavor", {"nodeTaints": [taint]}))
    assert ["spec.nodeTaints[0].value"] == [each.path for each in found]


def test_the_last_acceptable_flavor_must_be_one_of_the_queue() -> None:
    constraints = {"lastAcceptableFlavorName": "ghost"}
    policy = {"migration": {"mode": "TryPreferredFlavors", "constraints": constraints}}
    obj = queue(concurrentAdmissionPolicy=policy)
    path = "spec.concurrentAdmissionPolicy.migration.constraints.lastAcceptableFlavorName"
    assert {(path, "Invalid")} == said(
        webhook_faults(obj, None, Gates.of({"ConcurrentAdmission": True}))
    )
    assert [] == webhook_faults(obj)


def test_flavors_of_a_check_may_stay_wrong_until_the_queue_changes_its_flavors() -> None:
    checks = {"admissionChecks": [{"name": "ac", "onFlavors": ["ghost"]}]}
    old = queue(admissionChecksStrategy=checks)
    path = "spec.admissionChecksStrategy.admissionChecks[0].onFlavors[0]"
    assert [] == webhook_faults(old, old)
    assert {(path, "NotSupported")} == said(webhook_faults(old))
    changed = old | {"spec": old["spec"] | {"resourceGroups": [group("a", "b")]}}
    assert {(path, "NotSupported")} == said(webhook_faults(changed, old))


def test_a_cohort_may_lend_more_than_its_own_quota_but_needs_a_parent_for_limits() -> None:
    lending = {"resourceGroups": [group(lendingLimit=9)]}
    assert [] == webhook_faults(kueue("Cohort", lending | {"parentName": "root"}))
    assert {(f"{FIRST}.lendingLimit", "Invalid")} == said(webhook_faults(kueue("Cohort", lending)))


FLAVORS = [
    ("spec.nodeLabels", {"@": "x"}, "spec.nodeLabels", "Invalid"),
    ("spec.nodeTaints.0.key", "@", "spec.nodeTaints[0].key", "Invalid"),
    ("spec.nodeTaints.0.value", "a b", "spec.nodeTaints[0].value", "Invalid"),
    ("spec.nodeTaints", [{"key": "a", "effect": "NoSchedule"}] * 2, "spec.nodeTaints[1]",
     "Duplicate"),
    ("spec.tolerations.0.key", "@", "spec.tolerations[0].key", "Invalid"),
]  # fmt: skip


@pytest.mark.parametrize(("at", "value", "path", "kind"), FLAVORS)
def test_labels_and_taints_of_a_flavor_must_be_well_formed(
    at: str, value: Any, path: str, kind: str
) -> None:
    assert {(path, kind)} == said(webhook_faults(spoilt(SOUND[5], at, value)))


SLICES = [
    ({"podSetSliceRequiredTopology": "rack"}, "Required"),
    ({"podSetSliceRequiredTopology": "rack", "podSetSliceSize": 0}, "Invalid"),
    ({"podSetSliceSize": 2}, "Forbidden"),
    ({"podSetSliceSize": 0}, "Forbidden"),
]


@pytest.mark.parametrize(("request_", "kind"), SLICES)
def test_a_slice_needs_both_level_and_size(request_: Json, kind: str) -> None:
    obj = spoilt(workload(), "spec.podSets.0.topologyRequest", request_)
    path = "spec.podSets[0].topologyRequest.podSetSliceSize"
    assert {(path, kind)} == said(webhook_faults(obj))
    assert [] == webhook_faults(obj, None, Gates.of({"TASValidateWorkloadSliceSize": False}))


def test_a_negative_number_of_sub_groups_is_warned_about() -> None:
    obj = spoilt(workload(), "spec.podSets.0.topologyRequest", {"subGroupCount": -1})
    assert 1 == len(webhook_warnings(obj))
    assert [] == webhook_warnings(workload())


@pytest.mark.parametrize("boost", ["", "x", "1.5", "2147483648", "9" * 5000])
def test_a_priority_boost_must_be_a_number_of_32_bits(boost: str) -> None:
    obj = spoilt(workload(), "metadata.annotations", {BOOST: boost})
    gates = Gates.of({"PriorityBoost": True})
    assert {(f"metadata.annotations[{BOOST}]", "Invalid")} == said(webhook_faults(obj, None, gates))
    assert [] == webhook_faults(obj)


@pytest.mark.parametrize(
    ("value", "kind"), [("a.io/x,", "Invalid"), ("x", "Invalid"), ("a.io/" + "x" * 60, "TooLong")]
)
def test_admission_gates_must_be_domain_names_with_a_path(value: str, kind: str) -> None:
    obj = spoilt(workload(), "metadata.annotations", {GATED: value})
    assert {(f"metadata.annotations[{GATED}]", kind)} == said(webhook_faults(obj))


def test_pod_sets_that_hold_quota_may_only_shrink() -> None:
    old, smaller, larger = (admitted(pod_set(count=each)) for each in (3, 2, 4))
    smaller["status"], larger["status"] = old["status"], old["status"]
    assert [] == webhook_faults(smaller, old)
    assert {("spec.podSets.0", "Invalid")} == said(webhook_faults(larger, old))
    more = spoilt(old, "spec.podSets", [pod_set(count=3), pod_set("more")])
    assert {("spec.podSets", "Invalid")} == said(webhook_faults(more, old))


def test_equal_quantities_written_differently_are_no_change() -> None:
    at = "spec.podSets.0.template.spec.containers.0.resources.requests.cpu"
    assert [] == webhook_faults(spoilt(admitted(), at, "1000m"), admitted())
    assert {("spec.podSets.0", "Invalid")} == said(
        webhook_faults(spoilt(admitted(), at, "1001m"), admitted())
    )


def test_reclaimable_pods_only_grow_while_quota_is_held() -> None:
    old = admitted(reclaimablePods=[{"name": "main", "count": 1}])
    fewer = admitted(reclaimablePods=[{"name": "main", "count": 0}])
    path = "status.reclaimablePods[main]"
    assert {(f"{path}.count", "Invalid")} == said(webhook_faults(fewer, old))
    assert {(path, "Required")} == said(webhook_faults(admitted(), old))
    strange = admitted(reclaimablePods=[{"name": "ghost", "count": 0}])
    assert {("status.reclaimablePods[ghost].name", "NotSupported")} == said(webhook_faults(strange))


def test_the_updates_of_a_ready_check_are_frozen_at_their_old_place() -> None:
    def checks(*names: str, label: str) -> Json:
        update = {"name": "main", "labels": {"a": label}}
        made = [{"name": name, "state": "Ready", "podSetUpdates": [update]} for name in names]
        return admitted(admissionChecks=made)

    old, new = checks("one", "two", label="x"), checks("two", label="y")
    path = "status.admissionChecks[1].podSetUpdates"
    assert {(path, "Invalid")} == said(webhook_faults(new, old))


def test_only_a_nominated_cluster_can_be_chosen() -> None:
    old = admitted(nominatedClusterNames=["east"])
    assert [] == webhook_faults(admitted(clusterName="east"), old)
    assert {("status.clusterName", "Invalid")} == said(
        webhook_faults(admitted(clusterName="west"), old)
    )
    assert [] == webhook_faults(admitted(clusterName="west"), admitted(clusterName="east"))


def test_an_elastic_workload_cannot_have_a_minimum() -> None:
    obj = workload(podSets=[pod_set(minCount=1)])
    assert [] == webhook_faults(obj)
    elastic = spoilt(obj, "metadata.annotations", ELASTIC)
    assert {("spec.podSets", "Invalid")} == said(webhook_faults(elastic))


def test_assignments_are_checked_only_while_quota_is_reserved() -> None:
    obj = admitted()
    obj["status"]["admission"]["podSetAssignments"][0]["name"] = "other"
    path = "status.admission.podSetAssignments[0].name"
    assert {(path, "NotFound")} == said(webhook_faults(obj))
    assert [] == webhook_faults(spoilt(obj, "status.conditions", []))


def test_nodes_may_be_assigned_later_only_with_topology_aware_scheduling() -> None:
    old = admitted()
    nodes = {"levels": ["host"], "slices": []}
    new = spoilt(old, "status.admission.podSetAssignments.0.topologyAssignment", nodes)
    assert [] == webhook_faults(new, old)
    without = Gates.of({"TopologyAwareScheduling": False}, check=False)
    assert {("status.admission", "Invalid")} == said(webhook_faults(new, old, without))


def test_a_replacement_slice_may_choose_its_cluster_even_if_it_names_no_old_slice() -> None:
    old = spoilt(workload(), "metadata.annotations", {REPLACES: ""})
    assert [] == webhook_faults(spoilt(old, "status", {"clusterName": "any"}), old)
