# SPDX-License-Identifier: Apache-2.0
"""Variants: Workloads that each try one flavor for a parent, which is not queued itself.

A variant copies the spec of its parent. If they differ, the parent's spec takes precedence.
"""

from __future__ import annotations

from typing import Any

from kuota.api.base import Json, Key, ObjectMeta, OwnerReference, true_condition
from kuota.api.gates import Gate, Gates
from kuota.api.kueue import V1BETA2
from kuota.api.merge_patch import difference
from kuota.api.priority import BOOST
from kuota.api.rules.metadata import ADMISSION_GATED_BY, PREFIX
from kuota.api.rules.report import child
from kuota.api.workload import Workload
from kuota.bridge.job_pass.names import variant_name
from kuota.engine.reasons import EvictionReason

from .draft import StoredWorkload
from .effects import WORKLOAD

ALLOWED_FLAVORS = PREFIX + "workload-allowed-resource-flavors"
VARIANT_PARENT = PREFIX + "concurrent-admission-parent"
PREEMPTION_GATE = PREFIX + "concurrent-admission"

BY_VARIANTS = (EvictionReason.VARIANT_EVICTED, EvictionReason.NO_VARIANT)
BY_PARENT = EvictionReason.PODS_READY_TIMEOUT
"""Why a parent is evicted with its variant, and a variant with its parent, which has the pods."""

_OWN_FIELDS = ("active", "preemptionGates")
_COPIED_ANNOTATIONS = (ADMISSION_GATED_BY, BOOST)
_MUTABLE_WITH_QUOTA = {"priority", "priorityClassRef"}


def parent_of(meta: ObjectMeta) -> OwnerReference | None:
    """Return the parent of a variant; None for any other Workload."""
    for owner in meta.owner_references or ():
        if owner.kind == WORKLOAD and owner.controller:
            return owner
    return None


def is_parent(meta: ObjectMeta) -> bool:
    """Whether variants are queued and have quota instead of it."""
    return meta.label(VARIANT_PARENT) == "true"


def follows(obj: Workload) -> bool:
    """Whether it is evicted only because its parent or another variant was."""
    found = true_condition(obj.status.conditions, "Evicted")
    if found is None:
        return False
    if is_parent(obj.metadata):
        return found.reason in BY_VARIANTS
    return found.reason == BY_PARENT and parent_of(obj.metadata) is not None


def flavor_of(stored: StoredWorkload) -> str:
    """Return the flavor that a variant tries: the first that its annotation lists."""
    return stored.obj.metadata.annotation(ALLOWED_FLAVORS).partition(",")[0].strip()


def variant(parent: StoredWorkload, flavor: str, gates: Gates) -> tuple[Key, Json]:
    """Return a new variant of the parent. It may not preempt before its gate is opened."""
    meta, spec = parent.obj.metadata, child(parent.json, "spec")
    short = gates.on(Gate.ShortWorkloadNames)
    key = Key(meta.namespace, variant_name(meta.name, meta.uid, flavor, short=short))
    labels = {name: each for name, each in (meta.labels or {}).items() if name != VARIANT_PARENT}
    gated = [*(spec.get("preemptionGates") or ()), {"name": PREEMPTION_GATE}]
    owner = {"apiVersion": V1BETA2, "kind": WORKLOAD, "name": meta.name, "uid": meta.uid}
    made: Json = {
        "name": key.name,
        "namespace": key.namespace,
        "labels": labels,
        "annotations": (meta.annotations or {}) | {ALLOWED_FLAVORS: flavor},
        "ownerReferences": [owner | {"controller": True, "blockOwnerDeletion": True}],
    }
    if not labels:
        del made["labels"]
    named = {"apiVersion": V1BETA2, "kind": WORKLOAD, "metadata": made}
    return key, named | {"spec": spec | {"preemptionGates": gated}}


def update_from_parent(parent: StoredWorkload, stored: StoredWorkload) -> Json:
    """Return the merge patch that updates a variant to its parent; empty if not needed."""
    spec = difference(_shared_spec(stored), _shared_spec(parent))
    ours, theirs = stored.obj.metadata, parent.obj.metadata
    notes = {
        name: theirs.annotation(name) or None
        for name in _COPIED_ANNOTATIONS
        if ours.annotation(name) != theirs.annotation(name)
    }
    patch: dict[str, Any] = {"spec": spec} if spec else {}
    return patch | ({"metadata": {"annotations": notes}} if notes else {})


def rejects_update(stored: StoredWorkload, patch: Json) -> bool:
    """Whether the patch cannot be applied, because the variant has quota for its present spec."""
    return stored.reserved and not child(patch, "spec").keys() <= _MUTABLE_WITH_QUOTA


def _shared_spec(stored: StoredWorkload) -> Json:
    spec = child(stored.json, "spec")
    return {name: each for name, each in spec.items() if name not in _OWN_FIELDS}
