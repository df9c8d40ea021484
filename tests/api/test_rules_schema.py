# SPDX-License-Identifier: Apache-2.0
"""What an API server rejects: fields, combinations of fields, and updates."""

from __future__ import annotations

from typing import Any

import pytest

from api.rule_examples import (
    SOUND,
    V1BETA1,
    admitted,
    group,
    kueue,
    pod_set,
    reserved,
    said,
    spoilt,
    workload,
)
from kuota.api.base import Json
from kuota.api.rules import faults, schema_faults, unknown_faults

QUEUE = SOUND[2]
FLAVOR = SOUND[5]
TOPOLOGY = SOUND[6]


@pytest.mark.parametrize("obj", SOUND, ids=lambda obj: obj["kind"])
def test_a_sound_object_of_every_kind_has_no_faults(obj: Json) -> None:
    assert [] == faults(obj)
    assert [] == unknown_faults(obj)


FIELDS = [
    (QUEUE, "spec.queueingStrategy", "FIFO", "spec.queueingStrategy", "NotSupported"),
    (QUEUE, "spec.queueingStrategy", 5, "spec.queueingStrategy", "TypeInvalid"),
    (QUEUE, "spec.cohortName", "Not_A_Name", "spec.cohortName", "Invalid"),
    (QUEUE, "spec.cohortName", "x" * 254, "spec.cohortName", "TooLong"),
    (QUEUE, "spec.cohortName", "", "spec.cohortName", "Invalid"),
    (QUEUE, "spec.resourceGroups", {}, "spec.resourceGroups", "TypeInvalid"),
    (QUEUE, "spec.resourceGroups", [group()] * 17, "spec.resourceGroups", "TooMany"),
    (QUEUE, "spec.resourceGroups.0.flavors", [], "spec.resourceGroups[0].flavors", "Invalid"),
    (QUEUE, "spec.resourceGroups.0", None, "spec.resourceGroups[0]", "TypeInvalid"),
    (QUEUE, "spec.fairSharing", {"weight": "much"}, "spec.fairSharing.weight", "Invalid"),
    (QUEUE, "spec.fairSharing", {"weight": 1.5}, "spec.fairSharing.weight", "TypeInvalid"),
    (QUEUE, "metadata.name", "Big", "metadata.name", "Invalid"),
    (QUEUE, "metadata.labels", {"a": 1}, "metadata.labels[a]", "TypeInvalid"),
    (workload(), "spec.podSets.0.count", -1, "spec.podSets[0].count", "Invalid"),
    (workload(), "spec.podSets.0.count", 2**31, "spec.podSets[0].count", "Invalid"),
    (workload(), "spec.podSets.0.count", True, "spec.podSets[0].count", "TypeInvalid"),
    (workload(), "spec.podSets", [], "spec.podSets", "Invalid"),
    (workload(), "spec.podSets.0.template", None, "spec.podSets[0].template", "Required"),
    (workload(), "spec.podSets", [pod_set(), pod_set()], "spec.podSets[1]", "Duplicate"),
    (admitted(), "status.conditions.0.lastTransitionTime", "noon",
     "status.conditions[0].lastTransitionTime", "Invalid"),
    (FLAVOR, "spec.nodeLabels", {f"k{i}": "v" for i in range(9)}, "spec.nodeLabels", "TooMany"),
    (SOUND[8], "value", None, "value", "Required"),
    (SOUND[9], "spec.managedResources", ["a", "a"], "spec.managedResources[1]", "Duplicate"),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "at", "value", "path", "kind"), FIELDS)
def test_a_field_is_held_to_its_constraints(
    obj: Json, at: str, value: Any, path: str, kind: str
) -> None:
    assert {(path, kind)} == said(schema_faults(spoilt(obj, at, value)))


