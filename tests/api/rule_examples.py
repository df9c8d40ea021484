# SPDX-License-Identifier: Apache-2.0
"""One valid object of each kind, for tests to modify."""

from __future__ import annotations

import copy
from typing import Any

from kuota.api.base import Json
from kuota.api.faults import FieldError

V1BETA2 = "kueue.x-k8s.io/v1beta2"
V1BETA1 = "kueue.x-k8s.io/v1beta1"


def kueue(kind: str, spec: Json | None = None, version: str = V1BETA2, **top: Any) -> Json:
    obj: Json = {"apiVersion": version, "kind": kind, "metadata": {"name": "it"}, **top}
    return obj if spec is None else obj | {"spec": spec}


def group(*flavors: str, **quota: Any) -> Json:
    quotas = {"name": "cpu", "nominalQuota": 4} | quota
    return {
        "coveredResources": ["cpu"],
        "flavors": [{"name": each, "resources": [dict(quotas)]} for each in flavors or ("a",)],
    }


def pod_set(name: str = "main", count: int = 2, **more: Any) -> Json:
    resources = {"requests": {"cpu": "1"}}
    template = {"spec": {"containers": [{"name": "c", "resources": resources}]}}
    return {"name": name, "count": count, "template": template, **more}


def admission(*assignments: Json) -> Json:
    return {"clusterQueue": "cq", "podSetAssignments": list(assignments)}


def reserved(status: str = "True", kind: str = "QuotaReserved") -> Json:
    stamp = "2026-01-02T03:04:05Z"
    return {
        "type": kind,
        "status": status,
        "reason": "Test",
        "message": "",
        "lastTransitionTime": stamp,
    }


def workload(**spec: Any) -> Json:
    return kueue("Workload", {"podSets": [pod_set()], "queueName": "main"} | spec)


def admitted(*pod_sets: Json, **status: Any) -> Json:
    sets = list(pod_sets) or [pod_set()]
    assigned = [{"name": each["name"], "count": each["count"]} for each in sets]
    return kueue(
        "Workload",
        {"podSets": sets, "queueName": "main"},
        status={"admission": admission(*assigned), "conditions": [reserved()], **status},
    )


def job(spec: Json | None = None, **metadata: Any) -> Json:
    body: Json = {"suspend": True, "parallelism": 4, "completions": 4} | (spec or {})
    body.setdefault("template", {"spec": {"containers": []}})
    meta = {"name": "it", "labels": {"kueue.x-k8s.io/queue-name": "main"}} | metadata
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": body}


SOUND: tuple[Json, ...] = (
    workload(),
    admitted(),
    kueue("ClusterQueue", {"namespaceSelector": {}, "resourceGroups": [group()]}),
    kueue("Cohort", {"parentName": "root", "resourceGroups": [group(lendingLimit=9)]}),
    kueue("LocalQueue", {"clusterQueue": "cq"}),
    kueue(
        "ResourceFlavor",
        {
            "nodeLabels": {"kind": "gpu"},
            "nodeTaints": [{"key": "gpu", "effect": "NoSchedule"}],
            "tolerations": [{"key": "gpu", "operator": "Exists"}],
            "topologyName": "racks",
        },
    ),
    kueue("Topology", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}),
    kueue("AdmissionCheck", {"controllerName": "example.com/check"}),
    kueue("WorkloadPriorityClass", value=10),
    kueue("ProvisioningRequestConfig", {"provisioningClassName": "check-capacity"}),
    kueue("MultiKueueConfig", {"clusters": ["east", "west"]}),
    kueue("MultiKueueCluster", {"clusterSource": {"kubeConfig": {"location": "secret"}}}),
    kueue("ClusterQueue", {"cohort": "x", "admissionChecks": ["a"]}, V1BETA1),
    kueue("MultiKueueCluster", {"kubeConfig": {"location": "secret"}}, V1BETA1),
)


def spoilt(obj: Json, path: str, value: Any) -> Json:
    """A copy with the value put at a path such as `spec.levels.0.nodeLabel`."""
    result = copy.deepcopy(obj)
    *parents, last = (int(step) if step.isdigit() else step for step in path.split("."))
    node: Any = result
    for step in parents:
        node = node[step] if isinstance(step, int) else node.setdefault(step, {})
    node[last] = value
    return result


def said(faults: list[FieldError]) -> set[tuple[str, str]]:
    """Path and type of each fault, the latter without its common prefix."""
    return {(each.path, each.type.removeprefix("FieldValue")) for each in faults}
