# SPDX-License-Identifier: Apache-2.0
"""Adapters accept what the format of the cases allows, not only what most records contain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conformance.__main__ import judge
from conformance.case import Case, Json
from conformance.failing_api import FailingApi
from conformance.jobs import rules_of
from conformance.registry import load_adapters
from conformance.skips import Skips
from control.virtual import VirtualClock, played
from kuota.api.base import Key
from kuota.kube.errors import Invalid
from kuota.kube.resources import CLUSTER_QUEUES

NOW = "2026-01-02T03:04:05Z"
HOST = "kubernetes.io/hostname"


def verdict(suite: str, inputs: Json, expected: Json, **record: Any) -> tuple[str, str]:
    case = {"now": NOW, "inputs": inputs, "expected": expected, **record}
    return judge(Case("own", suite, case), load_adapters(), Skips())


def workload(name: str, namespace: str = "team", **status: Any) -> Json:
    pod_set = {"name": "main", "count": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"queueName": "lq", "podSets": [pod_set]},
        "status": status,
    }


def cluster_queue(resource: str = "gpu", flavor: str = "h200", quota: str = "4") -> Json:
    offered = {"name": flavor, "resources": [{"name": resource, "nominalQuota": quota}]}
    return {
        "metadata": {"name": "cq"},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": [resource], "flavors": [offered]}],
        },
    }


@pytest.mark.parametrize(("mode", "held"), [("Preempt", 4), ("Fit", 7), ("DeferredFit", 7)])
def test_only_a_head_that_would_preempt_is_limited_to_its_quota(mode: str, held: int) -> None:
    inputs = {
        "assignmentMode": mode,
        "assignmentUsage": {"h200/gpu": 7},
        "borrowing": 0,
        "clusterQueues": [cluster_queue()],
    }
    expected = {"wantReserved": {"h200/gpu": held}}
    assert ("PASS", "") == verdict("scheduler/TestResourcesToReserve", inputs, expected)


@pytest.mark.parametrize(
    ("selector", "moved"), [("dep notin (a)", 1), ("dep", 1), ("!dep", 0), ("dep in (a, b)", 1)]
)
def test_namespaces_are_selected_by_any_selector(selector: str, moved: int) -> None:
    inputs = {
        "inadmissibleWorkloadsToRequeue": [{"workload": workload("waiting")}],
        "namespaceSelector": selector,
        "namespaces": [{"metadata": {"name": "team", "labels": {"dep": "b"}}}],
        "queueInadmissibleWorkloads": True,
    }
    expected = {
        "wantActiveWorkloads": ["team/waiting"] if moved else None,
        "wantInadmissibleWorkloadsRequeued": moved,
        "wantPending": 1,
    }
    assert ("PASS", "") == verdict("queue/TestClusterQueueImpl", inputs, expected)


def placed(pod_set: Json, expected: Json, **inputs: Any) -> tuple[str, str]:
    asked = {"podSetName": "main", "count": 1, "requests": {"cpu": 1000}, **pod_set}
    node = {
        "metadata": {"name": "n1", "labels": {HOST: "n1"}},
        "status": {
            "allocatable": {"cpu": "2", "pods": "9"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    given = {"levels": [HOST], "topologyName": "t", "nodes": [node], "podSets": [asked], **inputs}
    wanted = {"podSets": [{"podSetName": "main", **expected}]}
    gates = {"TASCacheTopologyTree": False, "TASReplaceNodeOnNodeTaints": False}
    return verdict("cache/TestFindTopologyAssignments", given, wanted, featureGates=gates)


ON_NODE = {"wantAssignment": {"levels": [HOST], "domains": [{"values": ["n1"], "count": 1}]}}


def test_a_workload_on_healthy_nodes_is_placed_like_any_other() -> None:
    healthy = workload("w", unhealthyNodes=None)
    request = {"topologyRequest": {"required": HOST}}
    assert ("PASS", "") == placed(request, ON_NODE, workload=healthy)


def test_invalid_constraints_on_nodes_are_compared_by_their_cause() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "In"}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    request = {"topologyRequest": {"required": HOST}, "nodeAffinity": affinity}
    text = "invalid affinity node selectors: &NodeSelector{}, reason: values: Required value"
    assert ("PASS", "") == placed(request, {"wantReason": text})
    assert "FAIL" == placed(request, ON_NODE)[0]


def test_a_topology_without_nodes_is_an_input_too() -> None:
    request = {"topologyRequest": {"required": HOST}}
    text = f"no topology domains at level: {HOST}"
    assert ("PASS", "") == placed(request, {"wantReason": text}, nodes=None)


@pytest.mark.parametrize(
    ("flavor", "request_", "obstacle"),
    [
        ({"topologyName": "t"}, None, 'Flavor "h200" supports only TopologyAwareScheduling'),
        ({}, {"required": HOST}, 'Flavor "h200" does not support TopologyAwareScheduling'),
        (
            {"topologyName": "t"},
            {"required": "rack"},
            'Flavor "h200" does not contain the requested level',
        ),
        (
            {"topologyName": "unknown"},
            {"required": HOST},
            'Flavor "h200" information missing in TAS cache',
        ),
    ],
)
def test_a_flavor_is_rejected_for_its_topology_in_words_of_kueue(
    flavor: Json, request_: Json | None, obstacle: str
) -> None:
    asking = workload("w")
    (pod_set,) = asking["spec"]["podSets"]
    pod_set["topologyRequest"] = request_
    container = {"name": "c", "resources": {"requests": {"gpu": "1"}}}
    pod_set["template"]["spec"]["containers"] = [container]
    queue = cluster_queue()
    queue["spec"]["resourceGroups"][0]["flavors"].append(
        {"name": "plain", "resources": [{"name": "gpu", "nominalQuota": "0"}]}
    )
    inputs = {
        "clusterQueues": [queue],
        "targetClusterQueue": "cq",
        "workload": asking,
        "resourceFlavors": [
            {"metadata": {"name": "h200"}, "spec": flavor},
            {"metadata": {"name": "plain"}, "spec": {"nodeTaints": TAINTS}},
        ],
        "topologies": [{"metadata": {"name": "t"}, "spec": {"levels": [{"nodeLabel": HOST}]}}],
    }
    reasons = sorted([obstacle, _second(request_)])
    wanted = {"name": "main", "count": 1, "requests": {"gpu": "1"}, "status": {"reasons": reasons}}
    expected = {
        "wantRepMode": "NoFit",
        "wantAssignment": {"noFitReason": "NoMatchingFlavor", "podSets": [wanted]},
    }
    assert ("PASS", "") == verdict("flavorassigner/TestAssignFlavors", inputs, expected)


TAINTS = [{"key": "spot", "value": "yes", "effect": "NoSchedule"}]


def _second(request: Json | None) -> str:
    """Return the obstacle of the flavor without a topology."""
    if request is not None:
        return 'Flavor "plain" does not support TopologyAwareScheduling'
    return "untolerated taint {spot yes NoSchedule <nil>} in flavor plain"


def test_a_copy_stays_if_the_request_to_delete_it_fails() -> None:
    check = {"name": "ac1", "state": "Pending", "message": "", "lastTransitionTime": NOW}
    gone, copied = workload("w", admissionChecks=[check]), workload("w")
    gone["metadata"]["ownerReferences"] = [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    ]
    copied["metadata"]["labels"] = {"kueue.x-k8s.io/multikueue-origin": "multikueue"}
    inputs = {
        "reconcileFor": "w",
        "managersDeletedWorkloads": [gone],
        "useSecondWorker": True,
        "worker1Reconnecting": False,
        "worker2Reconnecting": False,
        "worker2Workloads": [copied],
    }
    objects = [f"want{at}{kind}s" for at in CLUSTERS for kind in ("Workload", "Job")]
    expected = dict.fromkeys(["wantError", "wantEvents", "wantResult", *objects])
    suite = "admissionchecks/multikueue-TestWlReconcile"
    assert ("PASS", "") == verdict(suite, inputs, expected)
    refused = inputs | {"worker2OnDeleteError": {"error": "no"}}
    kept = expected | {"wantWorker2Workloads": [copied], "wantError": {"error": "no"}}
    assert ("PASS", "") == verdict(suite, refused, kept)


CLUSTERS = ("Managers", "Worker1", "Worker2")


def test_recorded_objects_are_stored_unvalidated_and_later_writes_are_checked() -> None:
    async def story() -> None:
        api = FailingApi(VirtualClock())
        queue = cluster_queue() | {"kind": "ClusterQueue"}
        await api.hold([queue | {"spec": {"queueingStrategy": "Unknown"}}])
        with pytest.raises(Invalid):
            await api.patch(CLUSTER_QUEUES, Key("", "cq"), {"spec": {"stopPolicy": "Unknown"}})

    played(story())


def test_an_outcome_after_nomination_without_a_reason_returns_to_the_heap() -> None:
    entry = {"status": "skipped", "requeueReason": "", "quotaReservedReason": "WaitingForQuota"}
    conditions = [
        {"type": "QuotaReserved", "status": "False", "reason": "WaitingForQuota"},
        {"type": "Admitted", "status": "False", "reason": "NoReservation"},
    ]
    lq = {"metadata": {"name": "lq", "namespace": "team"}, "spec": {"clusterQueue": "cq"}}
    inputs = {
        "clusterQueues": [cluster_queue()],
        "localQueues": [lq],
        "namespaces": [{"metadata": {"name": "team"}}],
        "workloads": [workload("w")],
        "entry": {**entry, "inadmissibleMsg": "another head took the quota"},
    }
    status = {"conditions": conditions, "resourceRequests": [{"name": "main"}]}
    expected = {
        "wantInadmissible": None,
        "wantWorkloads": {"cq": ["team/w"]},
        "wantStatus": status,
        "wantStatusUpdates": 1,
    }
    assert ("PASS", "") == verdict("scheduler/TestRequeueAndUpdate", inputs, expected)


def test_a_fault_that_kueue_reports_for_all_jobs_and_for_pods_is_one_fault() -> None:
    config = {
        "integrations": {"frameworks": ["pod"]},
        "managedJobsNamespaceSelector": {"matchLabels": {"dep": "b"}, "matchExpressions": [{}]},
    }
    at = "managedJobsNamespaceSelector.matchExpressions[0]"
    faults = [
        {"type": "FieldValueInvalid", "field": f"{at}.operator"},
        {"type": "FieldValueInvalid", "field": f"{at}.key"},
    ]
    suite = "config/config-TestValidate"
    assert ("PASS", "") == verdict(suite, {"cfg": config}, {"wantErr": 2 * faults})
    assert "FAIL" == verdict(suite, {"cfg": config}, {"wantErr": 2 * faults[:1]})[0]


def test_all_retention_policies_of_a_reconciler_are_read() -> None:
    policy = {"afterFinished": "1m0s", "afterDeactivatedByKueue": "0s"}
    record = {"inputs": {"reconcilerOptions": {"workloadRetentionPolicy": policy}}}
    (run,) = Case("own", "jobs/job-TestReconciler", record).runs()
    rules = rules_of(run)
    assert (60.0, 0.0) == (rules.retain_finished_s, rules.retain_deactivated_s)
    assert [] == list(run.unread())


def test_resource_slices_are_among_the_objects_of_the_api() -> None:
    finished = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": ""}
    inputs = {
        "workload": workload("w", conditions=[finished | {"lastTransitionTime": NOW}]),
        "apiObjects": [{"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": {}}],
        "shouldDeleteCQ": False,
        "shouldDeleteLQ": False,
    }
    names = ("wantDRAResourceTotal", "wantError", "wantErrorMsg", "wantEvents")
    expected = dict.fromkeys((*names, "wantWorkload", "wantWorkloadsInQueue"))
    result = {"requeue": False, "requeueAfter": "0s"}
    found = verdict("controller/core-TestReconcileDRA", inputs, expected | {"wantResult": result})
    assert ("PASS", "") == found


def test_gates_without_effect_in_kuota_need_not_be_read() -> None:
    path = Path(__file__).parents[2] / "docs" / "migrate.md"
    listed = path.read_text(encoding="utf-8").partition("gates without effect:")[2]
    ignored = load_adapters()["util/tolerations-TestEqual"].ignores
    named = [each.removeprefix("gates.") for each in ignored if each.startswith("gates.")]
    assert named
    assert all(f"`{each}`" in listed.partition("<!-- end")[0] for each in named)
