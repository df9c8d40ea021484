# SPDX-License-Identifier: Apache-2.0
"""Objects that no API server should have stored: valid ones with a few invalid fields."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from kuota.api.base import Json
from kuota.kube import resources as kinds
from kuota.kube.resources import Resource

Path = tuple[str | int, ...]

BAD = "bad"
_DELETE = "delete"
_REPEAT = "repeat"
_NONSENSE: tuple[Any, ...] = (
    None,
    "",
    "Nonsense",
    "a b",
    "-5",
    "1e400",
    "9" * 99,
    -1,
    0,
    2**70,
    -(2**70),
    1e300,
    True,
    [],
    {},
    [None],
    ["Nonsense"],
    {"Nonsense": "Nonsense"},
    {"key": "x", "operator": "Nonsense", "values": ["y"]},
)
_TELLING: tuple[Any, ...] = (_DELETE, _REPEAT, None, "", "Nonsense", -1, {}, [None])
_KEPT = ("name", "namespace", "uid", "resourceVersion")


def _kueue(kind: str, spec: Json, namespace: str = "", **more: Any) -> Json:
    meta = {"name": BAD, "uid": f"{kind}-{BAD}", "resourceVersion": "1", "generation": 1}
    if namespace:
        meta["namespace"] = namespace
    meta["creationTimestamp"] = "2026-01-02T03:04:05Z"
    return {"kind": kind, "metadata": meta, "spec": spec, **more}


def _groups(nominal: str) -> list[Json]:
    quota = {"name": "cpu", "nominalQuota": nominal, "borrowingLimit": "2", "lendingLimit": "1"}
    memory = {"name": "memory", "nominalQuota": "4Gi"}
    flavors = [{"name": BAD, "resources": [quota, memory]}]
    return [{"coveredResources": ["cpu", "memory"], "flavors": flavors}]


def _condition(type_: str) -> Json:
    return {
        "type": type_,
        "status": "True",
        "reason": "Test",
        "message": "",
        "lastTransitionTime": "2026-01-02T03:04:06Z",
    }


def _pod_set() -> Json:
    required = {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
        ]
    }
    spec = {
        "nodeSelector": {"zone": "a"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "tolerations": [{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        "runtimeClassName": BAD,
        "initContainers": [{"name": "i", "resources": {"requests": {"cpu": "1"}}}],
        "containers": [
            {
                "name": "c",
                "image": "i",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}},
            }
        ],
    }
    return {
        "name": "main",
        "count": 2,
        "minCount": 1,
        "topologyRequest": {"preferred": "rack", "podSetSliceSize": 1},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": spec},
    }


def _workload(**status: Any) -> Json:
    spec = {
        "queueName": BAD,
        "active": True,
        "priority": 5,
        "priorityClassRef": {"kind": "PriorityClass", "name": "p"},
        "podSets": [_pod_set()],
        "preemptionGates": [{"name": "gate"}],
    }
    return _kueue("Workload", spec, BAD, status=status)


def _reserved() -> Json:
    assigned = {
        "name": "main",
        "flavors": {"cpu": BAD, "memory": BAD},
        "resourceUsage": {"cpu": "2", "memory": "2Gi"},
        "count": 2,
        "topologyAssignment": {
            "levels": ["rack"],
            "slices": [{"domainCount": 1, "valuesPerLevel": [{"universal": "a"}]}],
        },
    }
    return _workload(
        admission={"clusterQueue": BAD, "podSetAssignments": [assigned]},
        conditions=[_condition("QuotaReserved"), _condition("Evicted")],
        admissionChecks=[{"name": BAD, "state": "Ready", "message": ""}],
        reclaimablePods=[{"name": "main", "count": 1}],
        requeueState={"count": 1, "requeueAt": "2026-01-02T03:04:07Z"},
        unhealthyNodes=[{"name": "n"}],
    )


def _node() -> Json:
    status = {
        "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
        "conditions": [_condition("Ready")],
    }
    taints = [{"key": "spot", "value": "true", "effect": "NoSchedule"}]
    node = _kueue("Node", {"taints": taints, "unschedulable": False}, status=status)
    node["metadata"] |= {"labels": {"zone": "a", "rack": "a"}, "annotations": {"a": "b"}}
    return node


def _pod() -> Json:
    spec = {
        "nodeName": BAD,
        "overhead": {"cpu": "1m"},
        "initContainers": [{"name": "i", "restartPolicy": "Always"}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}],
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "schedulingGates": [{"name": "gate"}],
    }
    return _kueue("Pod", spec, BAD, status={"phase": "Running", "conditions": []})


def manifests() -> list[tuple[Resource, Json]]:
    """A valid object of every kind that leads to a fact."""
    selector = {"matchExpressions": [{"key": "team", "operator": "In", "values": ["x"]}]}
    queue = {
        "cohortName": BAD,
        "namespaceSelector": selector | {"matchLabels": {"a": "b"}},
        "queueingStrategy": "BestEffortFIFO",
        "stopPolicy": "None",
        "resourceGroups": _groups("8"),
        "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
        "preemption": {
            "withinClusterQueue": "LowerPriority",
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 3},
        },
        "admissionChecksStrategy": {"admissionChecks": [{"name": BAD, "onFlavors": [BAD]}]},
        "fairSharing": {"weight": "2"},
        "admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"},
        "concurrentAdmissionPolicy": {"migration": {"mode": "TryPreferredFlavors"}},
    }
    cohort = {"parentName": "root", "resourceGroups": _groups("3"), "fairSharing": {"weight": "1"}}
    consumed = {"consumedResources": {"cpu": "3"}, "lastUpdate": "2026-01-02T03:04:05Z"}
    local = {"clusterQueue": BAD, "stopPolicy": "None", "fairSharing": {"weight": "1"}}
    flavor = {
        "nodeLabels": {"zone": "a"},
        "nodeTaints": [{"key": "spot", "value": "true", "effect": "NoSchedule"}],
        "tolerations": [{"key": "spot", "operator": "Equal", "value": "true"}],
        "topologyName": BAD,
    }
    limits = [
        {"type": "Container", "max": {"cpu": "4"}, "min": {"cpu": "100m"}, "default": {"cpu": "1"}}
    ]
    active = {"conditions": [_condition("Active")]}
    labels = {"a": "b", "team": "x"}
    namespace = _kueue("Namespace", {})
    namespace["metadata"]["labels"] = labels
    history = {"fairSharing": {"admissionFairSharingStatus": consumed}}
    runtime = _kueue("RuntimeClass", {}, overhead={"podFixed": {"cpu": "1"}}, handler="h")
    return [
        (kinds.NAMESPACES, namespace),
        (kinds.LIMIT_RANGES, _kueue("LimitRange", {"limits": limits}, BAD)),
        (kinds.RUNTIME_CLASSES, runtime),
        (kinds.TOPOLOGIES, _kueue("Topology", {"levels": [{"nodeLabel": "rack"}]})),
        (kinds.RESOURCE_FLAVORS, _kueue("ResourceFlavor", flavor)),
        (
            kinds.ADMISSION_CHECKS,
            _kueue("AdmissionCheck", {"controllerName": "example.com/x"}, status=active),
        ),
        (kinds.COHORTS, _kueue("Cohort", cohort)),
        (kinds.CLUSTER_QUEUES, _kueue("ClusterQueue", queue)),
        (kinds.LOCAL_QUEUES, _kueue("LocalQueue", local, BAD, status=history)),
        (kinds.NODES, _node()),
        (kinds.PODS, _pod()),
        (kinds.WORKLOADS, _workload()),
        (kinds.WORKLOADS, _named(_reserved(), "bad-reserved")),
    ]


def _named(obj: Json, name: str) -> Json:
    obj["metadata"] |= {"name": name, "uid": name}
    return obj


def _paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Every place of an object that may be broken. What tells it from others stays."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, each in items:
        if at == ("metadata",) and key in _KEPT:
            continue
        if at or key not in ("kind", "metadata"):
            yield (*at, key)
        yield from _paths(each, (*at, key))


def _broken(obj: Json, path: Path, how: Any) -> Json:
    """The object with one place deleted, repeated (of a list) or replaced by nonsense."""
    made = copy.deepcopy(obj)
    at: Any = made
    for key in path[:-1]:
        at = at[key]
    last = path[-1]
    if how == _DELETE:
        del at[last]
    elif how == _REPEAT:
        if isinstance(at, list):
            at.append(copy.deepcopy(at[last]))  # type: ignore[index]
    else:
        at[last] = copy.deepcopy(how)
    return made


def each_broken(obj: Json) -> Iterator[Json]:
    """The object broken in one place, for every place and the most telling kinds of nonsense."""
    for path in _paths(obj):
        for how in _TELLING:
            yield _broken(obj, path, how)


@st.composite
def broken(draw: st.DrawFn, obj: Json) -> Json:
    """The object, broken in one or two places."""
    for _ in range(draw(st.integers(1, 2))):
        path = draw(st.sampled_from(sorted(_paths(obj), key=str)))
        how = draw(st.sampled_from((_DELETE, _REPEAT, *_NONSENSE)))
        obj = _broken(obj, path, how)
    return obj


@st.composite
def clusters(draw: st.DrawFn) -> list[tuple[Resource, Json]]:
    """One object of every kind, up to three of them broken, in any order.

    Most are as they should be, so that what is broken is looked at by a cycle.
    """
    found = manifests()
    for _ in range(draw(st.integers(1, 3))):
        index = draw(st.integers(0, len(found) - 1))
        resource, obj = found[index]
        found[index] = resource, draw(broken(obj))
    return draw(st.permutations(found))
