# SPDX-License-Identifier: Apache-2.0
"""What the caches keep of Nodes and Pods, which are numerous and mostly irrelevant."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from kuota.api.base import Json
from kuota.api.core import Node
from kuota.api.rules.report import child, elements, mapping

_POD_META = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "labels",
    "annotations",
    "finalizers",
    "ownerReferences",
)
_POD_SPEC = ("nodeName", "nodeSelector", "schedulingGates", "tolerations", "overhead", "resources")
_CONTAINERS = ("initContainers", "containers")
_CONTAINER = ("name", "resources", "restartPolicy")
_POD_STATUS = ("phase", "conditions")
_BOOKKEEPING = "kubectl.kubernetes.io/last-applied-configuration"


def reduced_pod(pod: Json) -> Json:
    """Return a pod with the fields that say where it runs, what it uses and whom it belongs to.

    The result is valid input for `kuota.api.core.Pod`.
    """
    spec, status = child(pod, "spec"), child(pod, "status")
    meta = _some(child(pod, "metadata"), _POD_META)
    if _BOOKKEEPING in mapping(meta.get("annotations")):
        meta["annotations"] = {k: v for k, v in meta["annotations"].items() if k != _BOOKKEEPING}
    kept = _some(spec, _POD_SPEC)
    for field in _CONTAINERS:
        found = [_some(mapping(each), _CONTAINER) for each in elements(spec.get(field))]
        if found:
            kept[field] = found
    return {"metadata": meta, "spec": kept, "status": _some(status, _POD_STATUS)}


def _some(obj: Json, fields: tuple[str, ...]) -> Json:
    return {name: obj[name] for name in fields if name in obj}


def cached_node(node: Json) -> Node:
    """Return a node with what scheduling depends on. Heartbeats change only its revision."""
    found = msgspec.convert(node, Node)
    ready = [each for each in found.status.conditions or () if each.type == "Ready"]
    return replace(
        found,
        metadata=replace(found.metadata, annotations=None),
        status=replace(found.status, capacity=None, conditions=ready),
    )