RELATIONS = [
    (workload(), "spec.podSets.0.minCount", 3, "spec.podSets[0]"),
    (workload(), "spec.priorityClassRef",
     {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "x"}, "spec"),
    (workload(priority=1), "spec.priorityClassRef",
     {"group": "kueue.x-k8s.io", "kind": "PriorityClass", "name": "x"}, "spec.priorityClassRef"),
    (admitted(), "status.admission.podSetAssignments", [], "status.admission.podSetAssignments"),
    (admitted(clusterName="a"), "status.nominatedClusterNames", ["a"], "status"),
    (QUEUE, "spec.resourceGroups.0.coveredResources", ["cpu", "memory"], "spec.resourceGroups[0]"),
    (SOUND[3], "spec.resourceGroups.0.coveredResources", ["cpu", "memory"],
     "spec.resourceGroups[0]"),
    (QUEUE, "spec.resourceGroups.0", group(borrowingLimit=1),
     "spec.resourceGroups[0].flavors[0].resources[0].borrowingLimit"),
    (QUEUE, "spec.preemption", {"borrowWithinCohort": {"policy": "LowerPriority"}},
     "spec.preemption"),
    (QUEUE, "spec.flavorFungibility", {"preference": "PreemptionOverBorrowing"},
     "spec.flavorFungibility.preference"),
    (FLAVOR, "spec.nodeLabels", {}, "spec"),
    (FLAVOR, "spec.tolerations", [{"operator": "Equal"}], "spec.tolerations[0]"),
    (FLAVOR, "spec.tolerations", [{"key": "a", "tolerationSeconds": 1}], "spec.tolerations[0]"),
    (FLAVOR, "spec.tolerations", [{"key": "a", "operator": "In"}], "spec.tolerations[0]"),
    (FLAVOR, "spec.tolerations", [{"key": "a", "operator": "Exists", "value": "b"}],
     "spec.tolerations[0]"),
    (FLAVOR, "spec.tolerations", [{"key": "a", "operator": ""}], "spec.tolerations[0]"),
    (FLAVOR, "spec.nodeTaints", [{"key": "a", "effect": "Never"}], "spec.nodeTaints[0]"),
    (FLAVOR, "spec.nodeTaints", [{"key": "a", "effect": ""}], "spec.nodeTaints[0]"),
    (TOPOLOGY, "spec.levels.0.nodeLabel", "kubernetes.io/hostname", "spec.levels"),
    (SOUND[10], "spec.clusters", ["a", "a"], "spec.clusters"),
    (SOUND[11], "spec.clusterSource.clusterProfileRef", {"name": "p"}, "spec.clusterSource"),
]  # fmt: skip


@pytest.mark.parametrize(("obj", "at", "value", "path"), RELATIONS)
def test_fields_that_contradict_each_other_are_refused(
    obj: Json, at: str, value: Any, path: str
) -> None:
    assert {(path, "Invalid")} == said(schema_faults(spoilt(obj, at, value)))


def _reference(kind: str, name: str) -> Json:
    group = "scheduling.k8s.io" if kind == "PriorityClass" else "kueue.x-k8s.io"
    return {"group": group, "kind": kind, "name": name}


def _with_class(kind: str, name: str) -> Json:
    obj = spoilt(admitted(), "spec.priority", 1)
    return spoilt(obj, "spec.priorityClassRef", _reference(kind, name))


RUNNING = spoilt(admitted(), "status.conditions", [reserved(), reserved(kind="Admitted")])
HOST_FIRST = spoilt(TOPOLOGY, "spec.levels.1.nodeLabel", "node")

