# SPDX-License-Identifier: Apache-2.0
"""Conversion of queues, cohorts, flavors and checks to engine values, with unset fields."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import convert

from kuota.api import kueue
from kuota.api.base import Key
from kuota.bridge import inbound
from kuota.engine import model
from kuota.engine.amounts import FlavorResource
from kuota.engine.model import CheckRule, Preemption, Quota


def queue(**spec: Any) -> model.ClusterQueue:
    record = {"metadata": {"name": "gpus"}, "spec": spec}
    return inbound.cluster_queue(convert(record, kueue.ClusterQueue))


def group(*quotas: dict[str, Any]) -> dict[str, Any]:
    return {
        "coveredResources": [each["name"] for each in quotas],
        "flavors": [{"name": "a100", "resources": list(quotas)}],
    }


def test_a_queue_without_policies_is_best_effort_active_and_preempts_nothing() -> None:
    assert queue() == model.ClusterQueue(
        name="gpus",
        strategy="BestEffortFIFO",
        stop_policy="None",
        preemption=Preemption(within_cluster_queue="Never", reclaim_within_cohort="Never"),
    )


def test_cpu_is_counted_in_thousandths_and_everything_else_in_pieces() -> None:
    (found,) = queue(
        resourceGroups=[
            group(
                {"name": "cpu", "nominalQuota": "1500m"},
                {"name": "memory", "nominalQuota": "1Ki", "borrowingLimit": "0"},
                {"name": "gpu", "nominalQuota": "8", "lendingLimit": "2"},
            )
        ]
    ).groups
    assert found.resources == ("cpu", "memory", "gpu")
    assert found.quotas == {
        FlavorResource("a100", "cpu"): Quota(1500, None, None),
        FlavorResource("a100", "memory"): Quota(1024, 0, None),
        FlavorResource("a100", "gpu"): Quota(8, None, 2),
    }


def test_a_quota_that_is_no_number_is_a_fault() -> None:
    (fault,) = queue(resourceGroups=[group({"name": "gpu", "nominalQuota": "many"})]).faults
    assert fault.startswith("spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: ")


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Has"}]}},
            "spec.namespaceSelector.matchExpressions[0]: a: unknown operator 'Has'",
        ),
        (
            {"namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}},
            "spec.namespaceSelector.matchExpressions[0]: a: unknown operator 'Gt'",
        ),
        ({"queueingStrategy": "LIFO"}, "spec.queueingStrategy: unknown value 'LIFO'"),
        ({"stopPolicy": "Never"}, "spec.stopPolicy: unknown value 'Never'"),
        (
            {"preemption": {"withinClusterQueue": "Any"}},
            "spec.preemption.withinClusterQueue: unknown value 'Any'",
        ),
        (
            {"preemption": {"borrowWithinCohort": {"policy": "Any"}}},
            "spec.preemption.borrowWithinCohort.policy: unknown value 'Any'",
        ),
        (
            {"flavorFungibility": {"preference": "Any"}},
            "spec.flavorFungibility.preference: unknown value 'Any'",
        ),
        ({"fairSharing": {"weight": "-1"}}, "spec.fairSharing.weight: must not be negative"),
        (
            {"resourceGroups": [group({"name": "gpu", "nominalQuota": "-1"})]},
            "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: must not be negative",
        ),
    ],
)
def test_a_queue_that_cannot_be_understood_is_nothing_but_its_faults(
    spec: dict[str, Any], fault: str
) -> None:
    found = queue(**spec)
    assert len(found.faults) == 1
    assert found.faults[0].startswith(fault)
    assert found == model.ClusterQueue(name="gpus", faults=found.faults)


def test_a_preemption_block_leaves_unset_what_it_does_not_name() -> None:
    found = queue(preemption={"reclaimWithinCohort": "Any"}).preemption
    assert found == Preemption(within_cluster_queue="", reclaim_within_cohort="Any")


def test_borrowing_while_preempting_is_allowed_up_to_a_priority() -> None:
    rule = {"policy": "LowerPriority", "maxPriorityThreshold": 10}
    found = queue(preemption={"borrowWithinCohort": rule}).preemption
    assert (found.borrow_within_cohort, found.borrow_max_priority) == (True, 10)
    found = queue(preemption={"borrowWithinCohort": {"policy": "Never"}}).preemption
    assert not found.borrow_within_cohort


def test_checks_without_flavors_hold_for_all_of_them() -> None:
    rules = [{"name": "budget"}, {"name": "provisioning", "onFlavors": ["spot"]}]
    budget, provisioning = queue(admissionChecksStrategy={"admissionChecks": rules}).checks
    assert budget == CheckRule(name="budget")
    assert budget.covers(frozenset({"a100"}))
    assert provisioning.covers(frozenset({"a100", "spot"}))
    assert not provisioning.covers(frozenset({"a100"}))


def test_fair_sharing_by_use_and_flavor_migration_are_read_from_their_policies() -> None:
    found = queue(
        admissionScope={"admissionMode": "UsageBasedAdmissionFairSharing"},
        concurrentAdmissionPolicy={
            "migration": {
                "mode": "TryPreferredFlavors",
                "constraints": {"lastAcceptableFlavorName": "spot"},
            }
        },
    )
    assert found.usage_based
    assert found.concurrent_admission == model.ConcurrentAdmission(
        mode="TryPreferredFlavors", last_acceptable_flavor="spot"
    )


def test_a_weight_of_half_is_half_and_none_is_one() -> None:
    half = {"metadata": {"name": "lab"}, "spec": {"fairSharing": {"weight": "500m"}}}
    assert inbound.cohort(convert(half, kueue.Cohort)).weight == 0.5
    assert inbound.cohort(convert({"metadata": {"name": "lab"}}, kueue.Cohort)).weight == 1.0


def test_a_local_queue_keeps_its_namespace() -> None:
    record = {
        "metadata": {"name": "vision", "namespace": "ml"},
        "spec": {"clusterQueue": "gpus", "stopPolicy": "Hold"},
    }
    found = inbound.local_queue(convert(record, kueue.LocalQueue))
    assert (found.key, found.cluster_queue) == (Key("ml", "vision"), "gpus")
    assert found.stop_policy == "Hold"


def test_a_flavor_brings_its_labels_taints_and_topology() -> None:
    record = {
        "metadata": {"name": "a100"},
        "spec": {
            "nodeLabels": {"gpu": "a100"},
            "nodeTaints": [{"key": "gpu", "effect": "NoSchedule"}],
            "topologyName": "rows",
        },
    }
    found = inbound.flavor(convert(record, kueue.ResourceFlavor))
    assert (found.labels, found.topology) == ({"gpu": "a100"}, "rows")
    assert [taint.key for taint in found.taints] == ["gpu"]


@pytest.mark.parametrize(("status", "active"), [("True", True), ("False", False), (None, False)])
def test_a_check_counts_as_active_only_when_its_controller_says_so(
    status: str | None, active: bool
) -> None:
    conditions = [{"type": "Active", "status": status}] if status else []
    record = {"metadata": {"name": "budget"}, "status": {"conditions": conditions}}
    assert inbound.admission_check(convert(record, kueue.AdmissionCheck)).active is active
