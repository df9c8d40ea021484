# SPDX-License-Identifier: Apache-2.0
"""Defines the CEL rules of Workload. Most of them compare the old and the new object."""

from __future__ import annotations

from ..convert import WORKLOAD_CLASS_SOURCE
from .walk import CelRule, Rules


def _holds(who: str, condition: str) -> str:
    """Return the expression that `who` has the condition with status True."""
    return (
        f"(has({who}.status) && has({who}.status.conditions) && {who}.status.conditions"
        f".exists(c, c.type == '{condition}' && c.status == 'True'))"
    )


def _frozen(field: str) -> str:
    """Return the expression that an optional field of the spec is unchanged, or still absent."""
    return (
        f"(has(self.spec.{field}) == has(oldSelf.spec.{field})"
        f" && (!has(self.spec.{field}) || self.spec.{field} == oldSelf.spec.{field}))"
    )


_SPECS = "has(self.spec) && has(oldSelf.spec)"
_RESERVED_BEFORE = _holds("oldSelf", "QuotaReserved")
_RESERVED = f"{_holds('self', 'QuotaReserved')} && {_RESERVED_BEFORE}"
_ADMITTED = f"{_holds('self', 'Admitted')} && {_holds('oldSelf', 'Admitted')}"
_REFS = "has(self.spec.priorityClassRef) && has(oldSelf.spec.priorityClassRef)"

_ASSIGNED = CelRule(
    f"!({_holds('self', 'QuotaReserved')} && has(self.status.admission))"
    " || (has(self.spec) && has(self.spec.podSets)"
    " && has(self.status.admission.podSetAssignments)"
    " && size(self.status.admission.podSetAssignments) == size(self.spec.podSets))",
    "podSetAssignments must be as many as the podSets of the spec",
)
_SPEC = CelRule(
    f"!({_RESERVED_BEFORE} || ({_ADMITTED})) || ({_SPECS})",
    "spec cannot be added or removed while quota is reserved",
)
_QUEUE = CelRule(
    f"!({_SPECS} && {_RESERVED}) || {_frozen('queueName')}",
    "queueName cannot be changed while quota is reserved",
)
_EXECUTION_TIME = CelRule(
    f"!({_SPECS} && {_ADMITTED}) || {_frozen('maximumExecutionTimeSeconds')}",
    "maximumExecutionTimeSeconds cannot be changed while admitted",
)


def _ref_frozen(field: str) -> CelRule:
    same = f"self.spec.priorityClassRef.{field} == oldSelf.spec.priorityClassRef.{field}"
    return CelRule(
        f"!({_SPECS} && {_RESERVED_BEFORE} && {_REFS}) || {same}",
        f"{field} of priorityClassRef cannot be changed while quota is reserved",
    )


_PRIORITY_REF = (
    CelRule(
        f"!({_SPECS} && {_RESERVED_BEFORE})"
        " || has(self.spec.priorityClassRef) == has(oldSelf.spec.priorityClassRef)",
        "priorityClassRef cannot be added or removed while quota is reserved",
    ),
    _ref_frozen("group"),
    _ref_frozen("kind"),
    CelRule(
        f"!({_SPECS} && {_RESERVED_BEFORE} && {_REFS}"
        " && self.spec.priorityClassRef.group == 'scheduling.k8s.io'"
        " && self.spec.priorityClassRef.kind == 'PriorityClass')"
        " || self.spec.priorityClassRef.name == oldSelf.spec.priorityClassRef.name",
        "the name of a pod PriorityClass cannot be changed while quota is reserved",
    ),
)

_SOURCES = "has(self.spec.priorityClassSource) && has(oldSelf.spec.priorityClassSource)"
_NAMES = "has(self.spec.priorityClassName) && has(oldSelf.spec.priorityClassName)"

_PRIORITY_SOURCE = (
    CelRule(
        f"!({_SPECS} && {_RESERVED_BEFORE} && {_SOURCES})"
        " || self.spec.priorityClassSource == oldSelf.spec.priorityClassSource",
        "priorityClassSource cannot be changed while quota is reserved",
    ),
    CelRule(
        f"!({_SPECS} && {_RESERVED_BEFORE} && {_SOURCES} && {_NAMES})"
        f" || self.spec.priorityClassSource == '{WORKLOAD_CLASS_SOURCE}'"
        " || self.spec.priorityClassName == oldSelf.spec.priorityClassName",
        "the name of a pod PriorityClass cannot be changed while quota is reserved",
    ),
)

