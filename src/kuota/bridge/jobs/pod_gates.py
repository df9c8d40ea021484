# SPDX-License-Identifier: Apache-2.0
"""Scheduling gates and other marks of pods that Kuota queues."""

from __future__ import annotations

from kuota.api.base import Json
from kuota.api.rules.metadata import PREFIX, annotation
from kuota.api.rules.pod import ADMISSION_GATE, MANAGED, SUSPENDING_PARENT
from kuota.api.rules.report import child, elements, mapping, text

from .role_hash import role_hash

FINALIZER = MANAGED
"""Keeps a deleted pod until its result has been recorded."""
TOPOLOGY_GATE = f"{PREFIX}topology"
ROLE_HASH = f"{PREFIX}role-hash"
POD_INDEX = f"{PREFIX}pod-group-pod-index"
POD_INDEX_SOURCE = f"{PREFIX}pod-group-pod-index-label"


def has_gate(pod: Json, name: str) -> bool:
    gates = elements(child(pod, "spec").get("schedulingGates"))
    return any(mapping(each).get("name") == name for each in gates)


def with_gate(pod: Json, name: str) -> Json:
    """Return the pod with a scheduling gate. The same object is returned if it has the gate."""
    if has_gate(pod, name):
        return pod
    spec = child(pod, "spec")
    gates = [*elements(spec.get("schedulingGates")), {"name": name}]
    return pod | {"spec": spec | {"schedulingGates": gates}}


def without_gate(pod: Json, name: str) -> Json:
    """Return the pod without a scheduling gate; the same object if it does not have it."""
    if not has_gate(pod, name):
        return pod
    spec = dict(child(pod, "spec"))
    gates = elements(spec.pop("schedulingGates"))
    left = [each for each in gates if mapping(each).get("name") != name]
    return pod | {"spec": spec | ({"schedulingGates": left} if left else {})}


def gated(pod: Json) -> bool:
    """Whether the pod waits for admission."""
    return has_gate(pod, ADMISSION_GATE)


def ungated(pod: Json) -> Json:
    """Return the pod without the gates that Kuota added; the same object if it has none."""
    return without_gate(without_gate(pod, ADMISSION_GATE), TOPOLOGY_GATE)


def role(pod: Json) -> str:
    """Return the role of a pod: its annotation, or a hash of its spec."""
    named = annotation(pod, ROLE_HASH)
    return role_hash(child(pod, "spec")) if named is None else named


def managed(pod: Json) -> bool:
    """Whether the pod is queued. The webhook labels such pods."""
    return child(pod, "metadata", "labels").get(MANAGED) == "true"


def has_parent(pod: Json) -> bool:
    """Whether the pod is gated by the integration of its controller, such as a Deployment."""
    return bool(annotation(pod, SUSPENDING_PARENT))


def finalized(pod: Json) -> Json:
    """Return the pod without the finalizer; the same object if it does not have it."""
    meta = child(pod, "metadata")
    held = elements(meta.get("finalizers"))
    if FINALIZER not in held:
        return pod
    return pod | {"metadata": meta | {"finalizers": [each for each in held if each != FINALIZER]}}


def deleting(pod: Json) -> bool:
    return bool(child(pod, "metadata").get("deletionTimestamp"))


def uid(pod: Json) -> str:
    return text(child(pod, "metadata").get("uid"))
