# SPDX-License-Identifier: Apache-2.0
"""Builders of the objects for tests of controllers."""

from __future__ import annotations

from typing import Any

from kuota.api.base import Json

NAMESPACE = "team"


def condition(obj: Json, type_: str) -> Json:
    listed = (obj.get("status") or {}).get("conditions") or ()
    return next((each for each in listed if each["type"] == type_), {})


def namespace(name: str, **labels: str) -> Json:
    labels = {"kubernetes.io/metadata.name": name, **labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def flavor(name: str = "default", **spec: Any) -> Json:
    return _kueue("ResourceFlavor", name, spec)


def queue(name: str, cpu: int = 10, *, flavors: dict[str, int] | None = None, **spec: Any) -> Json:
    """A ClusterQueue with CPUs; `flavors` names several, in order."""
    quotas = [
        {"name": each, "resources": [{"name": "cpu", "nominalQuota": str(amount)}]}
        for each, amount in (flavors or {"default": cpu}).items()
    ]
    group = {"coveredResources": ["cpu"], "flavors": quotas}
    return _kueue("ClusterQueue", name, {"namespaceSelector": {}, "resourceGroups": [group]} | spec)


def cohort(name: str, **spec: Any) -> Json:
    return _kueue("Cohort", name, spec)


def local_queue(name: str = "main", cluster_queue: str = "cq", **spec: Any) -> Json:
    made = _kueue("LocalQueue", name, {"clusterQueue": cluster_queue} | spec)
    made["metadata"]["namespace"] = NAMESPACE
    return made


def check(name: str, controller: str = "example.com/check") -> Json:
    return _kueue("AdmissionCheck", name, {"controllerName": controller})


def workload_class(name: str, value: int) -> Json:
    made = _kueue("WorkloadPriorityClass", name, {}) | {"value": value}
    del made["spec"]
    return made


def priority_class(name: str, value: int) -> Json:
    named = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return named | {"metadata": {"name": name}, "value": value}


def job(
    name: str,
    cpu: str = "1",
    *,
    queue: str = "main",
    parallelism: int = 1,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    pod: Json | None = None,
    **spec: Any,
) -> Json:
    named = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"containers": [container], "restartPolicy": "Never"} | (pod or {})}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "labels": named | (labels or {}),
            "annotations": annotations or {},
        },
        "spec": {"suspend": True, "parallelism": parallelism, "template": template} | spec,
    }


def _kueue(kind: str, name: str, spec: Json) -> Json:
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
