# SPDX-License-Identifier: Apache-2.0
"""Nodes, and pods that no topology places -> the engine's model."""

from __future__ import annotations

from collections.abc import Collection

from kuota.api.base import is_true
from kuota.api.core import ENDED, Node, Pod
from kuota.api.quantity import units
from kuota.api.resources import pod_amounts
from kuota.api.rules.topology import (
    PREFERRED,
    REQUIRED,
    SLICE_LAYERS,
    SLICE_REQUIRED,
    UNCONSTRAINED,
)
from kuota.engine import model

_PLACED = (PREFERRED, REQUIRED, SLICE_LAYERS, SLICE_REQUIRED, UNCONSTRAINED)


def node(obj: Node) -> model.Node:
    """Return the node. Heartbeats do not change the result."""
    allocatable = obj.status.allocatable or {}
    return model.Node(
        name=obj.metadata.name,
        labels=obj.metadata.labels or {},
        taints=tuple(obj.spec.taints or ()),
        allocatable={name: units(amount, name) for name, amount in allocatable.items()},
        ready=is_true(obj.status.conditions, "Ready"),
        unschedulable=obj.spec.unschedulable,
    )


def pod_usage(pod: Pod) -> model.PodUsage | None:
    """Return what a pod uses on its node, or None if it uses nothing there or is placed by us."""
    if placed_by_topology(pod) or not pod.spec.node_name or pod.status.phase in ENDED:
        return None
    requests = pod_amounts(pod.spec)
    return model.PodUsage(key=pod.metadata.key, node=pod.spec.node_name, requests=requests)


def placed_by_topology(pod: Pod) -> bool:
    """Whether the pod has a topology annotation, which placed pods of all workloads have."""
    return topology_annotated(pod.metadata.annotations or {})


def topology_annotated(annotations: Collection[str]) -> bool:
    """Whether these annotations of a pod say that its node is chosen by its topology request."""
    return any(name in annotations for name in _PLACED)
