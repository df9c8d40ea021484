# SPDX-License-Identifier: Apache-2.0
"""Small questions about one pod: its gates, its group, its role, whether it is over.

A pod's role is the shape of its spec, so that pods of a group that ask for the same thing share
a pod set. The hash is Kueue's, bit for bit: a group may be queued by one and counted by the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from .base import Json, ObjectMeta, ResourceList
from .core import Container, Pod, PodSpec
from .match import integer
from .quantity import canonical, format_of, parse

RUN_AS = "kuota.dev/run-as-uid"
"""The user whose rights a pod's processes have: the server writes it, the runner obeys."""

GROUP_NAME = "kueue.x-k8s.io/pod-group-name"

# Order matters to the hash: these are the orders in which Kubernetes writes the fields.
_PORT = ("name", "hostPort", "containerPort", "protocol", "hostIP")
_CLAIM = ("name", "resourceClaimName", "resourceClaimTemplateName")
_SPREAD = (
    "maxSkew",
    "topologyKey",
    "whenUnsatisfiable",
    "labelSelector",
    "minDomains",
    "nodeAffinityPolicy",
    "nodeTaintsPolicy",
    "matchLabelKeys",
)


class LabelError(ValueError):
    """A label that should hold a number is missing or holds something else."""


def has_gate(spec: PodSpec, name: str) -> bool:
    return any(gate.get("name") == name for gate in spec.scheduling_gates or ())


def gated(spec: PodSpec, name: str) -> PodSpec:
    """The spec with that scheduling gate; the same object when it has it already."""
    if has_gate(spec, name):
        return spec
    gates = [*(spec.scheduling_gates or ()), {"name": name}]
    return msgspec.structs.replace(spec, scheduling_gates=gates)


def ungated(spec: PodSpec, name: str) -> PodSpec:
    """The spec without that scheduling gate; the same object when it has none."""
    if not has_gate(spec, name):
        return spec
    gates = [gate for gate in spec.scheduling_gates or () if gate.get("name") != name]
    return msgspec.structs.replace(spec, scheduling_gates=gates or None)


def is_terminated(pod: Pod) -> bool:
    """Whether the pod ran to its end, well or badly."""
    return pod.status.phase in ("Succeeded", "Failed")


def group_name(meta: ObjectMeta, *, annotations: bool = True) -> str:
    """The pod group, "" for a pod on its own. The annotation, where heeded, beats the label."""
    return (annotations and meta.annotation(GROUP_NAME)) or meta.label(GROUP_NAME)


def label_number(meta: ObjectMeta, label: str, bound: int | None = None) -> int:
    """The number in a label, from 0 to below `bound`. Raises LabelError."""
    text = (meta.labels or {}).get(label)
    if text is None:
        raise LabelError(f"label {label} is missing")
    value = integer(text)
    if value is None or not text.isdigit():
        raise LabelError(f"label {label}: {text!r} is not a number of 0 or more")
    if bound is not None and value >= bound:
        raise LabelError(f"label {label}: {value} is not below {bound}")
    return value


def role_hash(spec: PodSpec) -> str:
    """Eight hex digits that pods with the same shape share."""
    document = msgspec.json.encode({"spec": shape(spec)})
    return hashlib.sha256(document).hexdigest()[:8]


def shape(spec: PodSpec) -> Json:
    """What makes pods interchangeable for quota and placement, keys sorted, absent as None.

    Limits, images, commands and volumes are no part of it.
    """
    fields: Json = {
        "affinity": spec.affinity,
        "containers": _shapes(spec.containers),
        "initContainers": _shapes(spec.init_containers),
        "nodeSelector": _sorted(spec.node_selector),
        "overhead": _canonical(spec.overhead),
        "priority": spec.priority,
        "resourceClaims": _in_order(spec.resource_claims, _CLAIM),
        "runtimeClassName": spec.runtime_class_name,
        "tolerations": spec.tolerations,
        "topologySpreadConstraints": _in_order(spec.topology_spread_constraints, _SPREAD),
    }
    if spec.resources is not None:
        fields["resources"] = {"requests": _canonical(spec.resources.requests)}
    return _sorted(fields) or {}


def _shapes(containers: Iterable[Container] | None) -> list[Json] | None:
    if containers is None:
        return None
    return [
        {
            "ports": _in_order(each.ports, _PORT),
            "resources": {"requests": _canonical(each.resources.requests)},
        }
        for each in containers
    ]


def _canonical(resources: ResourceList | None) -> dict[str, str] | None:
    if resources is None:
        return None
    return {
        name: canonical(parse(quantity), format_of(quantity))
        for name, quantity in sorted(resources.items())
    }


def _sorted(fields: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if fields is None else dict(sorted(fields.items()))


def _in_order(some: list[Json] | None, order: tuple[str, ...]) -> list[Json] | None:
    if some is None:
        return None
    rank = {name: index for index, name in enumerate(order)}
    return [
        dict(sorted(each.items(), key=lambda item: rank.get(item[0], len(order)))) for each in some
    ]
