# SPDX-License-Identifier: Apache-2.0
"""Objects of a plan in stored form, and what they say about each other."""

from __future__ import annotations

from collections.abc import Iterator

from kuota.api import kueue
from kuota.api.base import Json, Key, group_of
from kuota.api.convert import convert
from kuota.api.defaults import defaulted
from kuota.api.gates import Gates
from kuota.api.rules.references import namespace_of
from kuota.api.rules.report import child, elements, text
from kuota.bridge.jobs.ancestor import group_kind
from kuota.bridge.jobs.kind import JobKey
from kuota.bridge.jobs.registry import ALL
from kuota.engine import model

_GROUPS = {each.gvk.kind: each.gvk.group for each in ALL} | {
    "LimitRange": "",
    "Namespace": "",
    "Node": "",
    "PriorityClass": "scheduling.k8s.io",
    "RuntimeClass": "node.k8s.io",
}
NAMESPACED = frozenset({"LocalQueue", "Workload", "LimitRange"}) | {each.gvk.kind for each in ALL}


def stored_object(obj: Json, gates: Gates) -> Json:
    """The object in stored form, in the newer version; empty for other kinds."""
    if group_of(text(obj.get("apiVersion"))) != _GROUPS.get(text(obj.get("kind")), kueue.GROUP):
        return {}
    stored = defaulted(convert(obj, "v1beta2"), gates)
    metadata = stored.get("metadata")
    if stored.get("kind") in NAMESPACED and isinstance(metadata, dict):
        stored = stored | {"metadata": {"namespace": namespace_of(stored)} | metadata}
    return stored


def namespace_object(namespace: model.Namespace) -> Json:
    metadata = {"name": namespace.name, "labels": namespace.labels}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def owners(workload: Json) -> Iterator[JobKey]:
    for owner in elements(child(workload, "metadata").get("ownerReferences")):
        if isinstance(owner, dict):
            key = Key(namespace_of(workload), text(owner.get("name")))
            yield JobKey(group_kind(owner), key)


def bound(obj: Json) -> bool:
    """Whether the object is bound to a node. It uses the node, and is not queued any more."""
    return bool(child(obj, "spec").get("nodeName"))