TOLERATIONS = (
    CelRule(
        "self.all(t, has(t.key) || (has(t.operator) && t.operator == 'Exists'))",
        "operator must be Exists when key is absent, which means to match all values and all keys",
    ),
    CelRule(
        "self.all(t, !has(t.tolerationSeconds) || (has(t.effect) && t.effect == 'NoExecute'))",
        "effect must be NoExecute when tolerationSeconds is set",
    ),
    CelRule(
        "self.all(t, !has(t.operator) || t.operator in ['Equal', 'Exists'])",
        "operator must be Equal or Exists",
    ),
    CelRule(
        "self.all(t, !has(t.operator) || t.operator != 'Exists' || !has(t.value))",
        "value must be absent when operator is Exists",
    ),
    CelRule(
        "self.all(t, !has(t.effect)"
        " || t.effect in ['NoSchedule', 'PreferNoSchedule', 'NoExecute'])",
        "effect must be NoSchedule, PreferNoSchedule or NoExecute",
    ),
)

_ONE_OF_TWO = CelRule(
    "has(self.universal) != has(self.individual)",
    "exactly one of universal and individual must be set",
)

_TOPOLOGY = "status.admission.podSetAssignments[].topologyAssignment"

_TOPOLOGY_ASSIGNMENT: Rules = {
    _TOPOLOGY: (
        CelRule(
            "self.slices.all(s, size(s.valuesPerLevel) == size(self.levels))",
            "each slice must have as many valuesPerLevel as there are levels",
        ),
    ),
    f"{_TOPOLOGY}.slices[]": (
        CelRule(
            "!has(self.podCounts.individual)"
            " || size(self.podCounts.individual) == self.domainCount",
            "podCounts.individual must have domainCount entries",
        ),
        CelRule(
            "self.valuesPerLevel.all(v, !has(v.individual)"
            " || size(v.individual.roots) == self.domainCount)",
            "the roots of every level must have domainCount entries",
        ),
    ),
    f"{_TOPOLOGY}.slices[].podCounts": (_ONE_OF_TWO,),
    f"{_TOPOLOGY}.slices[].valuesPerLevel[]": (_ONE_OF_TWO,),
}

_BOTH: Rules = {
    "spec.podSets[]": (
        CelRule(
            "!has(self.minCount) || self.minCount <= self.count",
            "minCount cannot be greater than count",
        ),
    ),
    "status": (
        CelRule(
            "!has(oldSelf.clusterName) || !has(self.clusterName)"
            " || self.clusterName == oldSelf.clusterName",
            "clusterName cannot be changed once set",
        ),
        CelRule(
            "!has(self.clusterName) || !has(self.nominatedClusterNames)"
            " || size(self.nominatedClusterNames) == 0",
            "clusterName and nominatedClusterNames exclude each other",
        ),
    ),
    "status.admissionChecks[].podSetUpdates[].tolerations": TOLERATIONS,
}

V1BETA2: Rules = {
    "": (_ASSIGNED, _SPEC, *_PRIORITY_REF, _QUEUE, _EXECUTION_TIME),
    "spec": (
        CelRule(
            "!has(self.priorityClassRef) || has(self.priority)",
            "priority must be set with priorityClassRef",
        ),
    ),
    "spec.priorityClassRef": (
        CelRule(
            "(self.group == 'scheduling.k8s.io') == (self.kind == 'PriorityClass')",
            "scheduling.k8s.io goes with PriorityClass, kueue.x-k8s.io with WorkloadPriorityClass",
        ),
    ),
    **_BOTH,
    **_TOPOLOGY_ASSIGNMENT,
}

V1BETA1: Rules = {
    "": (_ASSIGNED, _SPEC, *_PRIORITY_SOURCE, _QUEUE, _EXECUTION_TIME),
    "spec": (
        CelRule(
            "!has(self.priorityClassName) || has(self.priority)",
            "priority must be set with priorityClassName",
        ),
    ),
    **_BOTH,
}
