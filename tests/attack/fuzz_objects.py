# SPDX-License-Identifier: Apache-2.0
"""Objects to start from, odd values, and changes that break an object."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec

JOBS = "/apis/batch/v1/namespaces/vision/jobs"

MAPS = "/api/v1/namespaces/vision/configmaps"

PODS = "/api/v1/namespaces/vision/pods"

WORKLOADS = "/apis/kueue.x-k8s.io/v1beta2/namespaces/vision/workloads"

QUEUES = "/apis/kueue.x-k8s.io/v1beta2/clusterqueues"

COLLECTIONS = (JOBS, MAPS, PODS, WORKLOADS, QUEUES, "/api/v1/namespaces/vision/secrets")

JSON, YAML = "application/json", "application/yaml"

PROTOBUF = "application/vnd.kubernetes.protobuf"

MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"

JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"

PATCHES = (MERGE, STRATEGIC, JSON_PATCH, APPLY)


class Attempt(msgspec.Struct, frozen=True):
    """One request. `raw` replaces all other fields: bytes that need not be HTTP."""

    method: str = "GET"
    path: str = MAPS
    headers: dict[str, str] = {}
    body: bytes = b""
    raw: bytes = b""


Generator = Callable[[random.Random], Attempt]

ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63 - 1,
    2**63,
    2**64,
    10**30,
    -(10**30),
    1e308,
    0.1,
    "",
    " ",
    "a",
    "\x00",
    "a\x00b",
    "\ud83d\ude00",
    "x" * 300,
    "../../etc",
    "1e999999999",
    "9" * 400,
    "1e99",
    "-5",
    "0x10",
    [],
    {},
    [None],
    [[]],
    {"": None},
    {"a": {"b": None}},
    [1, "a", None, {}],
    "$(A)" * 9,
    {"f:spec": {}},
    "kueue.x-k8s.io/queue-name",
    "٣",
    "Infinity",
    "NaN",
    "true",
    "2026-13-45T99:99:99Z",
)


def job(name: str = "fuzzed") -> dict[str, Any]:
    container = {
        "name": "main",
        "image": "none",
        "command": ["true"],
        "env": [{"name": "A", "value": "b"}],
        "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
    }
    spec = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [
            {"name": "v", "configMap": {"name": "m", "items": [{"key": "a", "path": "b"}]}}
        ],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "nodeSelector": {"a": "b"},
        "affinity": {"nodeAffinity": {}},
        "securityContext": {"runAsUser": 1000},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "labels": {"kueue.x-k8s.io/queue-name": "main"},
            "annotations": {"a": "b"},
            "finalizers": [],
            "ownerReferences": [],
            "managedFields": [],
        },
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 0,
            "suspend": True,
            "ttlSecondsAfterFinished": 5,
            "activeDeadlineSeconds": 5,
            "completionMode": "Indexed",
            "podFailurePolicy": {
                "rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}]
            },
            "selector": None,
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec},
        },
    }


def workload() -> dict[str, Any]:
    template = {"spec": job()["spec"]["template"]["spec"]}
    pod_set = {
        "name": "main",
        "count": 1,
        "minCount": 1,
        "template": template,
        "topologyRequest": {},
    }
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": {"name": "fuzzed"},
        "spec": {"queueName": "main", "podSets": [pod_set], "active": True, "priority": 1},
        "status": {
            "conditions": [{"type": "Admitted", "status": "True"}],
            "requeueState": {"count": 1},
        },
    }


def config_map() -> dict[str, Any]:
    return {"kind": "ConfigMap", "metadata": {"name": "fuzzed"}, "data": {"a": "b"}}


def cluster_queue() -> dict[str, Any]:
    amount = {"name": "cpu", "nominalQuota": "1", "borrowingLimit": "1"}
    flavors = [{"name": "default", "resources": [amount]}]
    spec = {
        "cohortName": "c",
        "namespaceSelector": {
            "matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]
        },
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
        "preemption": {"withinClusterQueue": "Never", "borrowWithinCohort": {"policy": "Never"}},
        "fairSharing": {"weight": "1"},
    }
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "ClusterQueue",
        "metadata": {"name": "q"},
        "spec": spec,
    }


OBJECTS = ((JOBS, job), (WORKLOADS, workload), (MAPS, config_map), (QUEUES, cluster_queue))


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values within a document."""
    found = [path]
    if isinstance(value, dict):
        for key, each in value.items():
            found += places(each, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            found += places(each, (*path, at))
    return found


def mutated(rng: random.Random, document: Any) -> Any:
    """The document with a few values replaced, removed, renamed or repeated."""
    for _ in range(rng.randint(1, 3)):
        path = rng.choice(places(document))
        if not path:
            continue
        parent = document
        for step in path[:-1]:
            parent = parent[step]
        match rng.randrange(6):
            case 0 if isinstance(parent, dict):
                del parent[path[-1]]
            case 1 if isinstance(parent, dict):
                parent[rng.choice(["", "x" * 400, "\x00", "a/b/c", "Spec", "f:a"])] = deepcopy(
                    parent[path[-1]]
                )
            case 2 if isinstance(parent, list):
                parent.extend(deepcopy(parent) * rng.randint(1, 3))
            case _:
                parent[path[-1]] = value_of(rng)
    return document


def value_of(rng: random.Random) -> Any:
    return deepcopy(rng.choice(ODD_VALUES))


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()
