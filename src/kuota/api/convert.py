# SPDX-License-Identifier: Apache-2.0
"""Converts plain JSON objects between v1beta1 and v1beta2, in both directions.

A conversion accepts any object and keeps unknown fields. Fields that exist only in one version are
dropped. Fields of both versions survive a round trip. Kinds and fields that are not named here are
the same in both versions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from .base import Json
from .edits import Edit, edited, renamed, respelt, without
from .topology_codec import AssignedDomain, compact, expand
from .workload import TopologyAssignment

GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta1", "v1beta2")

WORKLOAD_CLASS_SOURCE = "kueue.x-k8s.io/workloadpriorityclass"

_REF_OF_SOURCE = {
    WORKLOAD_CLASS_SOURCE: ("kueue.x-k8s.io", "WorkloadPriorityClass"),
    "scheduling.k8s.io/priorityclass": ("scheduling.k8s.io", "PriorityClass"),
}
_SOURCE_OF_REF = {ref: source for source, ref in _REF_OF_SOURCE.items()}


def convert(obj: Json, version: str) -> Json:
    """Return `obj` in `version` ("v1beta1" or "v1beta2"). The argument is not changed.

    An object of another group, or one already in this version, is returned unchanged.
    """
    if version not in VERSIONS:
        raise ValueError(f"cannot convert to {version!r}: Kueue's versions are v1beta1 and v1beta2")
    group, _, current = str(obj.get("apiVersion", "")).partition("/")
    if group != GROUP or current not in VERSIONS or current == version:
        return obj
    converted = obj | {"apiVersion": f"{GROUP}/{version}"}
    edits = _UP if version == "v1beta2" else _DOWN
    for path, edit in edits.get(str(obj.get("kind", "")), ()):
        converted = edited(converted, path, edit)
    return converted


def _checks_to_strategy(spec: Json) -> Json:
    """Convert the checks. The list takes precedence, as v1beta1 allows only one of the two."""
    checks = spec.get("admissionChecks")
    kept = without("admissionChecks")(spec)
    if not isinstance(checks, list) or not checks:
        return kept
    strategy = {"admissionChecks": [{"name": name} for name in checks]}
    return kept | {"admissionChecksStrategy": strategy}


def _class_to_ref(spec: Json) -> Json:
    """Convert the priority class. A class name without a source is ambiguous and is dropped."""
    name = spec.get("priorityClassName")
    ref = _REF_OF_SOURCE.get(str(spec.get("priorityClassSource")))
    kept = without("priorityClassName", "priorityClassSource")(spec)
    if not name or ref is None:
        return kept
    group, kind = ref
    return kept | {"priorityClassRef": {"group": group, "kind": kind, "name": name}}


def _ref_to_class(spec: Json) -> Json:
    ref = spec.get("priorityClassRef")
    kept = without("priorityClassRef")(spec)
    if not isinstance(ref, dict):
        return kept
    source = _SOURCE_OF_REF.get((str(ref.get("group")), str(ref.get("kind"))))
    if source is None or not ref.get("name"):
        return kept
    return kept | {"priorityClassName": ref["name"], "priorityClassSource": source}


class _Domains(msgspec.Struct):
    domains: list[AssignedDomain] | None = None


def _domains_to_slices(assignment: Json) -> Json:
    """Convert the domains. An assignment in an unknown form is kept unchanged."""
    if "domains" not in assignment:
        return assignment
    try:
        plain = msgspec.convert(assignment, _Domains)
    except msgspec.ValidationError:
        return assignment
    levels = [str(level) for level in assignment.get("levels") or ()]
    slices = compact(levels, plain.domains or []).slices
    return without("domains")(assignment) | {"slices": msgspec.to_builtins(slices)}


def _slices_to_domains(assignment: Json) -> Json:
    if "slices" not in assignment:
        return assignment
    try:
        stored = msgspec.convert(assignment, TopologyAssignment)
    except msgspec.ValidationError:
        return assignment
    return without("slices")(assignment) | {"domains": msgspec.to_builtins(expand(stored))}


def _to_cluster_source(spec: Json) -> Json:
    """Convert the cluster source.

    A kubeConfig without a location means that there is none, because v1beta1 requires the field.
    """
    source = {}
    kube_config, profile = spec.get("kubeConfig"), spec.get("clusterProfileRef")
    if isinstance(kube_config, dict) and kube_config.get("location"):
        source["kubeConfig"] = kube_config
    if profile is not None:
        source["clusterProfileRef"] = profile
    return without("kubeConfig", "clusterProfileRef")(spec) | {"clusterSource": source}


def _from_cluster_source(spec: Json) -> Json:
    source = spec.get("clusterSource")
    source = source if isinstance(source, dict) else {}
    # v1beta1 requires kubeConfig, so a cluster with only a profile gets one without a location.
    parts = {"kubeConfig": source.get("kubeConfig") or {"location": ""}}
    if source.get("clusterProfileRef") is not None:
        parts["clusterProfileRef"] = source["clusterProfileRef"]
    return without("clusterSource")(spec) | parts


_ASSIGNMENT = "status.admission.podSetAssignments[].topologyAssignment"
_REQUEST = "spec.podSets[].topologyRequest"
_FUNGIBILITY = "spec.flavorFungibility"
SECONDS = "accumulatedPastExecutionTimeSeconds"
SECONDS_MISSPELT = "accumulatedPastExexcutionTimeSeconds"

Edits = Mapping[str, Sequence[tuple[str, Edit]]]

_UP: Edits = {
    "Workload": (
        ("spec", _class_to_ref),
        ("status", renamed(SECONDS_MISSPELT, SECONDS)),
        (_ASSIGNMENT, _domains_to_slices),
    ),
    "ClusterQueue": (
        ("spec", renamed("cohort", "cohortName")),
        ("spec", _checks_to_strategy),
        (_FUNGIBILITY, respelt("whenCanBorrow", {"Borrow": "MayStopSearch"})),
        (_FUNGIBILITY, respelt("whenCanPreempt", {"Preempt": "MayStopSearch"})),
        ("status", without("pendingWorkloadsStatus")),
        ("status.fairSharing", without("admissionFairSharingStatus")),
    ),
    "Cohort": (("status.fairSharing", without("admissionFairSharingStatus")),),
    "LocalQueue": (
        ("status", without("flavors")),
        ("status", renamed("flavorUsage", "flavorsUsage")),
    ),
    "AdmissionCheck": (("spec", without("retryDelayMinutes")),),
    "MultiKueueCluster": (("spec", _to_cluster_source),),
}

_DOWN: Edits = {
    "Workload": (
        ("spec", _ref_to_class),
        ("spec", without("preemptionGates")),
        (_REQUEST, without("podsetSliceRequiredTopologyConstraints")),
        ("status", renamed(SECONDS, SECONDS_MISSPELT)),
        ("status", without("preemptionGates")),
        (_ASSIGNMENT, _slices_to_domains),
    ),
    "ClusterQueue": (
        ("spec", renamed("cohortName", "cohort")),
        ("spec", without("concurrentAdmissionPolicy")),
    ),
    "LocalQueue": (("status", renamed("flavorsUsage", "flavorUsage")),),
    "MultiKueueCluster": (("spec", _from_cluster_source),),
    "MultiKueueConfig": (("spec", without("quotaManagement")),),
}