CHANGES = [
    (admitted(), spoilt(admitted(), "spec.queueName", "other"), "spec.queueName"),
    (RUNNING, spoilt(RUNNING, "spec.maximumExecutionTimeSeconds", 5),
     "spec.maximumExecutionTimeSeconds"),
    (spoilt(admitted(), "spec.priority", 1), _with_class("PriorityClass", "a"),
     "spec.priorityClassRef"),
    (_with_class("PriorityClass", "a"), _with_class("PriorityClass", "b"),
     "spec.priorityClassRef.name"),
    (admitted(clusterName="a"), admitted(clusterName="b"), "status"),
    (SOUND[4], spoilt(SOUND[4], "spec.clusterQueue", "other"), "spec.clusterQueue"),
    (SOUND[7], spoilt(SOUND[7], "spec.controllerName", "other"), "spec.controllerName"),
    (FLAVOR, spoilt(FLAVOR, "spec.topologyName", None), "spec"),
    (HOST_FIRST, spoilt(HOST_FIRST, "spec.levels.0.nodeLabel", "zone"), "spec.levels"),
    (TOPOLOGY | {"apiVersion": V1BETA1},
     spoilt(TOPOLOGY | {"apiVersion": V1BETA1}, "spec.levels.0.nodeLabel", "z"), "spec.levels"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "path"), CHANGES)
def test_what_is_frozen_cannot_change(old: Json, new: Json, path: str) -> None:
    assert {(path, "Invalid")} == said(schema_faults(new, old))
    assert [] == schema_faults(old, old)


ALLOWED = [
    (workload(), workload(queueName="other")),
    (admitted(), spoilt(admitted(), "spec.maximumExecutionTimeSeconds", 5)),
    (_with_class("WorkloadPriorityClass", "a"), _with_class("WorkloadPriorityClass", "b")),
    (admitted(clusterName="a"), admitted()),
    (TOPOLOGY, spoilt(TOPOLOGY, "spec.levels.0.nodeLabel", "zone")),
    (kueue("LocalQueue", {}), SOUND[4]),
    (SOUND[4], kueue("LocalQueue", {})),
]


@pytest.mark.parametrize(("old", "new"), ALLOWED)
def test_what_is_not_frozen_can_change(old: Json, new: Json) -> None:
    assert [] == schema_faults(new, old)


def test_an_unknown_field_is_named_with_the_closest_known_one() -> None:
    found = unknown_faults(spoilt(QUEUE, "spec.cohort", "x"))
    assert [("spec.cohort", "did you mean cohortName?")] == [(f.path, f.fix) for f in found]


def test_fields_of_pods_that_kuota_does_not_read_are_not_unknown() -> None:
    image = spoilt(workload(), "spec.podSets.0.template.spec.containers.0.image", "busybox")
    assert [] == unknown_faults(image)


def test_faults_of_the_older_version_are_reported_in_its_own_words() -> None:
    old = kueue("ClusterQueue", {"resourceGroups": [group(borrowingLimit=1)]}, V1BETA1)
    [fault] = faults(old)
    assert "set spec.cohort, or remove borrowingLimit" == fault.fix


def test_the_older_version_freezes_the_priority_class_by_its_own_name() -> None:
    def named(name: str) -> Json:
        spec = {"priority": 1, "priorityClassName": name, "podSets": [pod_set()]}
        spec["priorityClassSource"] = "scheduling.k8s.io/priorityclass"
        return kueue("Workload", spec, V1BETA1, status=admitted()["status"])

    assert {("spec.priorityClassName", "Invalid")} == said(faults(named("b"), named("a")))


def test_a_name_that_is_not_one_is_answered_with_one_that_is() -> None:
    [fault] = faults(spoilt(QUEUE, "metadata.name", "Team_A (new)"))
    assert 'use for example "team-a-new"' == fault.fix


def test_what_schema_and_webhook_both_refuse_is_said_once() -> None:
    twice = spoilt(QUEUE, "spec.resourceGroups.0", group("a", "a"))
    assert [("spec.resourceGroups[0].flavors[1]", "Duplicate")] == [*said(faults(twice))]


def test_a_queue_with_several_faults_shows_all_of_them() -> None:
    obj = spoilt(spoilt(QUEUE, "spec.queueingStrategy", "x"), "spec.stopPolicy", "y")
    obj = spoilt(obj, "spec.resourceGroups.0", group(nominalQuota=-1))
    assert {
        ("spec.queueingStrategy", "NotSupported"),
        ("spec.stopPolicy", "NotSupported"),
        ("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota", "Invalid"),
    } == said(faults(obj))
